package route

import (
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Interval cuts the space of hashes into n equal intervals, one for each node,
// in the order of the nodes. Every cut shifts when n changes, so what moves
// depends on where in the order a node comes or goes:
//
//   - With puts the new node last. Every node keeps its number, and exactly
//     1/2 of all keys move, whatever n is.
//   - WithRelabelled puts the new node in the middle, so that the nodes
//     behind it shift along with their intervals. From n to n+1 nodes
//     (n+2)/(4(n+1)) of all keys move if n is even and (n+1)/(4n) if n is odd:
//     about a quarter.
//   - Without closes the gap where it is: the same as what adding a node there
//     would move, 1/2 at an end and about 1/4 in the middle.
//   - WithoutRelabelled may first put the middle node in the place of the
//     removed one, if less moves in all: never more than Without.
//
// So an interval moves less than [Modulo] and more than a consistent router;
// what it has for that is order: a node owns one contiguous range of hashes,
// and neighbours in the list are neighbours in hash space.
//
// Removal: any node. The order of the nodes is the whole state: a router made
// from another's Nodes is its equal. Weights: none. Memory: none beside the
// nodes. Speed: one multiplication. It reads the upper bits of a hash, so those
// must be as well mixed as the lower ones.
//
// The zero value is an empty router.
type Interval struct {
	n      uint64
	nodes  []Node
	spread zoneSpread
}

var _ Router = (*Interval)(nil)

// NewInterval returns a router over nodes in that order.
func NewInterval(nodes []Node) (*Interval, error) {
	if err := checkNodes(nodes, false); err != nil {
		return nil, err
	}
	return &Interval{n: uint64(len(nodes)), nodes: slices.Clone(nodes), spread: newZoneSpread(nodes)}, nil
}

// With returns a router with node behind the others.
func (r *Interval) With(node Node) (*Interval, error) {
	return NewInterval(withNode(r.nodes, node))
}

// Without returns a router that lacks the node of that name; the others keep
// their order.
func (r *Interval) Without(name string) (*Interval, error) {
	nodes, err := withoutNodes(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewInterval(nodes)
}

// Nodes implements [Router].
func (r *Interval) Nodes() []Node { return r.nodes }

// Route implements [Router].
func (r *Interval) Route(h hash.Stable) int {
	if r.n == 0 {
		return None
	}
	i, _ := bits.Mul64(h.Uint64(), r.n)
	return int(i)
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Interval) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.appendRehashed(dst, h, n, r.Route)
}

// intervalCount implements partitioned.
func (r *Interval) intervalCount() int { return len(r.nodes) }

// intervalAt implements partitioned.
func (r *Interval) intervalAt(i int) (first uint64, owner int) {
	return intervalStart(uint64(i), r.n), i
}

// intervalStart returns the first of the hashes that a multiplication by n maps to i,
// which is below n: i * 2^64 / n, rounded up.
func intervalStart(i, n uint64) uint64 {
	first, rest := bits.Div64(i, 0, n)
	if rest > 0 {
		first++
	}
	return first
}

// WithRelabelled returns a router with node in the middle of the others.
func (r *Interval) WithRelabelled(node Node) (*Interval, error) {
	return NewInterval(insertNodes(r.nodes, []Node{node}))
}

// WithoutRelabelled returns a router that lacks the node of that name, with
// the others in the order that moves fewer keys: as they are, or with the
// middle node in the removed one's place.
func (r *Interval) WithoutRelabelled(name string) (*Interval, error) {
	nodes, err := withoutGaps(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewInterval(nodes)
}

// closeGap deletes the node at an index, with the gap where closing it moves
// the least.
func closeGap(nodes []Node, at int) []Node {
	left := len(nodes) - 1
	middle := left / 2
	if computeGapCost(middle, left)+computeKeptShare(at, middle, left) < computeGapCost(at, left) {
		nodes[at] = nodes[middle]
		at = middle
	}
	return slices.Delete(nodes, at, at+1)
}

// computeGapCost returns what moves when the gap of a node is closed at index k and
// left nodes remain, as a multiple of 1/(left*(left+1)) of all keys. The nodes
// before the gap lose 1, 2, … k such parts to their neighbours, those
// behind it 1, 2, … left-k, counted from the ends.
func computeGapCost(k, left int) int64 {
	before, behind := int64(k), int64(left-k)
	return (before*(before+1) + behind*(behind+1)) / 2
}

// computeKeptShare returns, in the same unit, what the node at index i keeps when the gap
// is closed at index k. It is what moves in addition if another node takes
// over i's interval instead.
func computeKeptShare(i, k, left int) int64 {
	if i < k {
		return int64(left - i)
	}
	return int64(i)
}
