package route

import (
	"math"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Jump is jump consistent hash by Lamping and Veach (2014), bit for bit the
// published function: the key's own random walk jumps from node to node, and
// the last one below n owns it.
//
// Moves: growing from n to n+1 nodes moves 1/(n+1) of all keys, all to the new
// node: the least possible, with loads as even as a random choice makes them.
//
// Removal: the last node only; its keys spread over the others. The order of
// the nodes matters and their names do not. Weights: none. Memory: none beside
// the nodes. Speed: about ln(n) steps, each with a floating-point division.
// [Binomial] makes the same promises faster.
//
// The zero value is an empty router.
type Jump struct {
	n      float64
	nodes  []Node
	spread zoneSpread
}

var _ Router = (*Jump)(nil)

// NewJump returns a router over nodes in that order.
func NewJump(nodes []Node) (*Jump, error) {
	if err := checkNodes(nodes, false); err != nil {
		return nil, err
	}
	return &Jump{n: float64(len(nodes)), nodes: slices.Clone(nodes), spread: newZoneSpread(nodes)}, nil
}

// With returns a router with node behind the others.
func (r *Jump) With(node Node) (*Jump, error) { return NewJump(withNode(r.nodes, node)) }

// Without returns a router that lacks the node of that name, which must be
// the last one.
func (r *Jump) Without(name string) (*Jump, error) {
	nodes, err := withoutLast(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewJump(nodes)
}

// Nodes implements [Router].
func (r *Jump) Nodes() []Node { return r.nodes }

// Route implements [Router].
func (r *Jump) Route(h hash.Stable) int {
	if r.n == 0 {
		return None
	}
	// next is one past the node jumped to last. It stays a float to save two
	// conversions in the chain of operations that every step waits for. The
	// published function rounds in floating point, so exact arithmetic on
	// integers would disagree with it for some keys.
	next, x := 1.0, h.Uint64()
	for {
		x = x*2862933555777941757 + 1
		to := next * ((1 << 31) / float64(int64(x>>33)+1))
		if to >= r.n {
			return int(next) - 1
		}
		next = math.Floor(to) + 1
	}
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Jump) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.appendRehashed(dst, h, n, r.Route)
}
