package route

import (
	"math"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// TestIntervalsAreContiguousAndEqual checks the cuts, one hash to each side.
func TestIntervalsAreContiguousAndEqual(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 100, 1000} {
		r := must(NewInterval(newNodes(n)))
		for i := range n {
			first, owner := r.intervalAt(i)
			if got := r.Route(hash.Restore(first)); got != i || owner != i {
				t.Errorf("%d nodes: interval %d starts at %#x, which %d owns", n, i, first, got)
			}
			if i > 0 && r.Route(hash.Restore(first-1)) != i-1 {
				t.Errorf("%d nodes: interval %d does not end before %#x", n, i-1, first)
			}
			if want := float64(i) / float64(n) * math.Exp2(64); math.Abs(float64(first)-want) > math.Exp2(13) {
				t.Errorf("%d nodes: interval %d starts at %v, want %v", n, i, float64(first), want)
			}
		}
	}
}

// TestRelabellingMovesTheLeast tries every place for a new node, and every
// place that a removed node can be replaced from.
func TestRelabellingMovesTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 24).Draw(t, "nodes")
		r := must(NewInterval(newNodes(n)))
		moved := func(nodes []Node) float64 { return Compare(r, must(NewInterval(nodes)), nil).Moved }

		best := math.Inf(1)
		for at := 0; at <= n; at++ {
			best = min(best, moved(slices.Insert(slices.Clone(r.nodes), at, Node{Name: "new"})))
		}
		if got := moved(must(r.WithRelabelled(Node{Name: "new"})).Nodes()); got > best+1e-12 {
			t.Fatalf("%d nodes and one more move %v, could move %v", n, got, best)
		}

		leaving := rapid.IntRange(0, n-1).Draw(t, "leaving")
		best = math.Inf(1)
		for heir := range n {
			nodes := slices.Clone(r.nodes)
			nodes[leaving] = nodes[heir]
			best = min(best, moved(slices.Delete(nodes, heir, heir+1)))
		}
		got := moved(must(r.WithoutRelabelled(r.nodes[leaving].Name)).Nodes())
		if got > best+1e-12 {
			t.Fatalf("%d nodes without node %d move %v, could move %v", n, leaving, got, best)
		}
		if plain := moved(must(r.Without(r.nodes[leaving].Name)).Nodes()); got > plain+1e-12 {
			t.Fatalf("%d nodes without node %d move %v, without relabelling %v", n, leaving, got, plain)
		}
	})
}

func TestRemovingAtAnEndMovesHalf(t *testing.T) {
	for _, n := range []int{2, 3, 10, 33} {
		r := must(NewInterval(newNodes(n)))
		for _, name := range []string{"node-0", r.nodes[n-1].Name} {
			if m := Compare(r, must(r.Without(name)), nil); math.Abs(m.Moved-0.5) > 1e-12 {
				t.Errorf("%d nodes without %s move %v, want 1/2", n, name, m.Moved)
			}
		}
	}
}
