package route

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/hash"
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
			if got := r.Route(h); got != want.nodeIndex() {
				t.Fatalf("hash %#x goes to %d, want %d", h.Uint64(), got, want.nodeIndex())
			}
		}
	})
}

func TestRingSlotsAreSortedAndNoneIsBeforeItsPlace(t *testing.T) {
	for _, n := range []int{1, 2, 7, 1000} {
		r := must(NewRing(newNodes(n), RingOptions{}))
		if !slices.IsSorted(r.slots) {
			t.Errorf("%d nodes: slots are not sorted", n)
		}
		points := slices.Compact(slices.Clone(r.slots))
		if got := len(points) - 1; got != n*defaultRingPoints {
			t.Errorf("%d nodes have %d points", n, got)
		}
		for i, p := range r.slots {
			// Empty slots repeat the next point, so the last copy counts.
			if i+1 < len(r.slots) && p != r.slots[i+1] && slotOf(p&^nodeMask, r.searchSlots) > i {
				t.Fatalf("%d nodes: the point of slot %d is in slot %d", n, slotOf(p&^nodeMask, r.searchSlots), i)
			}
		}
	}
}

func TestTheNameDecidesATie(t *testing.T) {
	nodes := []Node{{Name: "c"}, {Name: "a"}, {Name: "b"}}
	at := func(place uint64, node int) point { return point(place<<nodeBits) | point(node) }
	points := []point{at(1, 0), at(5, 0), at(5, 1), at(5, 2), at(9, 2)}
	err := orderTies(points, nodes)
	if want := []point{at(1, 0), at(5, 1), at(5, 2), at(5, 0), at(9, 2)}; !slices.Equal(points, want) || err != nil {
		t.Errorf("points are %x, want %x; error %v", points, want, err)
	}
	points = []point{at(1, 0), at(5, 0), at(5, 1), at(5, 2)}
	if err := orderTies(points, nodes); !errors.Is(err, ErrNameHash) {
		t.Errorf("a node without a place of its own: error %v, want %v", err, ErrNameHash)
	}
}

// TestRingLoadsFollowTheWeights computes loads from the intervals, without a
// sample. A node's share of the circle is a sum of as many spacings as it has
// points, so its relative standard deviation is 1/sqrt(points).
func TestRingLoadsFollowTheWeights(t *testing.T) {
	nodes := newNodes(60)
	for i := range nodes {
		nodes[i].Weight = []float64{0, 0.5, 2, 5}[i%4]
	}
	r := must(NewRing(nodes, RingOptions{}))
	loads := make([]float64, len(nodes))
	for i := range r.intervalCount() {
		first, owner := r.intervalAt(i)
		end := math.Ldexp(1, 64)
		if i+1 < r.intervalCount() {
			next, _ := r.intervalAt(i + 1)
			end = float64(next)
		}
		loads[owner] += math.Ldexp(end-float64(first), -64)
	}
	for i, share := range weightShares(nodes) {
		points := nodes[i].weightOrDefault() * defaultRingPoints
		if off := (loads[i]/share - 1) * math.Sqrt(points); math.Abs(off) > 4 {
			t.Errorf("node of weight %v has %.2f of its share, %.1f standard deviations off", nodes[i].weightOrDefault(), loads[i]/share, off)
		}
	}
}

func TestIntervalsOfARingAreWhatItRoutes(t *testing.T) {
	r := must(NewRing(newNodes(9), RingOptions{Points: 20}))
	for i := range r.intervalCount() {
		first, owner := r.intervalAt(i)
		end := uint64(math.MaxUint64)
		if i+1 < r.intervalCount() {
			next, _ := r.intervalAt(i + 1)
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
	if _, _, err := pointCounts(newNodes(2), maxPoints/2); err != nil {
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
		{"negative points", newNodes(2), RingOptions{Points: -1}, []error{ErrOptions}},
		{"all that is wrong", []Node{{}, {Name: "a", Weight: -1}}, RingOptions{Points: -1}, []error{ErrName, ErrWeight, ErrOptions}},
		{"too many points", newNodes(2), RingOptions{Points: math.MaxInt32}, []error{ErrTooLarge}},
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

// hashedKinds are routers that place nodes by their names and honour weights. Those
// that are minimal move no key in vain.
var hashedKinds = []Kind{
	{Name: "ring", Minimal: true, Weighted: true, New: asConstructorWith(NewRing, RingOptions{})},
	{Name: "coarse ring", Minimal: true, Weighted: true, New: asConstructorWith(NewRing, RingOptions{Points: 3})},
	{Name: "rendezvous", Minimal: true, Weighted: true, New: asConstructor(NewRendezvous)},
	{Name: "bounded", Weighted: true, New: asConstructorWith(NewBoundedRing, BoundedRingOptions{Partitions: 1024})},
}

// forHashed checks a property of each of them.
func forHashed(t *testing.T, property func(t *rapid.T, k Kind)) {
	for _, k := range hashedKinds {
		t.Run(k.Name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { property(t, k) }) })
	}
}

// drawKeys returns hashes that differ from one case of a property to the next.
func drawKeys(t *rapid.T, n int) []hash.Stable {
	seed := hash.Restore(rapid.Uint64().Draw(t, "keys"))
	keys := make([]hash.Stable, n)
	for i := range keys {
		keys[i] = seed.Derive(uint64(i))
	}
	return keys
}

func TestMoreWeightMovesKeysOnlyToThatNode(t *testing.T) {
	forHashed(t, func(t *rapid.T, k Kind) {
		if !k.Minimal {
			return
		}
		nodes := drawNodes(t, k, 40)
		grown := slices.Clone(nodes)
		i := rapid.IntRange(0, len(nodes)-1).Draw(t, "grown")
		grown[i].Weight = nodes[i].weightOrDefault() * rapid.Float64Range(1, 3).Draw(t, "factor")
		before, after := must(k.New(nodes)), must(k.New(grown))
		for _, h := range drawKeys(t, keysPerStep) {
			was, is := ownerName(before, h), ownerName(after, h)
			if was != is && is != nodes[i].Name {
				t.Fatalf("hash %#x moves from %q to %q when %q grows", h.Uint64(), was, is, nodes[i].Name)
			}
		}
	})
}

// TestAWeightedNodeJoinsEvenOnes crosses from the path for equal weights to the
// one for unequal weights: they must agree on all other nodes.
func TestAWeightedNodeJoinsEvenOnes(t *testing.T) {
	for _, k := range hashedKinds[:3] {
		for _, n := range []int{1, 8, 70, 300} {
			before := must(k.New(newNodes(n)))
			after := must(k.New(withNode(newNodes(n), Node{Name: "new", Weight: 2.5})))
			for h := range Sample(20000) {
				if was, is := ownerName(before, h), ownerName(after, h); was != is && is != "new" {
					t.Fatalf("%s of %d: hash %#x moves from %q to %q", k.Name, n, h.Uint64(), was, is)
				}
			}
		}
	}
}

func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	forHashed(t, func(t *rapid.T, k Kind) {
		nodes := drawNodes(t, k, 40)
		a, b := must(k.New(nodes)), must(k.New(rapid.Permutation(nodes).Draw(t, "order")))
		for _, h := range drawKeys(t, 50) {
			x, y := a.RouteN(nil, h, 3), b.RouteN(nil, h, 3)
			for i := range x {
				if p, q := a.Nodes()[x[i]], b.Nodes()[y[i]]; p != q {
					t.Fatalf("choice %d of hash %#x is %v or %v", i, h.Uint64(), p, q)
				}
			}
		}
	})
}

// TestWeightedAndLargePlacementNeverChanges pins what the catalogue's golden
// table does not reach: options, few weighted nodes, and many even ones.
func TestWeightedAndLargePlacementNeverChanges(t *testing.T) {
	weighted := newNodes(8)
	for i := range weighted {
		weighted[i].Weight = float64(1+i) / 2
	}
	for _, c := range []struct {
		name   string
		router Router
		first  string // owners of the first keys
		digest uint64 // of the owners of more
	}{
		{"weighted ring", must(NewRing(weighted, RingOptions{})), "7 4 6 6 6 3 7 3 3 5 5 4 4 6 6 6 ", 0xdfa4d8dd72d22f0b},
		{"weighted bounded", must(NewBoundedRing(weighted, BoundedRingOptions{Epsilon: 0.01})), "7 4 6 6 6 3 3 4 3 5 5 4 3 6 6 6 ", 0xb20bc13588e6e2d2},
		{"weighted rendezvous", must(NewRendezvous(weighted)), "2 6 6 1 1 0 6 4 2 6 6 3 6 3 2 5 ", 0x128a0665f603f088},
		{"large ring", must(NewRing(newNodes(1000), RingOptions{})), "393 685 755 751 831 304 283 812 798 732 695 76 434 837 625 111 ", 0xd302d61c29c277b2},
		{"large rendezvous", must(NewRendezvous(newNodes(1000))), "614 14 261 83 724 878 786 543 741 69 530 951 503 603 934 495 ", 0x47324c1159da704d},
	} {
		var first, all []byte
		for i := range 20000 {
			h := hash.XXH3String(fmt.Sprintf("key-%d", i))
			all = fmt.Append(all, c.router.RouteN(nil, h, 2))
			if i < 16 {
				first = fmt.Append(first, c.router.Route(h), " ")
			}
		}
		if digest := hash.XXH3(all).Uint64(); string(first) != c.first || digest != c.digest {
			t.Errorf("%s: owners %q and digest %#x, want %q and %#x", c.name, first, digest, c.first, c.digest)
		}
	}
}
