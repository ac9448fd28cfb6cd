package route_test

import (
	"testing"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

func TestOwnerIsTheRoutedNodeOrNone(t *testing.T) {
	ring, err := route.NewRing([]route.Node{{Name: "a"}, {Name: "b", Zone: "z"}}, route.RingOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for h := range route.Sample(100) {
		node, ok := route.Owner(ring, h)
		if want := ring.Nodes()[ring.Route(h)]; !ok || node != want {
			t.Fatalf("Owner(%x) = %v, %v, want %v", h.Uint64(), node, ok, want)
		}
	}
	if node, ok := route.Owner(new(route.Ring), hash.Restore(1)); ok {
		t.Errorf("an empty ring says that %v owns a key", node)
	}
}
