package route

import (
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Modulo gives key h to node h mod n.
//
// Moves: growing from n to n+1 nodes moves n/(n+1) of all keys, nearly all of
// them; multiplying the nodes by d, the old ones first, moves (d-1)/d, and only
// to new nodes, which is the least possible. So it suits a number of nodes
// that never changes, or changes by multiplication alone; otherwise it is here
// as the yardstick for the rest.
//
// Removal: any node; the nodes behind it step forward, so about (n-1)/n of all
// keys move. The order of the nodes matters. Weights: none. Memory: none beside
// the nodes. Speed: one division.
//
// The zero value is an empty router.
type Modulo struct {
	n      uint64
	nodes  []Node
	spread spread
}

var _ Router = (*Modulo)(nil)

// NewModulo returns a router over nodes in that order.
func NewModulo(nodes []Node) (*Modulo, error) {
	if err := check(nodes, false); err != nil {
		return nil, err
	}
	return &Modulo{n: uint64(len(nodes)), nodes: slices.Clone(nodes), spread: newSpread(nodes)}, nil
}

// With returns a router with node behind the others.
func (r *Modulo) With(node Node) (*Modulo, error) { return NewModulo(withNode(r.nodes, node)) }

// Without returns a router that lacks the node of that name.
func (r *Modulo) Without(name string) (*Modulo, error) {
	nodes, err := without(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewModulo(nodes)
}

// Nodes implements [Router].
func (r *Modulo) Nodes() []Node { return r.nodes }

// Route implements [Router].
func (r *Modulo) Route(h hash.Stable) int {
	if r.n == 0 {
		return None
	}
	return int(h.Uint64() % r.n)
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Modulo) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.rehash(dst, h, n, r.Route)
}
