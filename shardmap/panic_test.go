package shardmap

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// mustPanic runs f and returns what it panicked with.
func mustPanic(t *testing.T, f func()) (reason any) {
	t.Helper()
	defer func() {
		if reason = recover(); reason == nil {
			t.Error("no panic")
		}
	}()
	f()
	return nil
}

func TestAPanickingCallbackLeavesTheMapAsItWas(t *testing.T) {
	t.Run("word", func(t *testing.T) { panickingCallback(t, 1, 10) })
	t.Run("entry", func(t *testing.T) { panickingCallback(t, "a", "x") })
}

func panickingCallback[K comparable, V comparable](t *testing.T, key K, value V) {
	var m Map[K, V]
	var none V
	for _, stored := range []bool{false, true} {
		if stored {
			m.Store(key, value)
		}
		mustPanic(t, func() { m.Compute(key, func(V, bool) (V, Op) { panic("stop") }) })
		if n := lockedChains(m.ensureState().loadTable()); n != 0 {
			t.Fatalf("after a panic %d chains are still locked", n)
		}
		mustPanic(t, func() { m.Compute(key, func(V, bool) (V, Op) { return none, Delete + 1 }) })
		var wg sync.WaitGroup
		wg.Go(func() { m.Compute(key, func(V, bool) (V, Op) { runtime.Goexit(); return none, Update }) })
		wg.Wait()
		if v, ok := m.Load(key); ok != stored || stored && v != value {
			t.Errorf("after the panic Load = %v, %v", v, ok)
		}
	}
	if n := lockedChains(m.ensureState().loadTable()); n != 0 {
		t.Fatalf("at the end %d chains are still locked", n)
	}
	m.Store(key, none)
	m.Delete(key)
	if m.Len() != 0 {
		t.Errorf("Len = %d", m.Len())
	}
}

// lockedChains counts the chains that a writer has locked, or left so.
func lockedChains(t *table) (n int) {
	for i := range t.shardCount() {
		for _, seg := range listSegments(t.shardAt(i).loadDirectory()) {
			for b := range seg.rootCount() {
				if !seg.isEmptySegment() && atomic.LoadUint64(wordAt(seg.bucketAt(b, t.bucketBytes), headerWord))&lockBit != 0 {
					n++
				}
			}
		}
	}
	return n
}

func TestKeysThatCannotBeHashedPanicLikeTheBuiltInMap(t *testing.T) {
	var m Map[any, int]
	m.Store("fine", 1)
	bad := any([]int{1})
	for name, f := range map[string]func(){
		"Load":          func() { m.Load(bad) },
		"Store":         func() { m.Store(bad, 1) },
		"Swap":          func() { m.Swap(bad, 1) },
		"LoadOrStore":   func() { m.LoadOrStore(bad, 1) },
		"LoadAndDelete": func() { m.LoadAndDelete(bad) },
		"Compute":       func() { m.Compute(bad, func(int, bool) (int, Op) { return 1, Update }) },
	} {
		t.Run(name, func(t *testing.T) { mustPanic(t, f) })
	}
	if v, ok := m.Load("fine"); v != 1 || !ok || m.Len() != 1 {
		t.Errorf("afterwards Load = %d, %v; Len = %d", v, ok, m.Len())
	}
}

func TestCompareAndSwapOfValuesThatCannotBeComparedPanicsUnlocked(t *testing.T) {
	var m Map[int, any]
	m.Store(1, []int{1})
	mustPanic(t, func() { CompareAndSwap(&m, 1, any([]int{1}), any(2)) })
	m.Store(1, 3)
	if !CompareAndSwap(&m, 1, any(3), any(4)) || !CompareAndDelete(&m, 1, any(4)) {
		t.Error("the map is not usable after the panic")
	}
}

func TestComputeMayLoad(t *testing.T) {
	var m Map[int, int]
	m.Store(1, 5)
	got, ok := m.Compute(1, func(old int, loaded bool) (int, Op) {
		same, there := m.Load(1)
		if same != old || there != loaded {
			t.Errorf("Load inside Compute = %d, %v", same, there)
		}
		return same + 1, Update
	})
	if got != 6 || !ok {
		t.Errorf("Compute = %d, %v", got, ok)
	}
}
