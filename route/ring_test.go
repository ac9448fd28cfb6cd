package route

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// TestRingFindsTheNextPointClockwise checks the index against a plain look at
// all points, around each of which keys are most likely to be misplaced.
func TestRingFindsTheNextPointClockwise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.IntRange(1, 200).Draw(t, "points")
		r := must(NewRing(drawNodes(t, Kind{Weighted: true}, 20), RingOptions{Points: points}))
		placed := slices.Compact(slices.Clone(r.slots))
		placed = placed[:len(placed)-1] // what follows the last point
		near := rapid.SampledFrom(placed).Draw(t, "near")
		for _, offset := range []int64{0, 1, -1, nodeMask, -nodeMask, 1 << 40, math.MaxInt64} {
			h := hash.Restore(uint64(near)&^nodeMask + uint64(offset))
			want := placed[0]
			for _, p := range placed {
				if p>>nodeBits >= point(h.Uint64())>>nodeBits {
					want = p
					break
				}
			}
			if got := r.Route(h); got != want.node() {
				t.Fatalf("hash %#x goes to %d, want %d", h.Uint64(), got, want.node())
			}
		}
	})
}

func TestRingSlotsAreSortedAndNoneIsBeforeItsPlace(t *testing.T) {
	for _, n := range []int{1, 2, 7, 1000} {
		r := must(NewRing(numbered(n), RingOptions{}))
		if !slices.IsSorted(r.slots) {
			t.Errorf("%d nodes: slots are not sorted", n)
		}
		points := slices.Compact(slices.Clone(r.slots))
		if got := len(points) - 1; got != n*defaultRingPoints {
			t.Errorf("%d nodes have %d points", n, got)
		}
		for i, p := range r.slots {
			// Empty slots repeat the next point, so the last copy counts.
			if i+1 < len(r.slots) && p != r.slots[i+1] && slotOf(p&^nodeMask, r.searched) > i {
				t.Fatalf("%d nodes: the point of slot %d is in slot %d", n, slotOf(p&^nodeMask, r.searched), i)
			}
		}
	}
}

func TestTheNameDecidesATie(t *testing.T) {
	nodes := []Node{{Name: "c"}, {Name: "a"}, {Name: "b"}}
	at := func(place uint64, node int) point { return point(place<<nodeBits) | point(node) }
	points := []point{at(1, 0), at(5, 0), at(5, 1), at(5, 2), at(9, 2)}
	err := settleTies(points, nodes)
	if want := []point{at(1, 0), at(5, 1), at(5, 2), at(5, 0), at(9, 2)}; !slices.Equal(points, want) || err != nil {
		t.Errorf("points are %x, want %x; error %v", points, want, err)
	}
	points = []point{at(1, 0), at(5, 0), at(5, 1), at(5, 2)}
	if err := settleTies(points, nodes); !errors.Is(err, ErrNameHash) {
		t.Errorf("a node without a place of its own: error %v, want %v", err, ErrNameHash)
	}
}

// TestRingLoadsFollowTheWeights computes loads from the intervals, without a
// sample. A node's share of the circle is a sum of as many spacings as it has
// points, so its relative standard deviation is 1/sqrt(points).
func TestRingLoadsFollowTheWeights(t *testing.T) {
	nodes := numbered(60)
	for i := range nodes {
		nodes[i].Weight = []float64{0, 0.5, 2, 5}[i%4]
	}
	r := must(NewRing(nodes, RingOptions{}))
	loads := make([]float64, len(nodes))
	for i := range r.intervals() {
		first, owner := r.interval(i)
		end := math.Ldexp(1, 64)
		if i+1 < r.intervals() {
			next, _ := r.interval(i + 1)
			end = float64(next)
		}
		loads[owner] += math.Ldexp(end-float64(first), -64)
	}
	for i, share := range shares(nodes) {
		points := nodes[i].weight() * defaultRingPoints
		if off := (loads[i]/share - 1) * math.Sqrt(points); math.Abs(off) > 4 {
			t.Errorf("node of weight %v has %.2f of its share, %.1f standard deviations off", nodes[i].weight(), loads[i]/share, off)
		}
	}
}

func TestIntervalsOfARingAreWhatItRoutes(t *testing.T) {
	r := must(NewRing(numbered(9), RingOptions{Points: 20}))
	for i := range r.intervals() {
		first, owner := r.interval(i)
		end := uint64(math.MaxUint64)
		if i+1 < r.intervals() {
			next, _ := r.interval(i + 1)
			end = next - 1
		}
		if first > end || first == math.MaxUint64 {
			continue // empty
		}
		for _, h := range []uint64{first, end} {
			if got := r.Route(hash.Restore(h)); got != owner {
				t.Errorf("interval %d has owner %d at %#x, want %d", i, got, h, owner)
			}
		}
	}
}

func TestEveryNodeHasAPointAndARingAtMostItsBound(t *testing.T) {
	counts, total, err := pointCounts([]Node{{Weight: 1e-300}, {}, {Weight: 2.5}}, 3)
	if want := []int{1, 3, 8}; !slices.Equal(counts, want) || total != 12 || err != nil {
		t.Errorf("%v points, %d in all, error %v; want %v", counts, total, err, want)
	}
	if _, _, err := pointCounts(numbered(2), maxPoints/2); err != nil {
		t.Errorf("as many as allowed: %v", err)
	}
	if _, _, err := pointCounts([]Node{{}, {}, {Weight: 1e-9}}, maxPoints/2); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one too many: error %v, want %v", err, ErrTooLarge)
	}
}

func TestBadRingsAreRefused(t *testing.T) {
	// These two have the same 64-bit XXH3: the product that mixes the halves
	// of a 16-byte input is 0 for both.
	alike := []Node{
		{Name: "\x56\xf4\xe9\x63\x1c\x36\xa1\x66\x3a\x52\x96\x09\x3b\xbc\x56\xaf"},
		{Name: "\xb9\x39\x42\xea\x7b\x73\x82\x67\x3b\x71\xd3\x6e\xb2\x17\x9b\x40"},
	}
	for _, c := range []struct {
		name  string
		nodes []Node
		opts  RingOptions
		want  []error
	}{
		{"negative points", numbered(2), RingOptions{Points: -1}, []error{ErrOptions}},
		{"all that is wrong", []Node{{}, {Name: "a", Weight: -1}}, RingOptions{Points: -1}, []error{ErrName, ErrWeight, ErrOptions}},
		{"too many points", numbered(2), RingOptions{Points: math.MaxInt32}, []error{ErrTooLarge}},
		{"too much weight", []Node{{Name: "a", Weight: math.MaxFloat64}, {Name: "b", Weight: math.MaxFloat64}}, RingOptions{}, []error{ErrTooLarge}},
		{"names that hash alike", alike, RingOptions{}, []error{ErrNameHash}},
	} {
		r, err := NewRing(c.nodes, c.opts)
		if text := fmt.Sprint(err); len(text) > 300 {
			t.Errorf("%s: an error of %d bytes", c.name, len(text))
		}
		for _, want := range c.want {
			if r != nil || !errors.Is(err, want) {
				t.Errorf("%s: ring %v and error %v, want %v", c.name, r, err, want)
			}
		}
	}
}
