package cleave

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// stretches returns a scan for each hundred keys.
func stretches(n int) (scans []ScanOptions) {
	for i := range n {
		scans = append(scans, ScanOptions{Start: numberKey(100 * i), End: numberKey(100 * (i + 1))})
	}
	return scans
}

// Transfers across stores are under way, locked and decided, while several ranges are read at the same time: all
// of them are of one moment.
func TestScanPages_OfAView_AreOfOneMomentWhileOthersWrite(t *testing.T) {
	db := openSmall(t, 2)
	defer mustClose(t, db)
	ks := rangeSpace(t, db, "r")
	const ranges, each, start = 8, 3, 100
	mustDo(t, db, SplitAtKeys(ks, numberKey(200), numberKey(400), numberKey(600)))
	mustDo(t, db, Move{Shard: shardAt(ks, string(numberKey(400))), To: groupOnOtherStore(ks, string(numberKey(0)))})
	for i := range ranges {
		for j := range each {
			must(t, ks.Set(ctx, numberKey(100*i+j), []byte(strconv.Itoa(start))))
		}
	}
	var stop atomic.Bool
	var transfers sync.WaitGroup
	for w := range 3 {
		transfers.Go(func() {
			for i := w; !stop.Load(); i += 3 {
				from, to := numberKey(100*(i%ranges)+i%each), numberKey(100*((i*5+3)%ranges)+(i+1)%each)
				if slices.Equal(from, to) {
					continue
				}
				if err := db.Update(ctx, func(tx *Txn) error {
					if _, err := tx.Add(ks, from, -1); err != nil {
						return err
					}
					_, err := tx.Add(ks, to, 1)
					return err
				}); err != nil {
					t.Errorf("transfer: %v", err)
					return
				}
			}
		})
	}
	for range 200 {
		must(t, db.View(ctx, func(tx *Txn) error {
			pages, err := tx.ScanPages(ks, stretches(ranges)...)
			if err != nil {
				return err
			}
			sum := 0
			for i, page := range pages {
				if len(page.Items) != each || page.Next != nil || string(page.Items[0].Key) != string(numberKey(100*i)) {
					t.Errorf("range %d: %d keys from %s", i, len(page.Items), page.Items[0].Key)
				}
				for _, item := range page.Items {
					n, err := strconv.Atoi(string(item.Value))
					must(t, err)
					sum += n
				}
			}
			if sum != ranges*each*start {
				t.Errorf("the sum is %d, want %d", sum, ranges*each*start)
			}
			return nil
		}))
	}
	stop.Store(true)
	transfers.Wait()
}

func TestScanPages_AreThePagesOfEachScan(t *testing.T) {
	db := openSmall(t, 2)
	defer mustClose(t, db)
	ks := rangeSpace(t, db, "r")
	for i := range 250 {
		must(t, ks.Set(ctx, numberKey(i), []byte("v")))
	}
	scans := append(stretches(3), ScanOptions{Limit: 100, Reverse: true}, ScanOptions{Limit: 250}, ScanOptions{Limit: 2, KeysOnly: true})
	check := func(tx *Txn) error {
		pages, err := tx.ScanPages(ks, scans...)
		if err != nil {
			return err
		}
		for i, o := range scans {
			want, err := ks.ScanPage(ctx, o)
			must(t, err)
			if got, want := fmt.Sprint(pages[i]), fmt.Sprint(want); got != want {
				t.Errorf("scan %d: %s, want %s", i, got, want)
			}
		}
		return nil
	}
	must(t, db.View(ctx, check))
	must(t, db.Update(ctx, check))
	for _, run := range []func(func(*Txn) error) error{
		func(f func(*Txn) error) error { return db.View(ctx, f) },
		func(f func(*Txn) error) error { return db.Update(ctx, f) },
	} {
		must(t, run(func(tx *Txn) error {
			if pages, err := tx.ScanPages(ks); len(pages) != 0 || err != nil {
				t.Errorf("no scans: %v, %v", pages, err)
			}
			if _, err := tx.ScanPages(ks, ScanOptions{}, ScanOptions{Limit: -1}); err == nil {
				t.Error("a bad scan was not refused")
			}
			return nil
		}))
	}
}

// In a transaction that writes, what was visited counts as read.
func TestScanPages_OfAnUpdate_AreValidated(t *testing.T) {
	db := openSmall(t, 2)
	defer mustClose(t, db)
	ks := rangeSpace(t, db, "r")
	for come, want := range map[int]int{250: 2, 350: 1} { // one that comes into a range that was read, and one that comes behind
		attempts := 0
		must(t, db.Update(ctx, func(tx *Txn) error {
			attempts++
			pages, err := tx.ScanPages(ks, stretches(3)...)
			if err != nil {
				return err
			}
			if attempts == 1 {
				must(t, ks.Set(ctx, numberKey(come), nil))
			}
			return tx.Set(ks, numberKey(999), fmt.Append(nil, len(pages)))
		}))
		if attempts != want {
			t.Errorf("a key that comes to %d: %d attempts, want %d", come, attempts, want)
		}
	}
}
