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

// drawBounded returns a router and its topology.
func drawBounded(t *rapid.T) *BoundedRing {
	return must(NewBoundedRing(drawNodes(t, Kind{Weighted: true}, 30), BoundedRingOptions{
		Partitions: 2048,
		Epsilon:    rapid.SampledFrom([]float64{0.01, 0.05, 0.1, 0.25, 1}).Draw(t, "epsilon"),
	}))
}

// partitionBound is the promise, written down apart from the code that keeps it.
func partitionBound(r *BoundedRing, node, total int) int {
	return int(math.Ceil((1+r.opts.Epsilon)*float64(total)*weightShares(r.Nodes())[node] + 1e-9))
}

func TestNoNodeHasMorePartitionsThanItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawBounded(t)
		got := make([]int, len(r.Nodes()))
		for p := range r.table {
			got[r.Route(r.partitionStart(p))]++
		}
		for i, n := range got {
			if most := partitionBound(r, i, len(r.table)); n > most {
				t.Errorf("node %d of %d has %d partitions, at most %d", i, len(got), n, most)
			}
		}
	})
}

func TestNoNodeHasMoreLoadThanItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawBounded(t)
		loads := make([]int, len(r.Nodes()))
		// Few keys, so that some are hot: a plain ring would heap them up.
		keys := drawKeys(t, rapid.IntRange(1, 20).Draw(t, "distinct"))
		const total = 500
		for done := range total {
			node, err := r.RouteLoad(keys[done%len(keys)], done, func(i int) int { return loads[i] })
			if err != nil {
				t.Fatal(err)
			}
			loads[node]++
		}
		for i, n := range loads {
			if most := partitionBound(r, i, total); n > most {
				t.Errorf("node %d of %d has load %d, at most %d", i, len(loads), n, most)
			}
		}
	})
}

func TestIdleNodesLeaveKeysWithTheirOwner(t *testing.T) {
	r := must(NewBoundedRing(newNodes(20), BoundedRingOptions{}))
	for h := range Sample(1000) {
		got, err := r.RouteLoad(h, 0, func(int) int { return 0 })
		if want := r.Route(h); got != want || err != nil {
			t.Fatalf("hash %#x goes to %d with error %v, want %d", h.Uint64(), got, err, want)
		}
	}
}

// TestBoundedRingMovesLittleInVain holds the figures that the doc of Epsilon
// gives.
func TestBoundedRingMovesLittleInVain(t *testing.T) {
	const changes = 5
	for _, c := range []struct{ epsilon, most float64 }{{0.01, 3.1}, {0.1, 1.4}, {0.25, 1.1}} {
		for _, n := range []int{4, 64, 256} {
			r := must(NewBoundedRing(newNodes(n), BoundedRingOptions{Epsilon: c.epsilon}))
			var joins, leaves []float64
			for i := range changes {
				m := Compare(r, must(r.With(Node{Name: fmt.Sprintf("new-%d", i)})), nil)
				joins = append(joins, m.Moved/m.Minimum)
				m = Compare(r, must(r.Without(r.Nodes()[i%n].Name)), nil)
				leaves = append(leaves, m.Moved/m.Minimum)
			}
			slices.Sort(joins)
			slices.Sort(leaves)
			join, leave := joins[changes/2], leaves[changes/2]
			t.Logf("epsilon %.2f, %d nodes: a join moves %.2f times the least, a leave %.2f times", c.epsilon, n, join, leave)
			if max(join, leave) > c.most {
				t.Errorf("epsilon %.2f, %d nodes: moved %.2f times the least, want at most %.2f", c.epsilon, n, max(join, leave), c.most)
			}
		}
	}
}

func TestBoundedRingIsARingWhereNobodyIsFull(t *testing.T) {
	r := must(NewBoundedRing(newNodes(30), BoundedRingOptions{Epsilon: math.MaxFloat64}))
	for p := range r.table {
		if got, want := r.Route(r.partitionStart(p)), r.ring.Route(r.partitionStart(p)); got != want {
			t.Fatalf("partition %d is with %d, on the ring with %d", p, got, want)
		}
	}
}

// TestSumOfWeightsDoesNotDependOnTheirOrder: one bit of it may move a bound.
func TestSumOfWeightsDoesNotDependOnTheirOrder(t *testing.T) {
	nodes := []Node{{Weight: 0.1}, {Weight: 0.2}, {Weight: 0.3}}
	sum := sumWeights(nodes)
	slices.Reverse(nodes)
	if again := sumWeights(nodes); again != sum {
		t.Errorf("sums are %v and %v", sum, again)
	}
}

func TestBadBoundedRingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Node
		opts  BoundedRingOptions
		want  []error
	}{
		{"negative epsilon", newNodes(2), BoundedRingOptions{Epsilon: -0.1}, []error{ErrOptions}},
		{"epsilon not a number", newNodes(2), BoundedRingOptions{Epsilon: math.NaN()}, []error{ErrOptions}},
		{"infinite epsilon", newNodes(2), BoundedRingOptions{Epsilon: math.Inf(1)}, []error{ErrOptions}},
		{"odd partitions", newNodes(2), BoundedRingOptions{Partitions: 1000}, []error{ErrOptions}},
		{"negative partitions", newNodes(2), BoundedRingOptions{Partitions: -16}, []error{ErrOptions}},
		{"huge partitions", newNodes(2), BoundedRingOptions{Partitions: 1 << 30}, []error{ErrOptions}},
		{"few partitions", newNodes(200), BoundedRingOptions{Partitions: 1024}, []error{ErrOptions}},
		{"a node too light", []Node{{Name: "a", Weight: 1000}, {Name: "b", Weight: 0.001}}, BoundedRingOptions{Partitions: 32}, []error{ErrOptions}},
		{"all that is wrong", []Node{{}}, BoundedRingOptions{Epsilon: -1, Ring: RingOptions{Points: -1}}, []error{ErrName, ErrOptions}},
	} {
		r, err := NewBoundedRing(c.nodes, c.opts)
		for _, want := range c.want {
			if r != nil || !errors.Is(err, want) {
				t.Errorf("%s: router %v and error %v, want %v", c.name, r, err, want)
			}
		}
	}
}

func TestBadLoadsAreRefused(t *testing.T) {
	r := must(NewBoundedRing(newNodes(3), BoundedRingOptions{}))
	h := hash.Uint64(1)
	full := func(int) int { return 10 }
	for _, c := range []struct {
		name  string
		r     *BoundedRing
		total int
		load  func(int) int
		want  error
	}{
		{"no nodes", &BoundedRing{}, 0, full, ErrNoNodes},
		{"no function", r, 0, nil, ErrLoad},
		{"negative total", r, -1, full, ErrLoad},
		{"loads above the total", r, 5, full, ErrLoad},
		{"loads far above the total", r, 5, func(int) int { return math.MaxInt }, ErrLoad},
	} {
		if got, err := c.r.RouteLoad(h, c.total, c.load); got != None || !errors.Is(err, c.want) {
			t.Errorf("%s: node %d and error %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestOverflowFollowsTheOrderOfPreference(t *testing.T) {
	r := must(NewBoundedRing(newNodes(10), BoundedRingOptions{}))
	for h := range Sample(200) {
		order := r.RouteN(nil, h, 10)
		for full := range order {
			// The preferred ones have all there is.
			got, err := r.RouteLoad(h, 100*full, func(i int) int {
				if slices.Contains(order[:full], i) {
					return 100
				}
				return 0
			})
			if got != order[full] || err != nil {
				t.Fatalf("hash %#x with the first %d of %v full goes to %d, error %v", h.Uint64(), full, order, got, err)
			}
		}
	}
}
