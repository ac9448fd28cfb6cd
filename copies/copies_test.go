package copies

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
)

var background = context.Background()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func openStore(t testing.TB, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// rangeSpace returns a keyspace with an order.
func rangeSpace(db *cleave.DB, name string) *cleave.Keyspace {
	return must(db.CreateKeyspace(background, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range}))
}

// A writer counts up. Whatever was read by anybody is the least that a read which begins later may return, of
// whatever copy, in stores that commit in two phases.
func TestGet_AfterANewerValueWasRead_NeverReturnsAnOlder(t *testing.T) {
	db := openStore(t, cleave.Options{Stores: 2, Groups: 4})
	for kind, ks := range map[string]*cleave.Keyspace{"hash": db.Default(), "range": rangeSpace(db, "r")} {
		v := must(Open(db, ks, Options{Copies: 8}))
		if err := v.Spread(background); err != nil {
			t.Fatal(err)
		}
		if err := v.Set(background, "n", []byte("0")); err != nil {
			t.Fatal(err)
		}
		var seen, reads atomic.Int64
		var stop atomic.Bool
		var readers sync.WaitGroup
		for r := range 2 {
			readers.Go(func() {
				for i := 0; !stop.Load(); i++ {
					least := seen.Load()
					value, err := v.Get(background, "n")
					if i%2 == 0 {
						value, err = v.GetBy(background, "n", fmt.Sprint("reader", r, i))
					}
					n, numberErr := strconv.ParseInt(string(value), 10, 64)
					if err != nil || numberErr != nil || n < least {
						t.Errorf("%s: read %q, %v after %d was read", kind, value, err, least)
						return
					}
					for was := seen.Load(); was < n && !seen.CompareAndSwap(was, n); was = seen.Load() {
					}
					reads.Add(1)
				}
			})
		}
		const writes = 20 // each is in two phases
		for n := int64(1); n <= writes || reads.Load() < 100 && !t.Failed(); n++ {
			if err := v.Set(background, "n", strconv.AppendInt(nil, n, 10)); err != nil {
				t.Fatal(err)
			}
			for was := seen.Load(); was < n && !seen.CompareAndSwap(was, n); was = seen.Load() {
			}
		}
		stop.Store(true)
		readers.Wait()
	}
}

// Processes that disagree about the number of copies see one value.
func TestValues_OfAnyNumberOfCopies_AreOneValue(t *testing.T) {
	db := openStore(t, cleave.Options{Groups: 2})
	spaces := []*cleave.Keyspace{db.Default(), rangeSpace(db, "r")}
	rapid.Check(t, func(t *rapid.T) {
		ks := rapid.SampledFrom(spaces).Draw(t, "keyspace")
		name := rapid.SampledFrom([]string{"", "a", "a}", "{a", "b"}).Draw(t, "name")
		var views []*Values
		for i := range 3 {
			views = append(views, must(Open(db, ks, Options{Copies: rapid.IntRange(1, 9).Draw(t, fmt.Sprint("copies", i))})))
		}
		must(views[0].Delete(background, name))
		want, there := "", false
		for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
			v := rapid.SampledFrom(views).Draw(t, "by")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				if found := must(v.Delete(background, name)); found != there {
					t.Fatalf("Delete reports %v, there was one: %v", found, there)
				}
				there = false
			} else {
				want, there = fmt.Sprint("value ", i), true
				if err := v.Set(background, name, []byte(want)); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range views {
				for c := range r.copies {
					got, err := r.getCopy(background, name, c)
					if there && (err != nil || string(got) != want) || !there && !errors.Is(err, cleave.ErrNotFound) {
						t.Fatalf("copy %d of %d is %q, %v; want %q, %v", c, r.copies, got, err, want, there)
					}
				}
			}
		}
		must(views[0].Delete(background, name))
		page, err := ks.ScanPage(background, cleave.ScanOptions{KeysOnly: true})
		if err != nil || len(page.Items) != 0 {
			t.Fatalf("%d keys are left after Delete, %v", len(page.Items), err)
		}
	})
}

func TestCopies_AreInDifferentGroupsAndStores(t *testing.T) {
	db := openStore(t, cleave.Options{Stores: 2, Groups: 4})
	for kind, ks := range map[string]*cleave.Keyspace{"hash": db.Default(), "range": rangeSpace(db, "r")} {
		v := must(Open(db, ks, Options{}))
		if err := v.Spread(background); err != nil {
			t.Fatal(err)
		}
		groups, stores, asked := map[cleave.GroupID]bool{}, map[int]bool{}, map[string]bool{}
		for _, k := range v.keys.Parts("n", v.copies) {
			at := ks.Locate(k)
			groups[at.Group], stores[at.Store] = true, true
		}
		if v.copies != 4 || len(groups) < 3 || len(stores) != 2 {
			t.Errorf("%s: %d copies are in %d groups of %d stores", kind, v.copies, len(groups), len(stores))
		}
		for i := range v.copies {
			if err := ks.Set(background, v.keys.Part("n", i), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 200 {
			by := fmt.Sprint("client-", i)
			got := string(must(v.GetBy(background, "n", by)))
			if again := string(must(v.GetBy(background, "n", by))); again != got {
				t.Errorf("%s: %s has asked copy %s, then %s", kind, by, got, again)
			}
			asked[got] = true
			asked["any "+string(must(v.Get(background, "n")))] = true
		}
		if len(asked) != 8 {
			t.Errorf("%s: asked were %v", kind, asked)
		}
	}
}

func TestOpen_RefusesWhatCannotBe(t *testing.T) {
	db, other := openStore(t, cleave.Options{}), openStore(t, cleave.Options{})
	for _, n := range []int{-1, MaxCopies + 1} {
		if _, err := Open(db, db.Default(), Options{Copies: n}); !errors.Is(err, cleave.ErrOptions) {
			t.Errorf("%d copies: %v", n, err)
		}
	}
	if _, err := Open(db, other.Default(), Options{}); !errors.Is(err, cleave.ErrOptions) {
		t.Errorf("a keyspace of another DB: %v", err)
	}
	v := must(Open(db, db.Default(), Options{}))
	long := strings.Repeat("n", maxNameBytes+1)
	if _, err := v.Get(background, long); !errors.Is(err, ErrName) {
		t.Errorf("a long name: %v", err)
	}
	if err := v.Set(background, long, nil); !errors.Is(err, ErrName) {
		t.Errorf("a long name: %v", err)
	}
	if err := db.Default().Set(background, v.keys.Manifest("n"), []byte("many")); err != nil {
		t.Fatal(err)
	}
	if err := v.Set(background, "n", nil); !errors.Is(err, cleave.ErrWrongType) {
		t.Errorf("a manifest that is none: %v", err)
	}
}

// BenchmarkGet is what copies bring the readers of one value in one process, with and without a writer.
func BenchmarkGet(b *testing.B) {
	for _, written := range []bool{false, true} {
		for _, n := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("written=%v/copies=%d", written, n), func(b *testing.B) {
				db := openStore(b, cleave.Options{Groups: 4})
				v := must(Open(db, db.Default(), Options{Copies: n}))
				value := make([]byte, 100)
				if err := v.Set(background, "flag", value); err != nil {
					b.Fatal(err)
				}
				var stop atomic.Bool
				var writer sync.WaitGroup
				if written {
					writer.Go(func() {
						for !stop.Load() {
							if err := v.Set(background, "flag", value); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				b.SetParallelism(32)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := v.Get(background, "flag"); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				stop.Store(true)
				writer.Wait()
			})
		}
	}
}
