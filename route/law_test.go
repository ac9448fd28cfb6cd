package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/hash"
)

// The laws that every kind in the catalogue keeps, whatever its topology.

// newNodes returns n nodes with the names node-0, node-1 and so on.
func newNodes(n int) []Node {
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
			r := must(k.New(newNodes(n)))
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
			r, err := k.New(newNodes(n))
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
		nodes := newNodes(4)
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

// ownerName returns the name of the node that owns h.
func ownerName(r Router, h hash.Stable) string { return r.Nodes()[r.Route(h)].Name }

// TestEditsMoveNoKeyInVain checks what Minimal promises over random histories:
// arrivals take keys, departures give theirs away, and no other node does either.
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
					from, to := ownerName(was, h), ownerName(r, h)
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
		r := must(k.New(newNodes(8)))
		before := sampleOwners(r, 1000)
		with := must(k.With(r, newNodes(16)[8:]...))
		var last []string
		for _, n := range slices.Backward(with.Nodes()[8:]) {
			last = append(last, n.Name)
		}
		must(k.Without(with, last...))
		if !slices.Equal(sampleOwners(r, 1000), before) || len(r.Nodes()) != 8 {
			t.Error("an edit changed the router it was made from")
		}
	})
}

// sampleOwners returns the owners of the first n sample keys.
func sampleOwners(r Router, n int) []int {
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
		r := must(k.New(newNodes(8)))
		joining := newNodes(14)[8:]
		many, one := must(k.With(r, joining...)), r
		for _, n := range joining {
			one = must(k.With(one, n))
		}
		if !slices.Equal(sampleOwners(many, 3000), sampleOwners(one, 3000)) || !slices.Equal(many.Nodes(), one.Nodes()) {
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
		if !slices.Equal(sampleOwners(many, 3000), sampleOwners(one, 3000)) || !slices.Equal(many.Nodes(), one.Nodes()) {
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
		for _, node := range slices.Backward(newNodes(n)[n/2:]) {
			names = append(names, node.Name)
		}
		few, many := must(k.New(newNodes(n/2))), must(k.New(newNodes(n)))
		for what, edit := range map[string]func() (Router, error){
			"nodes join":  func() (Router, error) { return k.With(few, newNodes(n)[n/2:]...) },
			"nodes leave": func() (Router, error) { return k.Without(many, names...) },
		} {
			if got := bytesOf(func() { must(edit()) }) - bytesOf(func() { must(k.New(newNodes(n))) }); got > 2<<20 {
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
		r := must(k.New(newNodes(4)))
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
		alone := must(k.New(newNodes(1)))
		if _, err := k.Without(alone, "node-0"); !errors.Is(err, ErrNoNodes) {
			t.Errorf("removing the only node: %v, want %v", err, ErrNoNodes)
		}
		if _, err := k.With(foreignRouter{}, Node{Name: "x"}); !errors.Is(err, ErrOptions) {
			t.Errorf("editing a router of another kind: %v, want %v", err, ErrOptions)
		}
	})
}

// foreignRouter is a router of no kind.
type foreignRouter struct{ Router }

// TestRoutersAreRebuiltFromTheirNodes holds for every kind whose whole state is
// its list of nodes and its options.
func TestRoutersAreRebuiltFromTheirNodes(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.With(must(k.New(newNodes(8))), newNodes(16)[8:]...))
		var again Router
		switch r := r.(type) {
		case *Anchor:
			again = must(RestoreAnchor(r.State()))
		case *Maglev:
			again = must(NewMaglev(r.Nodes(), MaglevOptions{Entries: r.Entries()}))
		default:
			again = must(k.New(r.Nodes()))
		}
		if !slices.Equal(sampleOwners(r, 5000), sampleOwners(again, 5000)) {
			t.Error("the router made from its nodes answers otherwise")
		}
	})
}

// goldenPlacements has placements that must never change: data lies where an earlier
// version put it. A failure here means that an upgrade would look for keys in
// the wrong place; undo the change of the router rather than this table.
var goldenPlacements = map[string]struct {
	owners string // of the first 32 sample keys among 8 nodes
	digest uint64 // of placements among 64 nodes, before and after edits
}{
	"modulo":              {"71652207642537657324472641224062", 0xbef218c9260a22ea},
	"mask":                {"71652207642537657324472641224062", 0xbef218c9260a22ea},
	"interval":            {"74403353450246342405106755644556", 0x277efa561fae3207},
	"interval-relabelled": {"74403353450246342405106755644556", 0x9159d4d38d5d98d4},
	"jump":                {"73047357575672714577167203777532", 0x91411da11266b91b},
	"binomial":            {"71472206562637577326652541325062", 0x94d67d1ea7ee5fd9},
	"anchor":              {"33716676240534625616303130415373", 0x348b26ac9dd231b1},
	"maglev":              {"21516233532046211126252467056006", 0xd554a281f20b2544},
	"ring":                {"41450541073213564050307024244206", 0xe308fef913651db0},
	"bounded-ring":        {"41450541073213564050304024244206", 0xd18c35c1febdf6cf},
	"rendezvous":          {"75501472705753646440315372732617", 0xed3d24b39d4acf03},
}

func TestPlacementNeverChanges(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.New(newNodes(8)))
		got := ""
		for _, i := range sampleOwners(r, 32) {
			got += fmt.Sprint(i)
		}
		digest := placementDigest(k)
		if want := goldenPlacements[k.Name]; got != want.owners || digest != want.digest {
			t.Errorf("placement changed: now %q: {%q, %#x}, was {%q, %#x}", k.Name, got, digest, want.owners, want.digest)
		}
	})
}

// placementDigest hashes whom a router of 64 nodes prefers, in two zones and
// with weights where it can have them, also after growth and after removal.
func placementDigest(k Kind) uint64 {
	nodes := newNodes(64)
	for i := range nodes {
		nodes[i].Zone = []string{"a", "b", ""}[i%3]
		if k.Weighted {
			nodes[i].Weight = 1 + float64(i%4)/2
		}
	}
	var text []byte
	add := func(r Router) {
		for h := range Sample(2000) {
			for _, i := range r.RouteN(nil, h, 3) {
				text = binary.AppendUvarint(text, uint64(i))
			}
		}
	}
	r := must(k.New(nodes))
	add(r)
	add(must(k.With(r, newNodes(128)[64:]...)))
	var last []string
	for i := 63; i >= 32; i-- {
		last = append(last, nodes[i].Name)
	}
	add(must(k.Without(r, last...)))
	return hash.XXH3(text).Uint64()
}
