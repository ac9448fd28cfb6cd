package cleave

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func parseAmount(t testing.TB, b []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(b))
	must(t, err)
	return n
}

// runParallel runs f on several goroutines.
func runParallel(n int, f func(i int, rng *rand.Rand)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i, rand.New(rand.NewPCG(uint64(i), 3))) })
	}
	wg.Wait()
}

// Money moves between accounts, some of which come and go. A reader of all
// of them at once sees the same sum.
func TestTransfersKeepTheSum(t *testing.T) {
	const accounts, each = 8, 100
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "accounts")
	for i := range accounts {
		_, err := ks.Add(ctx, numberKey(i), each)
		must(t, err)
	}
	sum := func(tx *Txn, o ScanOptions) (total int) {
		for item, err := range tx.Scan(ks, o) {
			must(t, err)
			total += parseAmount(t, item.Value)
		}
		return total
	}
	var done atomic.Bool
	views := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for ; !done.Load(); views++ {
			must(t, db.View(ctx, func(tx *Txn) error {
				if got := sum(tx, ScanOptions{Reverse: views%2 == 0}); got != accounts*each {
					t.Errorf("a view sees %d, want %d", got, accounts*each)
				}
				return nil
			}))
			total := 0
			for item, err := range ks.Scan(ctx, ScanOptions{}) {
				must(t, err)
				total += parseAmount(t, item.Value)
			}
			if total != accounts*each {
				t.Errorf("a scan sees %d, want %d", total, accounts*each)
			}
		}
	})
	var attempts atomic.Int64
	runParallel(4, func(_ int, rng *rand.Rand) {
		for range scaleRounds(60) {
			from, to := numberKey(rng.IntN(accounts)), numberKey(rng.IntN(accounts))
			must(t, db.Update(ctx, func(tx *Txn) error {
				attempts.Add(1)
				return transferMoney(tx, ks, from, to, 1+rng.IntN(50))
			}))
		}
	})
	done.Store(true)
	wg.Wait()
	must(t, db.Update(ctx, func(tx *Txn) error {
		if got := sum(tx, ScanOptions{}); got != accounts*each {
			t.Errorf("at the end there is %d, want %d", got, accounts*each)
		}
		return nil
	}))
	t.Logf("%d attempts for %d transfers under %d views", attempts.Load(), 4*scaleRounds(60), views)
	if views == 0 {
		t.Error("no views: the test shows nothing")
	}
}

// transferMoney moves money. An empty account is deleted.
func transferMoney(tx *Txn, ks *Keyspace, from, to []byte, n int) error {
	text, err := tx.Get(ks, from)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	have, _ := strconv.Atoi(string(text))
	n = min(n, have)
	if _, err := tx.Add(ks, to, int64(n)); err != nil {
		return err
	}
	left, err := tx.Add(ks, from, -int64(n))
	if err == nil && left == 0 {
		_, err = tx.Delete(ks, from)
	}
	return err
}

// Two doctors: each goes off duty only if the other is on.
func TestNoWriteSkew(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	doctors := [][]byte{[]byte("{d}1"), []byte("{d}2")}
	for round := range scaleRounds(60) {
		for _, d := range doctors {
			must(t, ks.Set(ctx, d, []byte("on")))
		}
		runParallel(2, func(i int, _ *rand.Rand) {
			must(t, db.Update(ctx, func(tx *Txn) error {
				other, err := tx.Get(ks, doctors[1-i])
				if err != nil || string(other) != "on" {
					return err
				}
				return tx.Set(ks, doctors[i], []byte("off"))
			}))
		})
		a, _ := ks.Get(ctx, doctors[0])
		b, _ := ks.Get(ctx, doctors[1])
		if string(a) == "off" && string(b) == "off" {
			t.Fatalf("round %d: nobody is on duty", round)
		}
	}
}

// Each client books if fewer than so many booked before. However the scan is
// limited: what it did not find counts.
func TestNoPhantoms(t *testing.T) {
	for name, o := range map[string]ScanOptions{
		"whole":           {Prefix: []byte("b/")},
		"limit":           {Prefix: []byte("b/"), Limit: 10},
		"reverse limit":   {Prefix: []byte("b/"), Limit: 10, Reverse: true},
		"start and end":   {Start: []byte("b/"), End: []byte("b0"), Limit: 4},
		"reverse, no end": {Start: []byte("b/"), Limit: 10, Reverse: true},
	} {
		t.Run(name, func(t *testing.T) {
			db := openSmall(t, 1)
			ks := rangeSpace(t, db, "bookings")
			const seats = 3
			for round := range scaleRounds(15) {
				must(t, ks.Set(ctx, []byte("a"), nil))
				runParallel(4, func(i int, rng *rand.Rand) {
					must(t, db.Update(ctx, func(tx *Txn) error {
						n := 0
						for _, err := range tx.Scan(ks, o) {
							if err != nil {
								return err
							}
							n++
						}
						if n >= seats {
							return nil
						}
						return tx.Set(ks, fmt.Appendf(nil, "b/%d", i), nil)
					}))
				})
				page, err := ks.ScanPage(ctx, ScanOptions{Prefix: []byte("b/")})
				must(t, err)
				if len(page.Items) != seats {
					t.Fatalf("round %d: %d booked, want %d", round, len(page.Items), seats)
				}
				for _, item := range page.Items {
					_, err := ks.Delete(ctx, item.Key)
					must(t, err)
				}
			}
		})
	}
}

// What a scan has looked at is a read, and what is behind it is not: exactly.
func TestAScanConflictsWithWhatItHasSeen(t *testing.T) {
	key := func(s string) []byte { return []byte(s) }
	for _, c := range []struct {
		name     string
		o        ScanOptions
		take     int // leave the loop after so many; 0 for never
		write    string
		conflict bool
	}{
		{"a new key in the middle", ScanOptions{}, 0, "bb", true},
		{"a new key at the end", ScanOptions{}, 0, "zz", true},
		{"a new key at the end of a limit that was not reached", ScanOptions{Limit: 4}, 0, "zz", true},
		{"a new key behind a limit that was reached", ScanOptions{Limit: 3}, 0, "zz", false},
		{"a change of the last key of a limit", ScanOptions{Limit: 2}, 0, "b", true},
		{"a change behind a limit", ScanOptions{Limit: 2}, 0, "c", false},
		{"a new key before the start", ScanOptions{Start: key("b")}, 0, "a1", false},
		{"a new key behind the end", ScanOptions{End: key("b")}, 0, "b", false},
		{"a change of the key where the loop was left", ScanOptions{}, 2, "b", true},
		{"a change behind the key where the loop was left", ScanOptions{}, 2, "c", false},
		{"a new key behind the key where the loop was left", ScanOptions{}, 2, "bb", false},
		{"reverse, a change of the key where the loop was left", ScanOptions{Reverse: true}, 2, "b", true},
		{"reverse, a change behind the key where the loop was left", ScanOptions{Reverse: true}, 2, "a", false},
		{"reverse, a new key before all", ScanOptions{Reverse: true}, 0, "a\x00", true},
		{"reverse, at the end of a limit that was not reached", ScanOptions{Reverse: true, Limit: 4}, 0, "", true},
		{"after a page", ScanOptions{After: key("\x02b\x00\x01")}, 0, "b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openSmall(t, 1)
			ks := rangeSpace(t, db, "s")
			for _, k := range []string{"a", "b", "c"} {
				must(t, ks.Set(ctx, key(k), nil))
			}
			attempts := 0
			must(t, db.Update(ctx, func(tx *Txn) error {
				attempts++
				n := 0
				for _, err := range tx.Scan(ks, c.o) {
					must(t, err)
					if n++; n == c.take {
						break
					}
				}
				if attempts == 1 {
					must(t, ks.Set(ctx, key(c.write), []byte("new")))
				}
				return tx.Set(ks, key("result"), nil)
			}))
			if want := map[bool]int{false: 1, true: 2}[c.conflict]; attempts != want {
				t.Errorf("%d attempts, want %d", attempts, want)
			}
		})
	}
}

func TestNoLostUpdates(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	const callers = 4
	each := scaleRounds(50)
	runParallel(callers, func(int, *rand.Rand) {
		for range each {
			must(t, db.Update(ctx, func(tx *Txn) error {
				text, err := tx.Get(ks, []byte("n"))
				n := 0
				if err == nil {
					n, err = strconv.Atoi(string(text))
				} else if errors.Is(err, ErrNotFound) {
					err = nil
				}
				if err != nil {
					return err
				}
				return tx.Set(ks, []byte("n"), strconv.AppendInt(nil, int64(n+1), 10))
			}))
		}
	})
	if got, err := ks.Get(ctx, []byte("n")); err != nil || string(got) != strconv.Itoa(callers*each) {
		t.Errorf("the counter is %s, %v; want %d", got, err, callers*each)
	}
}

// The loop over a scan may use the transaction in every way.
func TestALoopOverAScanMayReadAndWrite(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "s")
	const keys = txnScanPageKeys + 50
	for i := range keys {
		must(t, ks.Set(ctx, numberKey(i), []byte("old")))
	}
	_, err := ks.HSet(ctx, []byte("hash"), Field{[]byte("f"), []byte("v")})
	must(t, err)
	must(t, db.Update(ctx, func(tx *Txn) error {
		must(t, tx.Set(ks, numberKey(keys), []byte("mine"))) // visited too
		next := 0
		for item, err := range tx.Scan(ks, ScanOptions{Prefix: []byte("0")}) {
			must(t, err)
			if string(item.Key) != string(numberKey(next)) {
				t.Fatalf("visited %s, want %s", item.Key, numberKey(next))
			}
			if next == keys && item.Version != 0 {
				t.Errorf("a key that was not yet committed has version %d", item.Version)
			}
			next++
			must(t, tx.Set(ks, item.Key, []byte("new")))
			must(t, tx.Set(ks, append([]byte("1"), item.Key...), []byte("copy")))
			if next%100 > 0 {
				continue
			}
			if _, err := tx.HGetAll(ks, []byte("hash")); err != nil {
				return err
			}
			for _, err := range tx.Scan(ks, ScanOptions{Limit: 3}) {
				must(t, err)
			}
		}
		if next != keys+1 {
			t.Errorf("%d keys visited, want %d", next, keys+1)
		}
		return nil
	}))
	for _, prefix := range []string{"0", "1"} {
		n := 0
		for item, err := range ks.Scan(ctx, ScanOptions{Prefix: []byte(prefix)}) {
			must(t, err)
			if string(item.Value) == "old" {
				t.Errorf("%s is %s", item.Key, item.Value)
			}
			n++
		}
		if n != keys+1 {
			t.Errorf("%d keys begin with %s, want %d", n, prefix, keys+1)
		}
	}
}

// A field may have a name that looks like the end of a key.
func TestAnAbsentFieldWithAnOddNameIsNoDamage(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	odd := []byte("f\x00\x01")
	for i := range 20 { // the order of validation is random
		h := numberKey(i)
		_, err := ks.HSet(ctx, h, Field{Name: []byte("g")})
		must(t, err)
		attempts := 0
		must(t, db.Update(ctx, func(tx *Txn) error {
			_, err := tx.HGet(ks, h, odd)
			if attempts++; attempts == 1 {
				if !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
				_, err := ks.HSet(ctx, h, Field{Name: odd, Value: []byte("v")})
				must(t, err)
			}
			return tx.Set(ks, []byte("result"), nil)
		}))
		if attempts != 2 {
			t.Fatalf("%d attempts, want 2", attempts)
		}
	}
}

// A transaction whose key expires before the commit runs again.
func TestAKeyThatExpiresIsAConflict(t *testing.T) {
	clock := newClock()
	o := memoryOptions(1)
	o.Wall = clock.ms.Load
	db := mustOpen(t, o)
	defer db.Close()
	ks := rangeSpace(t, db, "s")
	_, err := ks.SetWith(ctx, []byte("k"), []byte("v"), SetOptions{TTL: time.Second})
	must(t, err)
	for _, scan := range []bool{false, true} {
		attempts := 0
		must(t, db.Update(ctx, func(tx *Txn) error {
			attempts++
			found := false
			if scan {
				for range tx.Scan(ks, ScanOptions{End: []byte("l")}) {
					found = true
				}
			} else {
				_, err := tx.Get(ks, []byte("k"))
				found = err == nil
			}
			if found != (attempts == 1) {
				t.Errorf("attempt %d: found %v", attempts, found)
			}
			clock.advance(2 * time.Second)
			return tx.Set(ks, []byte("result"), nil)
		}))
		if attempts != 2 {
			t.Errorf("scan %v: %d attempts, want 2", scan, attempts)
		}
		_, err = ks.SetWith(ctx, []byte("k"), []byte("v"), SetOptions{TTL: time.Second})
		must(t, err)
	}
}

func TestATransactionThatReadADroppedKeyspaceDoesNotCommit(t *testing.T) {
	db := mustOpen(t, memoryOptions(1))
	defer mustClose(t, db)
	x, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "x"})
	must(t, err)
	must(t, x.Set(ctx, []byte("a"), []byte("5")))
	err = db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Get(x, []byte("a")); err != nil {
			return err
		}
		must(t, db.DropKeyspace(ctx, "x"))
		return tx.Set(db.Default(), []byte("y"), []byte("saw 5"))
	})
	if !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("%v, want ErrNoKeyspace", err)
	}
}

// keyOn returns a key of the default keyspace that is on a store.
func keyOn(db *DB, store int) []byte {
	for i := 0; ; i++ {
		key := fmt.Appendf(nil, "key %d", i)
		if db.node.GroupHostAt(db.Default().keyspace.AppendPosition(nil, key)).Host == db.node.StoreHosts()[store] {
			return key
		}
	}
}

// A loop that reads from another store makes the transaction's state a newer one:
// what the scan has read ahead of the loop must be so there too.
func TestAScanIsOfOneStateWithWhatItsLoopReads(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "r")
	for i := range 2*txnScanPageKeys + 10 {
		must(t, ks.Set(ctx, numberKey(i), []byte("old")))
	}
	other := keyOn(db, 0)
	if groupAt(ks, "0") == groupAt(db.Default(), string(other)) {
		other = keyOn(db, 1)
	}
	for name, o := range map[string]ScanOptions{"forward": {}, "reverse": {Reverse: true}, "limited": {Limit: 20}} {
		for _, changed := range []int{0, 9, txnScanPageKeys + 5, 2*txnScanPageKeys + 9} {
			must(t, ks.Set(ctx, numberKey(changed), []byte("old")))
			runs := 0
			var stale string
			must(t, db.Update(ctx, func(tx *Txn) error {
				runs++
				n := 0
				stale = ""
				for item, err := range tx.Scan(ks, o) {
					if err != nil {
						return err
					}
					if n++; n == 5 && runs == 1 {
						must(t, ks.Set(ctx, numberKey(changed), []byte("new")))
						if _, err := tx.Exists(db.Default(), other); err != nil {
							return err
						}
					}
					if string(item.Key) == string(numberKey(changed)) && string(item.Value) == "old" {
						stale = string(item.Key)
					}
				}
				return tx.Set(ks, []byte("result"), nil)
			}))
			if stale != "" {
				t.Errorf("%s: %s was committed as it was before the transaction took place", name, stale)
			}
		}
	}
}

// What a loop does to the keys that it was given is its own business.
func TestALoopMayChangeTheKeysOfAScan(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "r")
	for i := range 2*txnScanPageKeys + 10 {
		must(t, ks.Set(ctx, numberKey(i), nil))
	}
	must(t, db.Update(ctx, func(tx *Txn) error {
		n := 0
		for item, err := range tx.Scan(ks, ScanOptions{}) {
			if err != nil {
				return err
			}
			clear(item.Key)
			if n++; n > 3*txnScanPageKeys {
				break
			}
		}
		if n != 2*txnScanPageKeys+10 {
			t.Errorf("%d keys, want %d", n, 2*txnScanPageKeys+10)
		}
		return nil
	}))
}

// An expiry that a Set keeps is one that the transaction has read.
func TestAnExpiryThatIsKeptIsRead(t *testing.T) {
	db := openSmall(t, 1)
	ks, key := db.Default(), []byte("k")
	_, err := ks.SetWith(ctx, key, nil, SetOptions{TTL: time.Hour})
	must(t, err)
	runs, forever := 0, false
	must(t, db.Update(ctx, func(tx *Txn) error {
		if err := tx.SetWith(ks, key, nil, SetOptions{KeepTTL: true}); err != nil {
			return err
		}
		item, err := tx.Item(ks, key)
		forever = item.Expires.IsZero()
		if runs++; runs == 1 {
			_, err := ks.Persist(ctx, key)
			must(t, err)
		}
		return err
	}))
	if !forever {
		t.Error("the transaction saw an expiry that the key did not have when it took place")
	}
}

// A conflict that a function meets half way is not its error, whatever it makes of it.
func TestAFunctionCannotHideAConflict(t *testing.T) {
	db := openSmall(t, 2)
	ks, a, b := db.Default(), keyOn(db, 0), keyOn(db, 1)
	mine := errors.New("mine")
	runs := 0
	err := db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Exists(ks, a); err != nil {
			return mine
		}
		if runs++; runs == 1 {
			must(t, ks.Set(ctx, a, nil))
		}
		if _, err := tx.Exists(ks, b); err != nil {
			return mine
		}
		return tx.Set(ks, b, nil)
	})
	if err != nil || runs != 2 {
		t.Errorf("%d runs, %v", runs, err)
	}
}
