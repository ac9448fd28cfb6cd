package shardmap

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLoadOrCompute_ComputesOncePerMissingKey(t *testing.T) {
	t.Run("word", func(t *testing.T) {
		checkComputesOnce(t, func(i int) int { return i }, func(i int) int { return i + 1 })
	})
	t.Run("entry", func(t *testing.T) {
		checkComputesOnce(t, func(i int) string { return fmt.Sprint(i) }, func(i int) string { return fmt.Sprint("value ", i) })
	})
}

func checkComputesOnce[K, V comparable](t *testing.T, key func(int) K, value func(int) V) {
	const keys, goroutines = 3000, 8
	var m Map[K, V]
	var calls [keys]atomic.Int64
	var computed atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range keys {
				got, loaded, err := m.LoadOrCompute(key(i), func() (V, error) {
					calls[i].Add(1)
					return value(i), nil
				})
				if !loaded {
					computed.Add(1)
				}
				if err != nil || got != value(i) {
					t.Errorf("key %d: %v, %v", i, got, err)
				}
			}
		})
	}
	wg.Wait()
	for i := range calls {
		if n := calls[i].Load(); n != 1 {
			t.Errorf("key %d was computed %d times", i, n)
		}
	}
	if n := computed.Load(); n != keys || m.Len() != keys {
		t.Errorf("%d callers computed %d keys, of which %d are there", n, keys, m.Len())
	}
}

func TestLoadOrCompute_AFailureStoresNothing(t *testing.T) {
	var m Map[int, int]
	failure := errors.New("failed")
	if v, loaded, err := m.LoadOrCompute(1, func() (int, error) { return 7, failure }); v != 0 || loaded || !errors.Is(err, failure) {
		t.Errorf("%v, %v, %v", v, loaded, err)
	}
	mustPanic(t, func() { _, _, _ = m.LoadOrCompute(1, func() (int, error) { panic("stop") }) })
	if n := lockedChains(m.ensureState().loadTable()); n != 0 || m.Len() != 0 {
		t.Fatalf("%d chains are locked, and %d entries there", n, m.Len())
	}
	if v, loaded, err := m.LoadOrCompute(1, func() (int, error) { return 7, nil }); v != 7 || loaded || err != nil {
		t.Errorf("%v, %v, %v", v, loaded, err)
	}
}

func TestStats_CountsEachOperationOnceInItsShard(t *testing.T) {
	t.Run("word", func(t *testing.T) { checkCounts(t, func(i int) int { return i }) })
	t.Run("entry", func(t *testing.T) { checkCounts(t, func(i int) string { return fmt.Sprint(i) }) })
}

func checkCounts[K comparable](t *testing.T, key func(int) K) {
	const keys, goroutines = 500, 8
	m, err := New[K, int](Options{Shards: 8, CountOperations: true})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range keys {
				m.Store(key(i), i)
				m.Load(key(i))
				m.Load(key(i))
			}
			m.Stats()
		})
	}
	wg.Wait()
	entries := 0
	for i, s := range m.Stats().Shards {
		entries += s.Entries
		if want := uint64(goroutines * s.Entries); s.Stores != want || s.Loads != 2*want {
			t.Errorf("shard %d of %d entries: %d stores and %d loads", i, s.Entries, s.Stores, s.Loads)
		}
	}
	before := m.Stats().Total()
	m.LoadOrStore(key(0), 1)        // a load
	m.LoadOrStore(key(-1), 1)       // a load and a store
	m.Delete(key(-1))               // a load and a store
	m.Delete(key(-1))               // a load
	CompareAndSwap(m, key(0), 0, 9) // a store
	m.Swap(key(0), 3)               // a store
	if now := m.Stats().Total(); entries != keys || now.Loads-before.Loads != 4 || now.Stores-before.Stores != 4 {
		t.Errorf("%d entries; %d loads and %d stores more, want 4 and 4", entries, now.Loads-before.Loads, now.Stores-before.Stores)
	}
	var plain Map[K, int]
	plain.Store(key(0), 1)
	plain.Load(key(0))
	if s := plain.Stats().Total(); s.Loads != 0 || s.Stores != 0 {
		t.Errorf("without the option: %+v", s)
	}
}
