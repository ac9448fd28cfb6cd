package route

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// hashed are routers that place nodes by their names and honour weights. Those
// that are minimal move no key in vain.
var hashed = []Kind{
	{Name: "ring", Minimal: true, Weighted: true, New: creatorWith(NewRing, RingOptions{})},
	{Name: "coarse ring", Minimal: true, Weighted: true, New: creatorWith(NewRing, RingOptions{Points: 3})},
	{Name: "rendezvous", Minimal: true, Weighted: true, New: creator(NewRendezvous)},
	{Name: "bounded", Weighted: true, New: creatorWith(NewBoundedRing, BoundedRingOptions{Partitions: 1024})},
}

// forHashed checks a property of each of them.
func forHashed(t *testing.T, property func(t *rapid.T, k Kind)) {
	for _, k := range hashed {
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
		grown[i].Weight = nodes[i].weight() * rapid.Float64Range(1, 3).Draw(t, "factor")
		before, after := must(k.New(nodes)), must(k.New(grown))
		for _, h := range drawKeys(t, keysPerStep) {
			was, is := owner(before, h), owner(after, h)
			if was != is && is != nodes[i].Name {
				t.Fatalf("hash %#x moves from %q to %q when %q grows", h.Uint64(), was, is, nodes[i].Name)
			}
		}
	})
}

// TestAWeightedNodeJoinsEvenOnes crosses from the path for equal weights to the
// one for unequal weights: they must agree on everybody else.
func TestAWeightedNodeJoinsEvenOnes(t *testing.T) {
	for _, k := range hashed[:3] {
		for _, n := range []int{1, 8, 70, 300} {
			before := must(k.New(numbered(n)))
			after := must(k.New(withNode(numbered(n), Node{Name: "new", Weight: 2.5})))
			for h := range Sample(20000) {
				if was, is := owner(before, h), owner(after, h); was != is && is != "new" {
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
	weighted := numbered(8)
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
		{"large ring", must(NewRing(numbered(1000), RingOptions{})), "393 685 755 751 831 304 283 812 798 732 695 76 434 837 625 111 ", 0xd302d61c29c277b2},
		{"large rendezvous", must(NewRendezvous(numbered(1000))), "614 14 261 83 724 878 786 543 741 69 530 951 503 603 934 495 ", 0x47324c1159da704d},
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
