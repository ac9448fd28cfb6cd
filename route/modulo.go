package route

import (
	"errors"
	"fmt"
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
	spread zoneSpread
}

var _ Router = (*Modulo)(nil)

// NewModulo returns a router over nodes in that order.
func NewModulo(nodes []Node) (*Modulo, error) {
	if err := checkNodes(nodes, false); err != nil {
		return nil, err
	}
	return &Modulo{n: uint64(len(nodes)), nodes: slices.Clone(nodes), spread: newZoneSpread(nodes)}, nil
}

// With returns a router with node behind the others.
func (r *Modulo) With(node Node) (*Modulo, error) { return NewModulo(withNode(r.nodes, node)) }

// Without returns a router that lacks the node of that name.
func (r *Modulo) Without(name string) (*Modulo, error) {
	nodes, err := withoutNodes(r.nodes, name)
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
	return r.spread.appendRehashed(dst, h, n, r.Route)
}

// Mask gives key h to node h & (n-1), for a power of two of nodes: [Modulo]
// without the division.
//
// Moves: doubling the nodes moves half the keys, each from node i to node
// n+i: the least possible. Halving brings the same keys back. There is no
// growth by one, so With and Without take several nodes at once.
//
// Removal: the last nodes only, so many that a power of two remains. The order
// of the nodes matters. Weights: none. Memory: none beside the nodes. Speed:
// one instruction: nothing beside the hash of the key.
//
// The zero value is an empty router.
type Mask struct {
	mask   uint64
	nodes  []Node
	spread zoneSpread
}

var _ Router = (*Mask)(nil)

// NewMask returns a router over nodes in that order. Their number must be a
// power of two.
func NewMask(nodes []Node) (*Mask, error) {
	err := checkNodes(nodes, false)
	if n := len(nodes); n&(n-1) != 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d, want a power of two: use a Modulo or a consistent router for others", ErrNodeCount, n))
	}
	if err != nil {
		return nil, err
	}
	return &Mask{mask: uint64(len(nodes) - 1), nodes: slices.Clone(nodes), spread: newZoneSpread(nodes)}, nil
}

// With returns a router with more nodes behind the others. Together they must
// be a power of two.
func (r *Mask) With(more ...Node) (*Mask, error) {
	return NewMask(slices.Concat(r.nodes, more))
}

// Without returns a router that lacks the named nodes. They must be the last
// ones, in any order, and leave a power of two.
func (r *Mask) Without(names ...string) (*Mask, error) {
	nodes, err := withoutLast(r.nodes, names...)
	if err != nil {
		return nil, err
	}
	return NewMask(nodes)
}

// Nodes implements [Router].
func (r *Mask) Nodes() []Node { return r.nodes }

// Route implements [Router].
func (r *Mask) Route(h hash.Stable) int {
	if len(r.nodes) == 0 {
		return None
	}
	return int(h.Uint64() & r.mask)
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Mask) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.appendRehashed(dst, h, n, r.Route)
}
