package route_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

func TestOwnersAreTheRoutedNodes(t *testing.T) {
	ring, err := route.NewRing([]route.Node{{Name: "a"}, {Name: "b", Zone: "z"}, {Name: "c", Zone: "z"}}, route.RingOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for h := range route.Sample(100) {
		node, ok := route.Owner(ring, h)
		if want := ring.Nodes()[ring.Route(h)]; !ok || node != want {
			t.Fatalf("Owner(%v) = %v, %v, want %v", h, node, ok, want)
		}
		for _, n := range []int{-1, 0, 1, 2, 3, 9} {
			owners, indexes := route.Owners(ring, h, n), ring.RouteN(nil, h, n)
			if len(owners) != len(indexes) {
				t.Fatalf("Owners(%v, %d) = %v, want the nodes %v", h, n, owners, indexes)
			}
			for i, index := range indexes {
				if owners[i] != ring.Nodes()[index] {
					t.Fatalf("Owners(%v, %d) = %v, want the nodes %v", h, n, owners, indexes)
				}
			}
		}
	}
}

func TestAnEmptyRouterHasNoOwners(t *testing.T) {
	for name, r := range map[string]route.Router{"empty": new(route.Ring), "nil": nil} {
		if node, ok := route.Owner(r, hash.Restore(1)); ok {
			t.Errorf("%s: %v owns a key", name, node)
		}
		if nodes := route.Owners(r, hash.Restore(1), 3); len(nodes) != 0 {
			t.Errorf("%s: %v own a key", name, nodes)
		}
	}
}

// Three replicas of every record, no two of them in one zone.
func ExampleOwners() {
	r, err := route.NewRendezvous([]route.Node{
		{Name: "a1", Zone: "east"}, {Name: "a2", Zone: "east"},
		{Name: "b1", Zone: "west"}, {Name: "b2", Zone: "west"},
		{Name: "c1", Zone: "north"}, {Name: "c2", Zone: "north"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"alice", "bob", "carol"} {
		fmt.Print(key, ":")
		for _, node := range route.Owners(r, hash.XXH3String(key), 3) {
			fmt.Printf(" %s (%s)", node.Name, node.Zone)
		}
		fmt.Println()
	}
	// Output:
	// alice: b2 (west) a1 (east) c2 (north)
	// bob: b2 (west) c2 (north) a2 (east)
	// carol: c1 (north) b2 (west) a1 (east)
}

// The node that owns a key brings its connection along.
func ExamplePayloadOf() {
	type conn struct{ address string }
	r, err := route.NewRendezvous([]route.Node{
		{Name: "a", Payload: route.NewPayload(&conn{"10.0.0.1:7379"})},
		{Name: "b", Payload: route.NewPayload(&conn{"10.0.0.2:7379"})},
	})
	if err != nil {
		log.Fatal(err)
	}
	node, _ := route.Owner(r, hash.XXH3String("alice"))
	c, ok := route.PayloadOf[*conn](node)
	fmt.Println(node.Name, c.address, ok)
	// Output:
	// b 10.0.0.2:7379 true
}
