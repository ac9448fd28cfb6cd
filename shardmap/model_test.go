package shardmap

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// modelOps drives a map and a plain map with the same random operations and
// compares every answer.
func runModel[K comparable, V comparable](t *testing.T, seed uint64, ops int, key func(*rand.Rand) K, value func(*rand.Rand) V) {
	t.Helper()
	m, err := New[K, V](Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	model := map[K]V{}
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range ops {
		k, v := key(r), value(r)
		want, present := model[k]
		got, ok := v, present
		name := ""
		switch op := r.IntN(12); op {
		case 0, 1:
			name = "Store"
			m.Store(k, v)
			model[k] = v
			got, want = v, v
		case 2:
			name = "Swap"
			got, ok = m.Swap(k, v)
			model[k] = v
		case 3:
			name = "LoadOrStore"
			got, ok = m.LoadOrStore(k, v)
			if !present {
				model[k], want = v, v
			}
		case 4:
			name = "LoadAndDelete"
			got, ok = m.LoadAndDelete(k)
			delete(model, k)
		case 5, 6:
			name = "Load"
			got, ok = m.Load(k)
		}
		if name != "" && (got != want || ok != present) {
			t.Fatalf("seed %d op %d %s(%v): got %v %v, want %v %v", seed, i, name, k, got, ok, want, present)
		}
	}
	if m.Len() != len(model) {
		t.Fatal(m.Len(), len(model))
	}
	for k, v := range m.All() {
		if model[k] != v {
			t.Fatal(k)
		}
		delete(model, k)
	}
	if len(model) != 0 {
		t.Fatal(len(model))
	}
}

func TestModel(t *testing.T) {
	u := func(r *rand.Rand) uint64 { return r.Uint64N(20000) }
	t.Run("u64", func(t *testing.T) { runModel(t, 1, 200000, u, u) })
	t.Run("u8bool", func(t *testing.T) {
		runModel(t, 1, 20000, func(r *rand.Rand) uint8 { return uint8(u(r)) }, func(r *rand.Rand) bool { return u(r)%2 == 0 })
	})
	t.Run("str", func(t *testing.T) {
		s := func(r *rand.Rand) string { return fmt.Sprint(u(r)) }
		runModel(t, 1, 200000, s, s)
	})
	t.Run("k16", func(t *testing.T) {
		runModel(t, 1, 200000, func(r *rand.Rand) [2]uint64 { return [2]uint64{u(r), 1} }, u)
	})
	t.Run("v64", func(t *testing.T) {
		runModel(t, 1, 200000, func(r *rand.Rand) [3]uint16 { return [3]uint16{uint16(u(r)), 1} }, func(r *rand.Rand) [8]uint64 { return [8]uint64{u(r), 2, 3} })
	})
	t.Run("set", func(t *testing.T) {
		runModel(t, 1, 200000, u, func(r *rand.Rand) struct{} { return struct{}{} })
	})
}
