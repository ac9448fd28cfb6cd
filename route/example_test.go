package route_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

// A ring sends a key to one node and names the nodes for its replicas, each in
// another zone as long as there are zones.
func ExampleRing() {
	ring, err := route.NewRing([]route.Node{
		{Name: "a1", Zone: "east"},
		{Name: "a2", Zone: "east"},
		{Name: "b1", Zone: "west", Weight: 2}, // twice the machine, twice the keys
	}, route.RingOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"alice", "dave", "erin", "frank"} {
		fmt.Print(key, ":")
		for _, i := range ring.RouteN(nil, hash.XXH3String(key), 2) {
			fmt.Print(" ", ring.Nodes()[i].Name)
		}
		fmt.Println()
	}
	// Output:
	// alice: b1 a1
	// dave: a2 b1
	// erin: a1 b1
	// frank: b1 a2
}

// Losing a node moves that node's keys and no others.
func ExampleRendezvous_Without() {
	before, err := route.NewRendezvous([]route.Node{{Name: "red"}, {Name: "green"}, {Name: "blue"}})
	if err != nil {
		log.Fatal(err)
	}
	after, err := before.Without("green")
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"lime", "mango", "nut", "olive", "plum"} {
		h := hash.XXH3String(key)
		was, is := before.Nodes()[before.Route(h)].Name, after.Nodes()[after.Route(h)].Name
		fmt.Printf("%-6s %s -> %s\n", key, was, is)
	}
	// Output:
	// lime   red -> red
	// mango  red -> red
	// nut    green -> red
	// olive  green -> blue
	// plum   blue -> blue
}

// A load balancer counts its connections; the router keeps a hot key from
// overloading one backend, and sends what overflows to the same few others.
func ExampleBoundedRing_RouteLoad() {
	backends, err := route.NewBoundedRing([]route.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
		route.BoundedRingOptions{Epsilon: 0.25})
	if err != nil {
		log.Fatal(err)
	}
	connections := make([]int, 4)
	hot := hash.XXH3String("everybody's video")
	for total := range 16 {
		i, err := backends.RouteLoad(hot, total, func(node int) int { return connections[node] })
		if err != nil {
			log.Fatal(err)
		}
		connections[i]++
	}
	for i, n := range connections {
		fmt.Println(backends.Nodes()[i].Name, n)
	}
	// Output:
	// a 5
	// b 5
	// c 5
	// d 1
}

// A bounded ring is the choice where partitions are large and few, and no node
// may get too many of them.
func ExampleBoundedRing() {
	nodes := make([]route.Node, 20)
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("node-", i)
	}
	ring, err := route.NewRing(nodes, route.RingOptions{})
	if err != nil {
		log.Fatal(err)
	}
	bounded, err := route.NewBoundedRing(nodes, route.BoundedRingOptions{Epsilon: 0.05})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("fullest node of the ring: %.2f of its share\n", route.Compare(ring, ring, nil).After.Imbalance)
	fmt.Printf("and with a bound of 1.05: %.2f\n", route.Compare(bounded, bounded, nil).After.Imbalance)
	// Output:
	// fullest node of the ring: 1.14 of its share
	// and with a bound of 1.05: 1.05
}

func newNamedNodes(names ...string) (list []route.Node) {
	for _, name := range names {
		list = append(list, route.Node{Name: name})
	}
	return list
}

// A store that only ever grows and shrinks at its end needs no table at all.
func ExampleBinomial() {
	r, err := route.NewBinomial(newNamedNodes("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	owner := r.Route(hash.XXH3String("user:42"))
	fmt.Println(r.Nodes()[owner].Name)

	_, err = r.Without("a")
	fmt.Println(errors.Is(err, route.ErrNotRemovable))
	// Output:
	// a
	// true
}

// Shards that are known by their number.
func ExampleNumbered() {
	shards, err := route.Numbered(8)
	if err != nil {
		log.Fatal(err)
	}
	r, err := route.NewBinomial(shards)
	if err != nil {
		log.Fatal(err)
	}
	owner, _ := route.Owner(r, hash.XXH3String("user:42"))
	fmt.Println("shard", owner.Name)
	// Output:
	// shard 3
}

// Jump agrees with every other implementation of the paper.
func ExampleJump() {
	r, err := route.NewJump(newNamedNodes("a", "b", "c", "d", "e", "f", "g"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Route(hash.Restore(1)))
	// Output:
	// 6
}

// Any node can leave an Anchor; its state lets another process follow.
func ExampleAnchor_State() {
	r, err := route.NewAnchor(newNamedNodes("a", "b", "c"), route.AnchorOptions{Capacity: 5})
	if err != nil {
		log.Fatal(err)
	}
	if r, err = r.Without("b"); err != nil {
		log.Fatal(err)
	}
	state, err := json.Marshal(r.State())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(state))

	var s route.AnchorState
	if err := json.Unmarshal(state, &s); err != nil {
		log.Fatal(err)
	}
	twin, err := route.RestoreAnchor(s)
	if err != nil {
		log.Fatal(err)
	}
	h := hash.XXH3String("user:42")
	fmt.Println(r.Route(h) == twin.Route(h))
	// Output:
	// {"Nodes":[{"Name":"a","Weight":0,"Zone":""},{"Name":"c","Weight":0,"Zone":""}],"Places":[0,2],"Free":[4,3,1]}
	// true
}

// A node of twice the weight gets twice the entries of the table.
func ExampleMaglev() {
	r, err := route.NewMaglev([]route.Node{{Name: "small"}, {Name: "large", Weight: 2}}, route.MaglevOptions{})
	if err != nil {
		log.Fatal(err)
	}
	large := 0
	for h := range route.Sample(30000) {
		if r.Nodes()[r.Route(h)].Name == "large" {
			large++
		}
	}
	fmt.Printf("%.1f\n", float64(large)/30000)
	// Output:
	// 0.7
}

// Replicas go to different zones first.
func ExampleModulo_RouteN() {
	r, err := route.NewModulo([]route.Node{
		{Name: "a1", Zone: "a"}, {Name: "a2", Zone: "a"}, {Name: "b1", Zone: "b"}, {Name: "b2", Zone: "b"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range r.RouteN(nil, hash.XXH3String("user:42"), 2) {
		fmt.Println(r.Nodes()[i].Zone)
	}
	// Output:
	// b
	// a
}

// What would a new node cost, and whom?
func ExampleCompare() {
	before, err := route.NewInterval(newNamedNodes("a", "b"))
	if err != nil {
		log.Fatal(err)
	}
	after, err := before.WithRelabelled(route.Node{Name: "c"})
	if err != nil {
		log.Fatal(err)
	}
	m := route.Compare(before, after, nil)
	fmt.Println(m)
	for _, f := range m.Flows {
		fmt.Printf("%s gives %.3f to %s\n", f.From, f.Fraction, f.To)
	}
	// Output:
	// 33.33 % of keys move; at least 33.33 % must
	// a gives 0.167 to c
	// b gives 0.167 to c
}

// Which kinds of router survive the loss of any node without moving the keys
// of another?
func ExampleKinds() {
	for _, k := range route.Kinds() {
		if k.Minimal && k.Removal == route.RemovesAny {
			fmt.Printf("%s: %s\n", k.Name, k.Summary)
		}
	}
	// Output:
	// anchor: fixed buckets; one without a node hashes its keys again
	// ring: the next virtual node clockwise
	// rendezvous: the node with the highest score for the key
}

// The same change under three kinds of router.
func ExampleExperiment() {
	e := route.Experiment{Nodes: 8, Multiply: 2, Kinds: []string{"interval", "bounded-ring", "maglev"}}
	comparisons, err := e.Run()
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range comparisons {
		fmt.Printf("%-12s moves %.2f\n", c.Kind.Name, c.Movement.Moved)
	}
	// Output:
	// bounded-ring moves 0.50
	// maglev       moves 0.52
	// interval     moves 0.94
}
