package route_test

import (
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
