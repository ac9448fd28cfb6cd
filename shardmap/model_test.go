package shardmap

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"
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

// checkAgainstModel runs ops operations. Phases of mostly stores and mostly deletes
// alternate, so that the map grows and shrinks.
func checkAgainstModel[K, V comparable](t *testing.T, seed uint64, ops int, key func(*rand.Rand) K, value func(*rand.Rand) V) {
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
		md.checkAnswer(i, "Swap", k, old, loaded, before, present)
		md.plain[k] = v
	case op < 7:
		actual, loaded := md.m.LoadOrStore(k, v)
		if !present {
			before, md.plain[k] = v, v
		}
		md.checkAnswer(i, "LoadOrStore", k, actual, loaded, before, present)
	case op < 10:
		got, ok := md.m.Load(k)
		md.checkAnswer(i, "Load", k, got, ok, before, present)
	case op == 10:
		md.computeStep(i, k, v, Op(md.rng.IntN(3)))
	case op == 11:
		swapped := CompareAndSwap(md.m, k, v, zero)
		want := present && before == v
		md.checkAnswer(i, "CompareAndSwap", k, zero, swapped, zero, want)
		if want {
			md.plain[k] = zero
		}
	case op == 12:
		deleted := CompareAndDelete(md.m, k, v)
		want := present && before == v
		md.checkAnswer(i, "CompareAndDelete", k, zero, deleted, zero, want)
		if want {
			delete(md.plain, k)
		}
	case op < 19:
		got, ok := md.m.LoadAndDelete(k)
		md.checkAnswer(i, "LoadAndDelete", k, got, ok, before, present)
		delete(md.plain, k)
	case md.rng.IntN(2000) == 0:
		md.m.Clear()
		clear(md.plain)
	default:
		md.m.Delete(k)
		delete(md.plain, k)
	}
}

func (md *model[K, V]) computeStep(i int, k K, v V, op Op) {
	before, present := md.plain[k]
	actual, ok := md.m.Compute(k, func(old V, loaded bool) (V, Op) {
		md.checkAnswer(i, "Compute callback", k, old, loaded, before, present)
		return v, op
	})
	switch {
	case op == Update:
		md.plain[k] = v
	case op == Delete:
		delete(md.plain, k)
	}
	after, there := md.plain[k]
	md.checkAnswer(i, "Compute", k, actual, ok, after, there)
}

func (md *model[K, V]) checkAnswer(i int, name string, k K, got V, ok bool, want V, wantOK bool) {
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
	"uint64 to uint64": func(t *testing.T, seed uint64, ops int) { checkAgainstModel(t, seed, ops, drawSmall, drawSmall) },
	"uint8 to bool": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, drawAs[uint8], func(r *rand.Rand) bool { return r.IntN(2) == 0 })
	},
	"string to string": func(t *testing.T, seed uint64, ops int) { checkAgainstModel(t, seed, ops, drawText, drawText) },
	"string to int":    func(t *testing.T, seed uint64, ops int) { checkAgainstModel(t, seed, ops, drawText, drawAs[int]) },
	"int32 to pointer": func(t *testing.T, seed uint64, ops int) {
		pool := [4]*int{nil, new(int), new(int), new(int)}
		checkAgainstModel(t, seed, ops, drawAs[int32], func(r *rand.Rand) *int { return pool[r.IntN(4)] })
	},
	"float64 to float32": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, drawSignedFloat, drawAs[float32])
	},
	"padded struct to word": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) padded { return dirtyPadded(r, uint8(r.IntN(4)), drawSmall(r)) }, drawSmall)
	},
	"blank field to word": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) blank { return dirtyBlank(r, drawAs[uint32](r)) }, drawSmall)
	},
	"array to wide": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) [3]uint16 { return [3]uint16{drawAs[uint16](r), 1} },
			func(r *rand.Rand) wide { x := drawSmall(r); return wide{x, x, 0, x, 7: x} })
	},
	"two words to word": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) [2]uint64 { return [2]uint64{drawSmall(r) % 100, drawSmall(r) % 100} }, drawSmall)
	},
	"three words to bytes": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) [24]byte { return [24]byte{0: uint8(r.Uint32()), 23: uint8(r.Uint32())} },
			func(r *rand.Rand) [11]byte { return [11]byte{10: uint8(r.Uint32())} })
	},
	"four words to word": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) [4]uint64 { return [4]uint64{1, 2, 3, drawSmall(r)} }, drawSmall)
	},
	"word to nothing": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, drawSmall, func(*rand.Rand) empty { return empty{} })
	},
	"string to nothing": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, drawText, func(*rand.Rand) empty { return empty{} })
	},
	"nothing to word": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(*rand.Rand) empty { return empty{} }, drawSmall)
	},
	"interface to interface": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, drawAny, drawAny)
	},
	"large key to large value": func(t *testing.T, seed uint64, ops int) {
		checkAgainstModel(t, seed, ops, func(r *rand.Rand) [40]byte { return [40]byte{39: uint8(r.Uint32()), 1: uint8(r.Uint32())} },
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

func drawSmall(r *rand.Rand) uint64 { return r.Uint64N(9000) }

func drawAs[T uint8 | uint16 | uint32 | int | int32 | float32](r *rand.Rand) T {
	return T(drawSmall(r))
}

func drawText(r *rand.Rand) string { return fmt.Sprint(drawSmall(r)) }

func drawAny(r *rand.Rand) any {
	switch r.IntN(3) {
	case 0:
		return drawSmall(r)
	case 1:
		return drawText(r)
	default:
		return nil
	}
}

// drawSignedFloat returns small floats with both zeros among them.
func drawSignedFloat(r *rand.Rand) float64 {
	f := float64(r.IntN(2000))
	if r.IntN(2) == 0 {
		return math.Copysign(f, -1)
	}
	return f
}

// dirtyPadded returns a padded struct with random bytes in the padding.
func dirtyPadded(r *rand.Rand, a uint8, b uint64) (p padded) {
	raw := (*[unsafe.Sizeof(p)]byte)(unsafe.Pointer(&p))
	for i := range raw {
		raw[i] = uint8(r.Uint32())
	}
	p.a, p.b = a, b
	return p
}

func dirtyBlank(r *rand.Rand, a uint32) (b blank) {
	raw := (*[unsafe.Sizeof(b)]byte)(unsafe.Pointer(&b))
	for i := range raw {
		raw[i] = uint8(r.Uint32())
	}
	b.a = a
	return b
}

func TestZerosOfBothSignsAreOneKey(t *testing.T) {
	var m Map[float64, int]
	m.Store(0, 1)
	m.Store(math.Copysign(0, -1), 2)
	if v, ok := m.Load(0); v != 2 || !ok || m.Len() != 1 {
		t.Fatalf("Load(0) = %d, %v with %d entries; want 2 in one entry", v, ok, m.Len())
	}
}

func TestNaNKeysAreAllDifferentAndNeverFound(t *testing.T) {
	var m Map[float64, int]
	const n = 1000
	for i := range n {
		m.Store(math.NaN(), i)
	}
	if _, ok := m.Load(math.NaN()); ok || m.Len() != n {
		t.Fatalf("found %v with %d entries; want false, %d as in the built-in map", ok, m.Len(), n)
	}
	seen := map[int]bool{}
	for k, v := range m.All() {
		if k == k || seen[v] {
			t.Fatalf("All yields %v=%d", k, v)
		}
		seen[v] = true
	}
	m.Clear()
	if len(seen) != n || m.Len() != 0 {
		t.Fatalf("All yields %d of %d entries, Clear leaves %d", len(seen), n, m.Len())
	}
}

func TestLayoutFollowsTheTypes(t *testing.T) {
	for _, c := range []struct {
		key, value reflect.Type
		want       layoutKind
	}{
		{reflect.TypeFor[uint64](), reflect.TypeFor[uint64](), layoutWord},
		{reflect.TypeFor[bool](), reflect.TypeFor[float32](), layoutWord},
		{reflect.TypeFor[[3]uint16](), reflect.TypeFor[padded](), layoutEntry},
		{reflect.TypeFor[struct{}](), reflect.TypeFor[uint8](), layoutWord},
		{reflect.TypeFor[uint64](), reflect.TypeFor[struct{}](), layoutWord},
		{reflect.TypeFor[[9]byte](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[uint64](), reflect.TypeFor[[9]byte](), layoutEntry},
		{reflect.TypeFor[padded](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[blank](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[float64](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[[2]complex64](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[string](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[uint64](), reflect.TypeFor[*uint64](), layoutEntry},
		{reflect.TypeFor[any](), reflect.TypeFor[uint64](), layoutEntry},
		{reflect.TypeFor[uint64](), reflect.TypeFor[[0]string](), layoutWord},
	} {
		if got := layoutOf(c.key, c.value); got != c.want {
			t.Errorf("layout of %v to %v is %d, want %d", c.key, c.value, got, c.want)
		}
	}
}
