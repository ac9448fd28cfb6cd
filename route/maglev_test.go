package route

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMaglevIgnoresTheOrderOfNodes(t *testing.T) {
	k := mustKind(t, "maglev")
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, k, 20)
		r := must(NewMaglev(nodes, MaglevOptions{Entries: 1009}))
		shuffled := must(NewMaglev(rapid.Permutation(nodes).Draw(t, "order"), MaglevOptions{Entries: 1009}))
		for i, node := range r.table {
			if got, want := shuffled.nodes[shuffled.table[i]].Name, r.nodes[node].Name; got != want {
				t.Fatalf("entry %d has %q, in another order %q", i, want, got)
			}
		}
	})
}

// TestMaglevSharesFollowTheWeights checks turns: a node has as many entries as
// its weight says, give or take one, and one for being there.
func TestMaglevSharesFollowTheWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := newNodes(rapid.IntRange(1, 20).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i].Weight = rapid.Float64Range(0.01, 100).Draw(t, "weight")
		}
		r := must(NewMaglev(nodes, MaglevOptions{}))
		counts := make([]float64, len(nodes))
		for _, node := range r.table {
			counts[node]++
		}
		for i, share := range weightShares(nodes) {
			// Every node is up to one turn ahead of its share, which the
			// others together lack in proportion.
			want := share * float64(len(r.table))
			if counts[i] < 1 || counts[i] > want+1 || counts[i] < want-share*float64(len(nodes))-1 {
				t.Fatalf("node %d has %v entries of %d, want about %.1f", i, counts[i], len(r.table), want)
			}
		}
	})
}

func TestMaglevRoundsAreTurnsOfEqualWeight(t *testing.T) {
	nodes := newNodes(13)
	hs := must(hashNames(nodes, 0))
	const entries = 1009
	rounds := tableFiller{table: make([]uint16, entries), taken: make([]uint64, entries/64+1)}
	rounds.fillInRounds(newChoosers(nodes, hs, entries))
	turns := tableFiller{table: make([]uint16, entries), taken: make([]uint64, entries/64+1)}
	turns.fillByDue(newChoosers(nodes, hs, entries))
	if !slices.Equal(rounds.table, turns.table) {
		t.Error("rounds and turns fill the table differently")
	}
}

// TestMaglevMovesLittleInVain is measured, not derived: there is no closed
// form. It holds the figures of the doc, with a little room.
func TestMaglevMovesLittleInVain(t *testing.T) {
	for _, c := range []struct {
		perNode int // 0 is the default
		most    float64
	}{{0, 0.03}, {1000, 0.01}} {
		for _, n := range []int{2, 3, 8, 10, 20, 100} {
			var opts MaglevOptions
			if c.perNode > 0 {
				opts.Entries = primeFrom(c.perNode * n)
			}
			r := must(NewMaglev(newNodes(n), opts))
			for _, m := range []Movement{
				Compare(r, must(r.With(Node{Name: "new"})), nil),
				Compare(r, must(r.Without("node-1")), nil),
			} {
				// Below the minimum only by what an entry is.
				if m.Excess() < -float64(n)/float64(r.Entries()) || m.Excess() > c.most {
					t.Errorf("%d nodes, %d entries: %v moved, minimum %v", n, r.Entries(), m.Moved, m.Minimum)
				}
			}
		}
	}
}

func TestMaglevLoadsDifferByAnEntry(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100} {
		counts := make([]int, n)
		for _, node := range must(NewMaglev(newNodes(n), MaglevOptions{})).table {
			counts[node]++
		}
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("%d nodes have %d to %d entries", n, slices.Min(counts), slices.Max(counts))
		}
	}
}

func TestMaglevTableSizes(t *testing.T) {
	for n, want := range map[int]int{1: 131, 5: 521, 6: 1031, 10: 1031, 11: 2053, 10000: 1048583} {
		if got := defaultEntries(n); got != want {
			t.Errorf("%d nodes: %d entries, want %d", n, got, want)
		}
	}
	if got := defaultEntries(maxMaglevNodes); got > maxEntries {
		t.Errorf("the most nodes get %d entries", got)
	}
	if _, err := NewMaglev(newNodes(maxMaglevNodes+1), MaglevOptions{}); !errors.Is(err, ErrNodeCount) {
		t.Errorf("one node too many: %v, want %v", err, ErrNodeCount)
	}
	for _, entries := range []int{-7, 1, 4, 1024, maxEntries + 3} {
		if _, err := NewMaglev(newNodes(2), MaglevOptions{Entries: entries}); !errors.Is(err, ErrOptions) {
			t.Errorf("%d entries: %v, want %v", entries, err, ErrOptions)
		}
	}
	if !isPrime(maxEntries) {
		t.Errorf("%d entries are allowed but not prime", maxEntries)
	}
	if _, err := NewMaglev(newNodes(4), MaglevOptions{Entries: 3}); !errors.Is(err, ErrOptions) {
		t.Errorf("3 entries for 4 nodes: %v, want %v", err, ErrOptions)
	}
	r := must(NewMaglev(newNodes(10), MaglevOptions{}))
	if got := must(r.With(Node{Name: "new"})).Entries(); got != r.Entries() {
		t.Errorf("an edit changed the size from %d to %d", r.Entries(), got)
	}
}

func TestIsPrimeAgreesWithASieve(t *testing.T) {
	composite := make([]bool, 5000)
	for d := 2; d < len(composite); d++ {
		if isPrime(d) == composite[d] {
			t.Errorf("isPrime(%d) is %v", d, isPrime(d))
		}
		for m := 2 * d; m < len(composite); m += d {
			composite[m] = true
		}
	}
	if isPrime(-3) || isPrime(0) || isPrime(1) {
		t.Error("a number below 2 is prime")
	}
}
