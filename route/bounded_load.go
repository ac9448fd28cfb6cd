package route

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/hash"
)

// ErrLoad means the loads handed to RouteLoad cannot be: there is no function
// to ask, or every node has more than its part of the total.
var ErrLoad = errors.New("route: bad load")

// RouteLoad returns the node that should take one more unit of work for h,
// such as a connection, given what every node has now: Route(h) or else the
// first clockwise whose load stays within ceil((1+Epsilon) * (total+1) * its
// share). So while loads are even it is Route(h), and a hot key overflows to
// the same few nodes. Unlike RouteN it does not look at zones.
//
// Total is the sum of all loads. The caller keeps the loads and adds one where
// the work went: a router holds no state. If loads change while RouteLoad
// reads them, the bound holds for what it read.
func (r *BoundedRing) RouteLoad(h hash.Stable, total int, load func(node int) int) (int, error) {
	switch {
	case len(r.table) == 0:
		return None, ErrNoNodes
	case load == nil:
		return None, fmt.Errorf("%w: load is nil", ErrLoad)
	case total < 0:
		return None, fmt.Errorf("%w: total is %d", ErrLoad, total)
	}
	w := r.walk(h)
	for i := range w.candidates() {
		if node := w.at(i); float64(load(node)) < r.room(node, float64(total)+1) {
			return node, nil
		}
	}
	return None, fmt.Errorf("%w: every node has more than its part of %d: is that the sum of all loads?", ErrLoad, total)
}
