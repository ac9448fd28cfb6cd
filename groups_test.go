package cleave

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Money goes from account to account, across groups, while others look: by
// transactions, by reads of several keys and by scans. Nobody sees it under way.
func TestTransfersAcrossGroupsAreSeenWhole(t *testing.T) {
	for _, o := range []Options{{Groups: 8}, {Stores: 3, Groups: 8}, {Stores: 3, Groups: 8, Durability: Never}} {
		t.Run(fmt.Sprintf("stores=%d,%v", max(o.Stores, 1), o.Durability), func(t *testing.T) {
			db, err := OpenMemory(o)
			if err != nil {
				t.Fatal(err)
			}
			transfersAreSeenWhole(t, db)
			m := db.Metrics().Transactions
			t.Logf("%+v", m)
			if two := m.TwoPhase > m.InTurn; two != (o.Stores > 1) || !testing.Short() && (m.Joint == 0 || m.Scattered == 0) {
				t.Errorf("counted %+v with %d stores", m, o.Stores)
			}
			mustClose(t, db)
		})
	}
}

func transfersAreSeenWhole(t *testing.T, db *DB) {
	const accounts, each = 40, 100
	ks := db.Default()
	var keys [][]byte
	var b Batch
	for i := range accounts {
		keys = append(keys, fmt.Append(nil, "account ", i))
		b.Set(ks, keys[i], []byte(strconv.Itoa(each)))
	}
	must(t, db.Write(ctx, &b))
	groups := map[any]bool{}
	for _, key := range keys {
		groups[ks.part(ks.space.AppendPosition(nil, key))] = true
	}
	if len(groups) < 4 {
		t.Fatalf("the accounts are in %d groups: this test is about several", len(groups))
	}
	var stop atomic.Bool
	var movers, readers sync.WaitGroup
	seed := seedOf(t)
	for m := range 4 {
		movers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(m)))
			for range soaking(10) {
				from, to := keys[rng.IntN(accounts)], keys[rng.IntN(accounts)]
				must(t, db.Update(ctx, func(tx *Txn) error {
					if _, err := tx.Add(ks, from, -1); err != nil {
						return err
					}
					_, err := tx.Add(ks, to, 1)
					return err
				}))
				b := new(Batch)
				b.Add(ks, to, -2)
				b.Add(ks, from, 2)
				must(t, db.Write(ctx, b))
			}
		})
	}
	for how, look := range map[string]func() (int, error){
		"GetMany": func() (int, error) {
			values, err := ks.GetMany(ctx, keys...)
			return total(values...), err
		},
		"View": func() (sum int, err error) {
			return sum, db.View(ctx, func(tx *Txn) error {
				for _, key := range keys {
					v, err := tx.Get(ks, key)
					if err != nil {
						return err
					}
					sum += total(v)
				}
				return nil
			})
		},
		"Scan of a transaction": func() (sum int, err error) {
			return sum, db.Update(ctx, func(tx *Txn) error {
				sum = 0
				for item, err := range tx.Scan(ks, ScanOptions{}) {
					if err != nil {
						return err
					}
					sum += total(item.Value)
				}
				return tx.Set(ks, []byte("0"), []byte("0")) // all of it is validated
			})
		},
		"All": func() (sum int, err error) {
			for item, err := range ks.All(ctx, ScanOptions{}) {
				if err != nil {
					return sum, err
				}
				sum += total(item.Value)
			}
			return sum, nil
		},
	} {
		readers.Go(func() {
			for first := true; first || !stop.Load(); first = false {
				if sum, err := look(); err != nil || sum != accounts*each {
					t.Errorf("%s: the accounts hold %d, %v; want %d", how, sum, err, accounts*each)
					return
				}
				time.Sleep(5 * time.Millisecond) // there are few processors
			}
		})
	}
	movers.Wait()
	stop.Store(true)
	readers.Wait()
}

// total is the sum of decimal numbers.
func total(values ...[]byte) (sum int) {
	for _, v := range values {
		n, err := strconv.Atoi(string(v))
		if err != nil {
			return -1 << 40
		}
		sum += n
	}
	return sum
}

func TestTheNumberOfGroupsIsDecidedOnce(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, Options{Groups: 4, Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		must(t, db.Default().Set(ctx, fmt.Append(nil, i), nil))
	}
	mustClose(t, db)
	if _, err := Open(dir, Options{Groups: 8}); err == nil {
		t.Error("it was opened with another number of groups")
	}
	if db, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if n := len(db.node.Parts()); n != 4 {
		t.Errorf("%d groups, want 4", n)
	}
	for i := range 50 {
		if ok, err := db.Default().Exists(ctx, fmt.Append(nil, i)); err != nil || !ok {
			t.Errorf("key %d: %v, %v", i, ok, err)
		}
	}
	mustClose(t, db)
}

// A machine that slept finds what has expired meanwhile gone at once.
func TestAClockThatJumpsLeavesNothingAliveThatIsDead(t *testing.T) {
	clock := newClock()
	o := memory(1)
	o.Wall, o.TendEvery = clock.ms.Load, -1
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks := db.Default()
	for i, look := range []func() bool{
		func() bool { _, err := ks.Get(ctx, []byte("k")); return err == nil },
		func() bool { v, _ := ks.GetMany(ctx, []byte("k")); return v[0] != nil },
		func() bool { p, _ := ks.Scan(ctx, ScanOptions{}); return len(p.Items) > 0 },
	} {
		_, err := ks.SetWith(ctx, []byte("k"), []byte("v"), SetOptions{TTL: time.Hour})
		must(t, err)
		clock.ms.Add(time.Hour.Milliseconds())
		if look() {
			t.Errorf("way %d: the key is still there", i)
		}
	}
}
