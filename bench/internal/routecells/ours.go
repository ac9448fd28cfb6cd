package routecells

import (
	"math/bits"

	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

// The families: routers that do the same job are compared.
const (
	familyRing       = "ring"
	familyRendezvous = "rendezvous"
	familyMaglev     = "maglev"
	// familyJump is what numbers its nodes from 0 to n-1. There is no peer
	// for Binomial and Anchor; jump is what they replace.
	familyJump = "jump"
)

// ours returns the toolkit's routers.
func ours() []kind {
	return []kind{
		{name: "ring", family: familyRing, build: toolkit(ring, equally)},
		{name: "bounded ring", family: familyRing, build: toolkit(boundedRing, equally)},
		{name: "rendezvous", family: familyRendezvous, linear: true, build: toolkit(route.NewRendezvous, equally)},
		{name: "rendezvous, weighted", family: familyRendezvous, linear: true, build: toolkit(route.NewRendezvous, oneToThree)},
		{name: "maglev", family: familyMaglev, build: toolkit(maglev, equally)},
		{name: "jump", family: familyJump, build: toolkit(route.NewJump, equally)},
		{name: "binomial", family: familyJump, build: toolkit(route.NewBinomial, equally)},
		{name: "anchor", family: familyJump, build: toolkit(anchor, equally)},
		{name: "modulo", family: familyJump, build: toolkit(route.NewModulo, equally)},
	}
}

func ring(nodes []route.Node) (*route.Ring, error) {
	return route.NewRing(nodes, route.RingOptions{Points: virtualNodes})
}

// boundedRing has 32 to 64 partitions for each node: the default number is
// for a thousand nodes at most.
func boundedRing(nodes []route.Node) (*route.BoundedRing, error) {
	return route.NewBoundedRing(nodes, route.BoundedRingOptions{
		Partitions: max(1<<14, 1<<bits.Len(uint(32*len(nodes)))),
		Ring:       route.RingOptions{Points: virtualNodes},
	})
}

func maglev(nodes []route.Node) (*route.Maglev, error) {
	return route.NewMaglev(nodes, route.MaglevOptions{})
}

func anchor(nodes []route.Node) (*route.Anchor, error) {
	return route.NewAnchor(nodes, route.AnchorOptions{})
}

// growing is a router of the toolkit that can take one node more.
type growing[R any] interface {
	route.Router
	With(route.Node) (R, error)
}

// toolkit makes a constructor of ours one like those of the peers.
func toolkit[R growing[R]](construct func([]route.Node) (R, error), weight func(string) float64) func([]string) router {
	return func(names []string) router {
		nodes := make([]route.Node, len(names))
		for i, name := range names {
			nodes[i] = route.Node{Name: name, Weight: weight(name)}
		}
		r, err := construct(nodes)
		if err != nil {
			panic(err)
		}
		return toolkitRouter(r, weight)
	}
}

// toolkitRouter calls the router through its interface, as programs do that
// choose one by configuration.
func toolkitRouter[R growing[R]](concrete R, weight func(string) float64) router {
	var r route.Router = concrete
	return router{
		weight: weight,
		lookups: func(ops int) {
			sum := 0
			for i := range ops {
				sum += r.Route(hash.XXH3(byteKeys[i%keyCount]))
			}
			workload.Sink = uint64(sum)
		},
		owner: func(key string) string { return r.Nodes()[r.Route(hash.XXH3String(key))].Name },
		grown: func(node string) router {
			more, err := concrete.With(route.Node{Name: node, Weight: weight(node)})
			if err != nil {
				panic(err)
			}
			return toolkitRouter(more, weight)
		},
	}
}

func equally(string) float64 { return 1 }

// oneToThree gives nodes the weights 1, 2 and 3 by their name.
func oneToThree(node string) float64 {
	return float64(1 + hash.XXH3String(node).Uint64()%3)
}
