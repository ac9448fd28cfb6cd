package route

import (
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// publishedJump is the function of the paper, step for step, in its types.
func publishedJump(key uint64, buckets int32) int32 {
	b, j := int64(-1), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int32(b)
}

// TestJumpAgreesWithOtherImplementations uses vectors that ClickHouse and
// go-jump test themselves with; the latter come from the paper's C++ code.
func TestJumpAgreesWithOtherImplementations(t *testing.T) {
	for _, c := range []struct {
		key     uint64
		nodes   int
		want    int
		through int // the answer is the same up to this many nodes
	}{
		{1, 1, 0, 6},
		{1, 7, 6, 17},
		{1, 18, 17, 19},
		{42, 57, 43, 57},
		{256, 1024, 520, 1024},
		{0xdeadbeef, 1, 0, 1},
		{0xdeadbeef, 2, 1, 2},
		{0xdeadbeef, 3, 2, 3},
		{0xdeadbeef, 4, 3, 5},
		{0xdeadbeef, 6, 5, 16},
		{0xdeadbeef, 17, 16, 19},
		{0x0ddc0ffeebadf00d, 3, 2, 15},
		{0x0ddc0ffeebadf00d, 16, 15, 19},
		{3735883980, 1, 0, 1},
		{3735883980, 666, 361, 666},
		{16045690984833335023, 255, 237, 255},
		{0, 1, 0, 20},
	} {
		for n := c.nodes; n <= c.through; n++ {
			r := must(NewJump(newNodes(n)))
			if got := r.Route(hash.Restore(c.key)); got != c.want {
				t.Errorf("key %d of %d nodes: got %d, want %d", c.key, n, got, c.want)
			}
		}
	}
}

func TestJumpIsThePublishedFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 1<<31-1).Draw(t, "nodes")
		r := &Jump{n: float64(n)} // no list of two billion nodes
		for range 100 {
			key := rapid.Uint64().Draw(t, "key")
			if got, want := r.Route(hash.Restore(key)), int(publishedJump(key, n)); got != want {
				t.Fatalf("key %d of %d nodes: got %d, want %d", key, n, got, want)
			}
		}
	})
}

// TestJumpRoundsLikeThePublishedFunction looks at keys whose second jump is
// to an exact integer: floating point rounds some of them down to the integer
// before, and so must we.
func TestJumpRoundsLikeThePublishedFunction(t *testing.T) {
	rounded := 0
	for from := uint64(3); from < 200; from += 2 {
		const shift = 10
		key := keyThatJumps(from, from<<shift)
		want := publishedJump(key, 1<<31-1)
		if got := (&Jump{n: 1<<31 - 1}).Route(hash.Restore(key)); got != int(want) {
			t.Errorf("key %d: got %d, want %d", key, got, want)
		}
		// Just above the exact answer the jump either ends there or goes on.
		if publishedJump(key, 1<<(31-shift)) == 1<<(31-shift)-1 {
			rounded++
		}
		for _, n := range []int32{1<<(31-shift) - 1, 1 << (31 - shift), 1<<(31-shift) + 1} {
			if got, want := (&Jump{n: float64(n)}).Route(hash.Restore(key)), publishedJump(key, n); got != int(want) {
				t.Errorf("key %d of %d nodes: got %d, want %d", key, n, got, want)
			}
		}
	}
	if rounded == 0 {
		t.Error("no key of these is rounded: the test shows nothing")
	}
}

// keyThatJumps returns a key whose first jump is to node from-1 and whose
// second jump divides by divisor.
func keyThatJumps(from, divisor uint64) uint64 {
	const inverse = 0xdfe66807999cec55 // of the multiplier, modulo 2^64
	for low := uint64(0); ; low++ {
		second := (divisor-1)<<33 | low
		first := (second - 1) * inverse
		if (1<<31)/(first>>33+1) == from-1 {
			return (first - 1) * inverse
		}
	}
}
