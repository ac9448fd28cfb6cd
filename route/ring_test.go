package route

import (
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func TestEmptyRingOwnsNothing(t *testing.T) {
	var r Ring
	h := hash.XXH3String("key")
	if got := r.Route(h); got != None {
		t.Errorf("Route = %d, want None", got)
	}
	if got := r.RouteN(nil, h, 3); len(got) != 0 {
		t.Errorf("RouteN = %v, want nothing", got)
	}
}
