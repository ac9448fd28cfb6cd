package route

import (
	"math"
	"math/bits"
	"slices"
	"testing"
)

// checkEven reports whether counts could be draws with equal probability, and
// the statistic and its bound. A right router exceeds it with probability
// below 1e-6: the Laurent-Massart bound on chi-squared with x = 14.
func checkEven(counts []int) (chi, bound float64, ok bool) {
	total := 0
	for _, c := range counts {
		total += c
	}
	mean := float64(total) / float64(len(counts))
	for _, c := range counts {
		chi += (float64(c) - mean) * (float64(c) - mean) / mean
	}
	free := float64(len(counts) - 1)
	bound = free + 2*math.Sqrt(14*free) + 28
	return chi, bound, chi <= bound
}

// countLoads counts the sample keys of every node.
func countLoads(r Router, keys int) []int {
	counts := make([]int, len(r.Nodes()))
	for h := range Sample(keys) {
		counts[r.Route(h)]++
	}
	return counts
}

// evenKinds are the kinds whose loads differ by chance alone.
var evenKinds = []string{"modulo", "interval", "jump", "binomial", "anchor", "rendezvous"}

func TestLoadsDifferByChanceAlone(t *testing.T) {
	for _, name := range evenKinds {
		k := mustKind(t, name)
		// Just past a power of two is where a tree is emptiest.
		for _, n := range []int{2, 3, 5, 8, 9, 33, 63, 64, 65, 100, 257} {
			r := must(k.New(newNodes(n)))
			if chi, bound, ok := checkEven(countLoads(r, sampleKeys)); !ok {
				t.Errorf("%s: loads of %d nodes have chi-squared %.1f, want at most %.1f", name, n, chi, bound)
			}
		}
	}
}

// TestKeysOfARemovedNodeSpreadEvenly is where a router shows that has too
// little chance in it: its loads are even, but one node inherits all.
func TestKeysOfARemovedNodeSpreadEvenly(t *testing.T) {
	for _, name := range evenKinds[2:] {
		k := mustKind(t, name)
		for _, n := range []int{3, 8, 9, 16, 33, 64} {
			r := must(k.New(newNodes(n)))
			without := must(k.Without(r, newNodes(n)[n-1].Name))
			heirs := make([]int, n-1)
			for h := range Sample(n << 13) {
				if r.Route(h) == n-1 {
					heirs[without.Route(h)]++
				}
			}
			if chi, bound, ok := checkEven(heirs); !ok {
				t.Errorf("%s: heirs of the last of %d nodes have chi-squared %.1f, want at most %.1f", name, n, chi, bound)
			}
		}
	}
}

// TestSecondChoicesSpreadEvenly: what a node leaves to whom is next in line
// must not fall on one of them.
func TestSecondChoicesSpreadEvenly(t *testing.T) {
	const n = 8
	for _, name := range append([]string{"mask", "maglev"}, evenKinds...) {
		r := must(mustKind(t, name).New(newNodes(n)))
		var seconds [n][]int
		for h := range Sample(n << 12) {
			two := r.RouteN(nil, h, 2)
			if seconds[two[0]] == nil {
				seconds[two[0]] = make([]int, n)
			}
			seconds[two[0]][two[1]]++
		}
		for i, counts := range seconds {
			if chi, bound, ok := checkEven(slices.Delete(counts, i, i+1)); !ok {
				t.Errorf("%s: second choices after node %d have chi-squared %.1f, want at most %.1f", name, i, chi, bound)
			}
		}
	}
}

// TestBinomialStaysInItsLevel pins what the paper calls relocation: a place
// moves within its level of the tree.
func TestBinomialStaysInItsLevel(t *testing.T) {
	for h := range Sample(1000) {
		x := h.Uint64()
		for at := uint64(0); at < 64; at++ {
			if to := withinLevel(at, x); bits.Len64(to) != bits.Len64(at) {
				t.Fatalf("hash %#x: place %d moved to %d, another level", x, at, to)
			}
		}
	}
}

// TestBinomialSettlesLikeItRedraws checks the way without branches against the
// plain one, for trees both sparse and full.
func TestBinomialSettlesLikeItRedraws(t *testing.T) {
	for n := 2; n <= 130; n++ {
		r := must(NewBinomial(newNodes(n)))
		for h := range Sample(500) {
			x := h.Uint64()
			at := withinLevel(x&r.mask, x)
			want := int(at)
			if at >= r.n {
				want = r.redrawOwner(x)
			}
			if got := r.redrawSparse(x, at); got != want {
				t.Fatalf("hash %#x of %d nodes settles at %d, redraws %d", x, n, got, want)
			}
		}
	}
}

// TestBinomialGivesUpRedrawing covers the rare keys that never draw a node:
// they fall back to the full tree.
func TestBinomialGivesUpRedrawing(t *testing.T) {
	r := must(NewBinomial(newNodes(1<<10 + 1)))
	fell := 0
	for h := range Sample(1 << 16) {
		if i := r.redrawOwner(h.Uint64()); i < 0 || i > 1<<10 {
			t.Fatalf("hash %#x fell to node %d", h.Uint64(), i)
		} else if i < 1<<10 {
			fell++
		}
	}
	// A redraw meets the one node of the last level once in about 2^10 times.
	if !isWithinError(1-float64(fell)/(1<<16), 1.0/1024, 1<<16) {
		t.Errorf("%d of %d keys fell back", fell, 1<<16)
	}
}
