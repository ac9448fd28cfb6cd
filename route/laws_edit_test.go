package route

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// keysPerStep is how many keys a property looks at after every edit. A rule
// that fails for 1 key in 100 passes one step with probability e^-2, and a
// whole run of 100 cases practically never.
const keysPerStep = 200

// drawArrivals draws nodes that can join r.
func drawArrivals(t *rapid.T, k Kind, r Router) []Node {
	fresh := rapid.StringN(1, 8, -1).Filter(func(name string) bool {
		return !slices.ContainsFunc(r.Nodes(), func(n Node) bool { return n.Name == name })
	})
	count := 1
	if k.Removal == RemovesHalf {
		count = len(r.Nodes())
	}
	var nodes []Node
	for _, name := range rapid.SliceOfNDistinct(fresh, count, count, rapid.ID).Draw(t, "arrivals") {
		nodes = append(nodes, Node{Name: name})
	}
	return nodes
}

// drawDepartures draws names of nodes that can leave r.
func drawDepartures(t *rapid.T, k Kind, r Router) []string {
	nodes := r.Nodes()
	switch k.Removal {
	case RemovesLast:
		nodes = nodes[len(nodes)-1:]
	case RemovesHalf:
		nodes = nodes[len(nodes)/2:]
	default:
		at := rapid.IntRange(0, len(nodes)-1).Draw(t, "leaving")
		nodes = nodes[at : at+1]
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

// owner returns the name of the node that owns h.
func owner(r Router, h hash.Stable) string { return r.Nodes()[r.Route(h)].Name }

// TestEditsMoveNoKeyInVain checks what Minimal promises over random histories:
// arrivals take keys, departures give theirs away, and nobody else does either.
func TestEditsMoveNoKeyInVain(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		if !k.Minimal {
			t.Skip("promises less")
		}
		rapid.Check(t, func(t *rapid.T) {
			r := must(k.New(drawNodes(t, k, 20)))
			for range rapid.IntRange(1, 6).Draw(t, "edits") {
				was := r
				var arrived, left []string
				if joins := rapid.Bool().Draw(t, "join"); (joins || len(r.Nodes()) == 1) && len(r.Nodes()) < 64 {
					nodes := drawArrivals(t, k, r)
					for _, n := range nodes {
						arrived = append(arrived, n.Name)
					}
					next, err := k.With(r, nodes...)
					if errors.Is(err, ErrFull) {
						return
					}
					r = must(next, err)
				} else {
					left = drawDepartures(t, k, r)
					r = must(k.Without(r, left...))
				}
				seed := hash.Restore(rapid.Uint64().Draw(t, "keys"))
				for i := range uint64(keysPerStep) {
					h := seed.Derive(i)
					from, to := owner(was, h), owner(r, h)
					if from != to && !slices.Contains(left, from) && !slices.Contains(arrived, to) {
						t.Fatalf("hash %#x moves from %q to %q when %q join and %q leave", h.Uint64(), from, to, arrived, left)
					}
				}
			}
		})
	})
}

func TestEditsLeaveTheOldRouterAsItWas(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.New(numbered(8)))
		before := owners(r, 1000)
		with := must(k.With(r, numbered(16)[8:]...))
		var last []string
		for _, n := range slices.Backward(with.Nodes()[8:]) {
			last = append(last, n.Name)
		}
		must(k.Without(with, last...))
		if !slices.Equal(owners(r, 1000), before) || len(r.Nodes()) != 8 {
			t.Error("an edit changed the router it was made from")
		}
	})
}

// owners returns the owners of the first n sample keys.
func owners(r Router, n int) []int {
	list := make([]int, 0, n)
	for h := range Sample(n) {
		list = append(list, r.Route(h))
	}
	return list
}

func TestEditsByManyAreEditsOneAfterTheOther(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		if k.Removal == RemovesHalf {
			t.Skip("has no edits by one")
		}
		r := must(k.New(numbered(8)))
		joining := numbered(14)[8:]
		many, one := must(k.With(r, joining...)), r
		for _, n := range joining {
			one = must(k.With(one, n))
		}
		if !slices.Equal(owners(many, 3000), owners(one, 3000)) || !slices.Equal(many.Nodes(), one.Nodes()) {
			t.Error("nodes that join together lead elsewhere")
		}
		leaving := []string{"node-3", "node-9", "node-0", "node-12"}
		if k.Removal == RemovesLast {
			leaving = []string{"node-13", "node-12", "node-11"}
		}
		many = must(k.Without(many, leaving...))
		for _, name := range leaving {
			one = must(k.Without(one, name))
		}
		if !slices.Equal(owners(many, 3000), owners(one, 3000)) || !slices.Equal(many.Nodes(), one.Nodes()) {
			t.Error("nodes that leave together lead elsewhere")
		}
	})
}

// TestEditsByManyCopyTheNodesOnce: a copy for each would make half of 20,000
// nodes leave in half a minute.
func TestEditsByManyCopyTheNodesOnce(t *testing.T) {
	const n = 1024
	forKinds(t, func(t *testing.T, k Kind) {
		var names []string
		for _, node := range slices.Backward(numbered(n)[n/2:]) {
			names = append(names, node.Name)
		}
		few, many := must(k.New(numbered(n/2))), must(k.New(numbered(n)))
		for what, edit := range map[string]func() (Router, error){
			"nodes join":  func() (Router, error) { return k.With(few, numbered(n)[n/2:]...) },
			"nodes leave": func() (Router, error) { return k.Without(many, names...) },
		} {
			if got := bytesOf(func() { must(edit()) }) - bytesOf(func() { must(k.New(numbered(n))) }); got > 2<<20 {
				t.Errorf("%d %s: %d bytes more than a new router", n/2, what, got)
			}
		}
	})
}

// bytesOf returns how much f allocates.
func bytesOf(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestImpossibleEditsAreRefused(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.New(numbered(4)))
		if _, err := k.Without(r, "nobody"); !errors.Is(err, ErrUnknownNode) {
			t.Errorf("removing nobody: %v", err)
		}
		if _, err := k.With(r, Node{Name: "node-0"}); !errors.Is(err, ErrDuplicateName) {
			t.Errorf("adding a name twice: %v", err)
		}
		for _, name := range []string{"node-0", "node-2"} {
			_, err := k.Without(r, name)
			if k.Removal == RemovesAny && err != nil {
				t.Errorf("removing %s of 4: %v", name, err)
			}
			if k.Removal != RemovesAny && !errors.Is(err, ErrNotRemovable) {
				t.Errorf("removing %s of 4: %v, want %v", name, err, ErrNotRemovable)
			}
		}
		alone := must(k.New(numbered(1)))
		if _, err := k.Without(alone, "node-0"); !errors.Is(err, ErrNoNodes) {
			t.Errorf("removing the only node: %v, want %v", err, ErrNoNodes)
		}
		if _, err := k.With(stranger{}, Node{Name: "x"}); !errors.Is(err, ErrOptions) {
			t.Errorf("editing a router of another kind: %v, want %v", err, ErrOptions)
		}
	})
}

// stranger is a router of no kind.
type stranger struct{ Router }

// TestRoutersAreRebuiltFromTheirNodes holds for every kind whose whole state is
// its list of nodes and its options.
func TestRoutersAreRebuiltFromTheirNodes(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.With(must(k.New(numbered(8))), numbered(16)[8:]...))
		var again Router
		switch r := r.(type) {
		case *Anchor:
			again = must(RestoreAnchor(r.State()))
		case *Maglev:
			again = must(NewMaglev(r.Nodes(), MaglevOptions{Entries: r.Entries()}))
		default:
			again = must(k.New(r.Nodes()))
		}
		if !slices.Equal(owners(r, 5000), owners(again, 5000)) {
			t.Error("the router made from its nodes answers otherwise")
		}
	})
}
