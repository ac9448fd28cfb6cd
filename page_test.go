package cleave

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A page looks into a few shards first. Most of these are empty, so it has to look
// into more, up to all of them.
func TestAPageIsTheSameWhereverShardsBegin(t *testing.T) {
	db := small(t, 2)
	defer mustClose(t, db)
	ks := rangeSpace(t, db, "pages")
	const shards, every = 300, 40
	var at, keys [][]byte
	for i := range shards {
		if i > 0 {
			at = append(at, number(10*i))
		}
		if i%every == 0 {
			keys = append(keys, number(10*i), number(10*i+1))
			must(t, ks.Set(ctx, number(10*i), nil))
			must(t, ks.Set(ctx, number(10*i+1), nil))
		}
	}
	job, err := db.Start(ctx, Split{Keyspace: ks, At: at})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	for _, reverse := range []bool{false, true} {
		want := slices.Clone(keys)
		if reverse {
			slices.Reverse(want)
		}
		for _, limit := range []int{1, 3, len(keys), 2000} {
			o := ScanOptions{Limit: limit, Reverse: reverse}
			page, err := ks.Scan(ctx, o)
			must(t, err)
			samePage(t, fmt.Sprint("Scan ", o), page.Items, want[:min(limit, len(want))])
			must(t, db.Update(ctx, func(tx *Txn) error {
				var items []Item
				for item, err := range tx.Scan(ks, o) {
					if err != nil {
						return err
					}
					items = append(items, item)
				}
				samePage(t, fmt.Sprint("Txn.Scan ", o), items, want[:min(limit, len(want))])
				return tx.Set(ks, want[0], nil)
			}))
		}
	}
}

func samePage(t *testing.T, what string, got []Item, want [][]byte) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(item Item, key []byte) bool { return bytes.Equal(item.Key, key) }) {
		t.Errorf("%s: %d keys, want %d", what, len(got), len(want))
	}
}

// Fields lie behind the key that is locked for them: whoever reads one in a view sees
// what was decided about the key.
func TestAViewSeesFieldsOfDecidedTransactions(t *testing.T) {
	db := small(t, 3)
	defer mustClose(t, db)
	ks, keys := db.Default(), marks(db)
	name, other := []byte("n"), []byte("o")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			must(t, db.Update(ctx, func(tx *Txn) error {
				for _, key := range keys {
					if _, err := tx.HAdd(ks, key, name, 1); err != nil {
						return err
					}
					if _, err := tx.HAdd(ks, key, other, 1); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	})
	for range soaking(300) {
		must(t, db.View(ctx, func(tx *Txn) error {
			seen := map[string]bool{}
			for _, key := range keys {
				one, _ := tx.HGet(ks, key, name)
				fields, err := tx.HGetAll(ks, key)
				if err != nil {
					return err
				}
				for _, f := range fields {
					seen[string(f.Value)] = true
				}
				seen[string(one)] = true
			}
			if len(seen) != 1 {
				t.Errorf("a view of several moments: %v", seen)
			}
			return nil
		}))
	}
	close(stop)
	wg.Wait()
}
