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

// The laws that every kind in the catalogue keeps, whatever its topology.

// numbered returns n nodes with the names node-0, node-1 and so on.
func numbered(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("node-%d", i)
	}
	return nodes
}

// must returns a router that a test cannot do without.
func must[R any](r R, err error) R {
	if err != nil {
		panic(err)
	}
	return r
}

// forKinds runs a subtest for every kind.
func forKinds(t *testing.T, test func(t *testing.T, k Kind)) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) { test(t, k) })
	}
}

// drawNodes draws a topology that a kind can have: odd names, zones and, where
// the kind honours them, weights.
func drawNodes(t *rapid.T, k Kind, most int) []Node {
	names := rapid.SliceOfNDistinct(rapid.StringN(1, 8, -1), 1, most, rapid.ID).Draw(t, "names")
	if k.Removal == RemovesHalf {
		for len(names)&(len(names)-1) != 0 {
			names = names[1:]
		}
	}
	nodes := make([]Node, len(names))
	for i, name := range names {
		nodes[i] = Node{Name: name, Zone: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone")}
		if k.Weighted {
			nodes[i].Weight = rapid.SampledFrom([]float64{0, 1, 0.5, 3}).Draw(t, "weight")
		}
	}
	return nodes
}

func TestEveryKeyHasAnOwnerAndAlwaysTheSame(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		rapid.Check(t, func(t *rapid.T) {
			nodes := drawNodes(t, k, 40)
			r, twin := must(k.New(nodes)), must(k.New(slices.Clone(nodes)))
			for i := range uint64(50) {
				h := hash.Restore(rapid.Uint64().Draw(t, "hash")).Derive(i)
				owner := r.Route(h)
				if owner < 0 || owner >= len(nodes) {
					t.Fatalf("hash %#x has owner %d of %d", h.Uint64(), owner, len(nodes))
				}
				if again := twin.Route(h); again != owner {
					t.Fatalf("hash %#x has owner %d, and in an equal router %d", h.Uint64(), owner, again)
				}
			}
		})
	})
}

func TestExtremeHashesHaveOwners(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		for _, n := range []int{1, 2, 4, 8, 1024} {
			r := must(k.New(numbered(n)))
			for _, bits := range []uint64{0, 1, 1 << 31, 1 << 32, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
				if owner := r.Route(hash.Restore(bits)); owner < 0 || owner >= n {
					t.Errorf("%d nodes: hash %#x has owner %d", n, bits, owner)
				}
			}
		}
	})
}

func TestEveryNodeIsReachable(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		for _, n := range []int{1, 2, 3, 5, 8, 9, 16, 17, 100, 128} {
			r, err := k.New(numbered(n))
			if errors.Is(err, ErrNodeCount) {
				continue
			}
			reached := make([]bool, n)
			// A node with its share is missed with probability e^-64, one
			// with a quarter of it with e^-16.
			for h := range Sample(64 * n) {
				reached[r.Route(h)] = true
			}
			if i := slices.Index(reached, false); i >= 0 {
				t.Errorf("%d nodes: node %d owns nothing", n, i)
			}
		}
	})
}

func TestOrderOfPreferenceIsDistinctStartsWithTheOwnerAndSpreadsOverZones(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		rapid.Check(t, func(t *rapid.T) {
			r := must(k.New(drawNodes(t, k, 30)))
			h := hash.Restore(rapid.Uint64().Draw(t, "hash"))
			checkPreference(t, r, h)
		})
	})
}

// checkPreference checks the promises of RouteN for one key.
func checkPreference(t *rapid.T, r Router, h hash.Stable) {
	nodes := r.Nodes()
	all := r.RouteN(nil, h, len(nodes)+3)
	if len(all) != len(nodes) {
		t.Fatalf("%d of %d nodes are preferred: %v", len(all), len(nodes), all)
	}
	if all[0] != r.Route(h) {
		t.Fatalf("the first choice is %d, the owner %d", all[0], r.Route(h))
	}
	seen, zones, fresh := map[int]bool{}, map[string]bool{}, true
	for at, i := range all {
		if seen[i] {
			t.Fatalf("node %d comes twice in %v", i, all)
		}
		seen[i] = true
		zone := nodes[i].Zone
		if zone == "" {
			zone = "\x00" + nodes[i].Name // a zone of its own
		}
		if !zones[zone] && !fresh {
			t.Fatalf("choice %d of %v brings zone %q after a zone came twice", at, all, zone)
		}
		fresh = fresh && !zones[zone]
		zones[zone] = true
	}
	for n := range all {
		if some := r.RouteN([]int{-7}, h, n); some[0] != -7 || !slices.Equal(some[1:], all[:n]) {
			t.Fatalf("%d choices appended to [-7] are %v, want the first of %v", n, some, all)
		}
	}
}

func TestBadTopologiesAreRefused(t *testing.T) {
	nodes := func(weights ...float64) (nodes []Node) {
		for i, w := range weights {
			nodes = append(nodes, Node{Name: fmt.Sprint(i), Weight: w})
		}
		return nodes
	}
	forKinds(t, func(t *testing.T, k Kind) {
		for _, c := range []struct {
			what  string
			nodes []Node
			want  error
		}{
			{"none", nil, ErrNoNodes},
			{"no name", []Node{{}, {Name: "b"}}, ErrName},
			{"two of a name", []Node{{Name: "a"}, {Name: "a"}}, ErrDuplicateName},
			{"negative weight", nodes(1, -1), ErrWeight},
			{"weight not a number", nodes(1, math.NaN()), ErrWeight},
			{"infinite weight", nodes(1, math.Inf(1)), ErrWeight},
		} {
			r, err := k.New(c.nodes)
			if !errors.Is(err, c.want) || r != nil {
				t.Errorf("%s: got %v and error %v, want no router and %v", c.what, r, err, c.want)
			}
		}
		if _, err := k.New(nodes(1, 2)); k.Weighted != (err == nil) {
			t.Errorf("weights 1 and 2: Weighted is %v, but the error is %v", k.Weighted, err)
		} else if err != nil && !errors.Is(err, ErrWeight) {
			t.Errorf("weights 1 and 2: got %v, want %v", err, ErrWeight)
		}
	})
}

func TestAllThatIsWrongIsReportedAtOnce(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		_, err := k.New([]Node{{Weight: -1}, {Name: "a"}, {Name: "a"}})
		for _, want := range []error{ErrName, ErrWeight, ErrDuplicateName} {
			if !errors.Is(err, want) {
				t.Errorf("%v does not mention %q", err, want)
			}
		}
	})
}

func TestRoutersKeepNoHoldOnTheCallersNodes(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		nodes := numbered(4)
		r := must(k.New(nodes))
		nodes[0].Name = "changed"
		if got := r.Nodes()[0].Name; got != "node-0" {
			t.Errorf("node 0 became %q", got)
		}
	})
}

func TestZeroValuesAreEmptyRouters(t *testing.T) {
	for _, r := range []Router{
		&Modulo{}, &Mask{}, &Interval{}, &Jump{}, &Binomial{}, &Anchor{}, &Maglev{}, &Ring{}, &BoundedRing{}, &Rendezvous{},
	} {
		h := hash.Uint64(1)
		if got := r.Route(h); got != None {
			t.Errorf("%T: owner %d, want None", r, got)
		}
		if got := r.RouteN(nil, h, 3); len(got) != 0 {
			t.Errorf("%T: choices %v, want none", r, got)
		}
		if len(r.Nodes()) != 0 {
			t.Errorf("%T has nodes", r)
		}
	}
}
