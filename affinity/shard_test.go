package affinity_test

import (
	"errors"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/affinity"
	"github.com/cleavekv/cleave/hash"
)

var errStop = errors.New("stop")

type eastTx = affinity.Tx[East, string, int]

// A shard is held against a map that is copied before each transaction.
func TestTransactionsHappenWhollyOrNotAtAll(t *testing.T) {
	w := newTestSpace(nil)
	var keys []affinity.Key[East, string]
	for _, k := range []string{"e0", "e1", "e2", "e3"} {
		keys = append(keys, must(w.east.Locate(k)))
	}
	same := func(t *rapid.T, what string, want map[string]int, load func(affinity.Key[East, string]) (int, error)) {
		for _, k := range keys {
			v, err := load(k)
			wantV, ok := want[k.Value()]
			if (err == nil) != ok || v != wantV || err != nil && !errors.Is(err, affinity.ErrAbsent) {
				t.Fatalf("%s: %v is %d, %v; want %d, %v", what, k, v, err, wantV, ok)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := must(affinity.NewShard[int](w.east))
		model := map[string]int{}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			fail := rapid.Bool().Draw(t, "fail")
			after := maps.Clone(model)
			err := rows.Do(func(tx *eastTx) error {
				for range rapid.IntRange(0, 6).Draw(t, "steps") {
					k := rapid.SampledFrom(keys).Draw(t, "key")
					if rapid.Bool().Draw(t, "delete") {
						delete(after, k.Value())
						if err := tx.Delete(k); err != nil {
							return err
						}
					} else {
						v := rapid.Int().Draw(t, "value")
						after[k.Value()] = v
						if err := tx.Store(k, v); err != nil {
							return err
						}
					}
					same(t, "inside", after, tx.Load)
				}
				if fail {
					return errStop
				}
				return nil
			})
			if fail != errors.Is(err, errStop) || !fail && err != nil {
				t.Fatalf("fail %v: %v", fail, err)
			}
			if !fail {
				model = after
			}
			same(t, "outside", model, rows.Load)
			if rows.Len() != len(model) {
				t.Fatalf("%d rows, want %d", rows.Len(), len(model))
			}
		}
	})
}

func TestSingleStepsAreSeenByTheNext(t *testing.T) {
	w := newTestSpace(nil)
	rows := must(affinity.NewShard[int](w.east))
	eve := must(w.east.Locate("eve"))
	for _, want := range []int{1, 2} {
		if err := rows.Store(eve, want); err != nil {
			t.Fatal(err)
		}
		if got, err := rows.Load(eve); got != want || err != nil {
			t.Errorf("stored %d, loaded %d, %v", want, got, err)
		}
	}
	if err := rows.Delete(eve); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.Load(eve); !errors.Is(err, affinity.ErrAbsent) || rows.Len() != 0 {
		t.Errorf("after Delete: %v and %d rows", err, rows.Len())
	}
}

func TestATransactionEndsWithItsFunction(t *testing.T) {
	w := newTestSpace(nil)
	rows := must(affinity.NewShard[int](w.east))
	eve := must(w.east.Locate("eve"))
	var kept *eastTx
	if err := rows.Do(func(tx *eastTx) error { kept = tx; return tx.Store(eve, 1) }); err != nil {
		t.Fatal(err)
	}
	_, loadErr := kept.Load(eve)
	for i, err := range []error{loadErr, kept.Store(eve, 2), kept.Delete(eve)} {
		if !errors.Is(err, affinity.ErrDone) {
			t.Errorf("call %d: %v, want ErrDone", i, err)
		}
	}
	if v, err := rows.Load(eve); v != 1 || err != nil {
		t.Errorf("row is %d, %v", v, err)
	}
}

func TestAPanicLeavesTheShardAsItWas(t *testing.T) {
	w := newTestSpace(nil)
	rows := must(affinity.NewShard[int](w.east))
	eve := must(w.east.Locate("eve"))
	func() {
		defer func() { _ = recover() }()
		_ = rows.Do(func(tx *eastTx) error {
			_ = tx.Store(eve, 1)
			panic("in the middle")
		})
	}()
	if _, err := rows.Load(eve); !errors.Is(err, affinity.ErrAbsent) {
		t.Errorf("after a panic: %v, want ErrAbsent", err)
	}
}

func TestTransfersConserveMoneyUnderConcurrency(t *testing.T) {
	w := newTestSpace(nil)
	accounts := must(affinity.NewShard[int](w.east))
	a, b := must(w.east.Locate("ea")), must(w.east.Locate("eb"))
	for _, k := range []affinity.Key[East, string]{a, b} {
		if err := accounts.Store(k, 1000); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		wg.Go(func() {
			for range 300 {
				if err := transfer(accounts, from, to, 7); err != nil && !errors.Is(err, errPoor) {
					t.Error(err)
				}
				if sum := sumBalances(t, accounts, a, b); sum != 2000 {
					t.Errorf("the accounts hold %d, want 2000", sum)
				}
			}
		})
	}
	wg.Wait()
}

// sumBalances reads both balances at one moment.
func sumBalances(t *testing.T, accounts *affinity.Shard[East, string, int], keys ...affinity.Key[East, string]) int {
	sum := 0
	if err := accounts.Do(func(tx *eastTx) error {
		for _, k := range keys {
			v, err := tx.Load(k)
			if err != nil {
				return err
			}
			sum += v
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return sum
}

// Run with: go test -run '^$' -bench . ./affinity
func BenchmarkKey(b *testing.B) {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](1)},
		Hash:   hash.XXH3String,
	}))
	east, west := must(affinity.HomeOf[East](space)), must(affinity.HomeOf[West](space))
	rows := must(affinity.NewShard[int](east))
	alice := must(east.Locate("alice"))
	bridge := must(affinity.NewBridge(east, west, "benchmark", "to be timed"))
	sw := must(affinity.NewSwitch(space,
		affinity.On(east, func(affinity.Key[East, string], int) (int, error) { return 0, nil }),
		affinity.On(west, func(affinity.Key[West, string], int) (int, error) { return 1, nil })))
	if err := rows.Store(alice, 1); err != nil {
		b.Fatal(err)
	}
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"hash", func() error { sink += hash.XXH3String("alice").Uint64(); return nil }},
		{"locate", func() error { _, err := east.Locate("alice"); return err }},
		{"switch", func() error { _, err := sw.Do("alice", 1); return err }},
		{"cross", func() error { _, err := bridge.Cross(alice); return err }},
		{"load", func() error { _, err := rows.Load(alice); return err }},
		{"store", func() error { return rows.Store(alice, 2) }},
	} {
		b.Run("op="+op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := op.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var sink uint64
