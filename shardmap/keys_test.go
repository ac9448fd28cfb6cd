package shardmap

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"
)

// signed returns small floats with both zeros among them.
func signed(r *rand.Rand) float64 {
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
