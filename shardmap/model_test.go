package shardmap

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// model drives a map and a plain map with the same random operations and
// compares every answer.
type model[K, V comparable] struct {
	*testing.T
	seed  uint64
	m     *Map[K, V]
	plain map[K]V
	rng   *rand.Rand
	key   func(*rand.Rand) K
	value func(*rand.Rand) V
}

// agree runs ops operations. Phases of mostly stores and mostly deletes
// alternate, so that the map grows and shrinks.
func agree[K, V comparable](t *testing.T, seed uint64, ops int, key func(*rand.Rand) K, value func(*rand.Rand) V) {
	t.Helper()
	m, err := New[K, V](Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	md := &model[K, V]{t, seed, m, map[K]V{}, rand.New(rand.NewPCG(seed, 0)), key, value}
	for i := range ops {
		md.step(i, i/(ops/4+1)%2 == 0)
		if i%(ops/8+1) == 0 {
			md.compareAll()
		}
	}
	md.compareAll()
}

func (md *model[K, V]) step(i int, growing bool) {
	k, v := md.key(md.rng), md.value(md.rng)
	before, present := md.plain[k]
	var zero V
	op := md.rng.IntN(20)
	if growing && op >= 14 && op < 19 {
		op = 0
	}
	switch {
	case op < 3:
		md.m.Store(k, v)
		md.plain[k] = v
	case op < 5:
		old, loaded := md.m.Swap(k, v)
		md.check(i, "Swap", k, old, loaded, before, present)
		md.plain[k] = v
	case op < 7:
		actual, loaded := md.m.LoadOrStore(k, v)
		if !present {
			before, md.plain[k] = v, v
		}
		md.check(i, "LoadOrStore", k, actual, loaded, before, present)
	case op < 10:
		got, ok := md.m.Load(k)
		md.check(i, "Load", k, got, ok, before, present)
	case op == 10:
		md.compute(i, k, v, Op(md.rng.IntN(3)))
	case op == 11:
		swapped := CompareAndSwap(md.m, k, v, zero)
		want := present && before == v
		md.check(i, "CompareAndSwap", k, zero, swapped, zero, want)
		if want {
			md.plain[k] = zero
		}
	case op == 12:
		deleted := CompareAndDelete(md.m, k, v)
		want := present && before == v
		md.check(i, "CompareAndDelete", k, zero, deleted, zero, want)
		if want {
			delete(md.plain, k)
		}
	case op < 19:
		got, ok := md.m.LoadAndDelete(k)
		md.check(i, "LoadAndDelete", k, got, ok, before, present)
		delete(md.plain, k)
	case md.rng.IntN(2000) == 0:
		md.m.Clear()
		clear(md.plain)
	default:
		md.m.Delete(k)
		delete(md.plain, k)
	}
}

func (md *model[K, V]) compute(i int, k K, v V, op Op) {
	before, present := md.plain[k]
	actual, ok := md.m.Compute(k, func(old V, loaded bool) (V, Op) {
		md.check(i, "Compute callback", k, old, loaded, before, present)
		return v, op
	})
	switch {
	case op == Update:
		md.plain[k] = v
	case op == Delete:
		delete(md.plain, k)
	}
	after, there := md.plain[k]
	md.check(i, "Compute", k, actual, ok, after, there)
}

func (md *model[K, V]) check(i int, name string, k K, got V, ok bool, want V, wantOK bool) {
	md.Helper()
	if got != want || ok != wantOK {
		md.Fatalf("seed %d, step %d: %s(%v) = %v, %v; want %v, %v", md.seed, i, name, k, got, ok, want, wantOK)
	}
}

func (md *model[K, V]) compareAll() {
	md.Helper()
	if md.m.Len() != len(md.plain) {
		md.Fatalf("seed %d: Len is %d, want %d", md.seed, md.m.Len(), len(md.plain))
	}
	seen := map[K]bool{}
	for k, v := range md.m.All() {
		want, ok := md.plain[k]
		if !ok || v != want || seen[k] {
			md.Fatalf("seed %d: All yields %v=%v; want %v, %v, once", md.seed, k, v, want, ok)
		}
		seen[k] = true
	}
	if len(seen) != len(md.plain) {
		md.Fatalf("seed %d: All yields %d entries, want %d", md.seed, len(seen), len(md.plain))
	}
}

// padded has bytes between its fields that == ignores, blank one that == ignores.
type (
	padded struct {
		a uint8
		b uint64
	}
	blank struct {
		a uint32
		_ uint32
	}
	wide  [8]uint64
	empty struct{}
)

// modelCases are one run per kind of storage.
var modelCases = map[string]func(t *testing.T, seed uint64, ops int){
	"uint64 to uint64": func(t *testing.T, seed uint64, ops int) { agree(t, seed, ops, small, small) },
	"uint8 to bool": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, as[uint8], func(r *rand.Rand) bool { return r.IntN(2) == 0 })
	},
	"string to string": func(t *testing.T, seed uint64, ops int) { agree(t, seed, ops, text, text) },
	"string to int":    func(t *testing.T, seed uint64, ops int) { agree(t, seed, ops, text, as[int]) },
	"int32 to pointer": func(t *testing.T, seed uint64, ops int) {
		pool := [4]*int{nil, new(int), new(int), new(int)}
		agree(t, seed, ops, as[int32], func(r *rand.Rand) *int { return pool[r.IntN(4)] })
	},
	"float64 to float32": func(t *testing.T, seed uint64, ops int) { agree(t, seed, ops, signed, as[float32]) },
	"padded struct to word": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) padded { return dirtyPadded(r, uint8(r.IntN(4)), small(r)) }, small)
	},
	"blank field to word": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) blank { return dirtyBlank(r, as[uint32](r)) }, small)
	},
	"array to wide": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) [3]uint16 { return [3]uint16{as[uint16](r), 1} },
			func(r *rand.Rand) wide { x := small(r); return wide{x, x, 0, x, 7: x} })
	},
	"two words to word": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) [2]uint64 { return [2]uint64{small(r) % 100, small(r) % 100} }, small)
	},
	"three words to bytes": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) [24]byte { return [24]byte{0: uint8(r.Uint32()), 23: uint8(r.Uint32())} },
			func(r *rand.Rand) [11]byte { return [11]byte{10: uint8(r.Uint32())} })
	},
	"four words to word": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) [4]uint64 { return [4]uint64{1, 2, 3, small(r)} }, small)
	},
	"word to nothing": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, small, func(*rand.Rand) empty { return empty{} })
	},
	"string to nothing": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, text, func(*rand.Rand) empty { return empty{} })
	},
	"nothing to word": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(*rand.Rand) empty { return empty{} }, small)
	},
	"interface to interface": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, anything, anything)
	},
	"large key to large value": func(t *testing.T, seed uint64, ops int) {
		agree(t, seed, ops, func(r *rand.Rand) [40]byte { return [40]byte{39: uint8(r.Uint32()), 1: uint8(r.Uint32())} },
			func(r *rand.Rand) [200]byte { return [200]byte{199: uint8(r.Uint32())} })
	},
}

func TestEveryLayoutAgreesWithAPlainMap(t *testing.T) {
	ops := 12000
	if testing.Short() {
		ops = 4000
	}
	for name, run := range modelCases {
		t.Run(name, func(t *testing.T) { run(t, rand.Uint64(), ops) })
	}
}

func FuzzEveryLayoutAgreesWithAPlainMap(f *testing.F) {
	f.Add(uint64(1), uint16(3000))
	f.Fuzz(func(t *testing.T, seed uint64, ops uint16) {
		for name, run := range modelCases {
			t.Run(name, func(t *testing.T) { run(t, seed, int(ops)) })
		}
	})
}

func small(r *rand.Rand) uint64 { return r.Uint64N(9000) }

func as[T uint8 | uint16 | uint32 | int | int32 | float32](r *rand.Rand) T { return T(small(r)) }

func text(r *rand.Rand) string { return fmt.Sprint(small(r)) }

func anything(r *rand.Rand) any {
	switch r.IntN(3) {
	case 0:
		return small(r)
	case 1:
		return text(r)
	default:
		return nil
	}
}
