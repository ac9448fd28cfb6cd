package route

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// ErrFull means a router with a fixed capacity has no room for a node: make a
// larger one, which moves nearly all keys.
var ErrFull = errors.New("route: capacity used up")

// Anchor is AnchorHash by Mendelson, Vargaftik, Barabash, Lorenz, Keslassy and
// Orda (2020): the evenness of [Jump], and any node can be removed. Keys are
// hashed to a fixed number of buckets, some with a node and some without; a key
// in a bucket without one is hashed again, among the buckets that had nodes
// just after that bucket lost its own, until it meets a node.
//
// Moves: adding a node moves about 1/(n+1) of all keys, all to the new node;
// removing any node moves its keys alone, evenly to the others.
//
// State: answers depend on the capacity and on the history of removals, not on
// the set of nodes alone. A new node takes the bucket that was emptied last. So
// nodes that return in the reverse order of their removal get their old keys
// back; in another order they get each other's, still moving no key that need
// not. Processes that share an Anchor must start from the same list and apply
// the same edits in the same order, or pass on the State.
//
// Removal: any node. Weights: none. Memory: 8 bytes a bucket, and as much again
// for the history. With and Without take time proportional to the capacity.
// Speed: about 1 + ln(capacity/n) steps, each a multiplication and a memory
// access; at 1024 nodes and the default capacity 0.3 times the time of [Jump].
//
// The zero value is an empty router without capacity.
type Anchor struct {
	buckets     []bucket
	nodes       []Node
	nodeBuckets []int // the bucket of each node
	freeBuckets []int // the buckets without a node, the one emptied last at the end
	spread      zoneSpread
}

// A bucket holds all that a lookup needs to know of it in one cache line.
type bucket struct {
	// left is the number of buckets that still had a node just after this one
	// lost its own, or ^i if it has node i: negative, so earlier than any.
	left int32
	// next is the bucket that took this one's place in the list of buckets
	// with nodes.
	next int32
}

// AnchorOptions tunes an [Anchor]. The zero value works.
type AnchorOptions struct {
	// Capacity is the number of buckets, hence the most nodes there can ever
	// be. Anchors agree on owners only if they agree on it. Default: twice
	// the nodes, rounded up to a power of two and to at least 16: room to
	// double, at a cost of 0.7 to 1.4 more steps a lookup. At most 2^26.
	Capacity int
}

// maxCapacity bounds the memory of an anchor to 1 GiB.
const maxCapacity = 1 << 26

var _ Router = (*Anchor)(nil)

// NewAnchor returns a router over nodes in that order, as if its other buckets
// had lost theirs from the last on.
func NewAnchor(nodes []Node, opts AnchorOptions) (*Anchor, error) {
	n, capacity := len(nodes), opts.Capacity
	if capacity == 0 {
		capacity = max(16, 1<<bits.Len(uint(2*n-1)))
	}
	err := checkNodes(nodes, false)
	if capacity < n || capacity > maxCapacity {
		err = errors.Join(err, fmt.Errorf("%w: Capacity is %d, want at least the %d nodes and at most %d", ErrOptions, capacity, n, maxCapacity))
	}
	if err != nil {
		return nil, err
	}
	places, free := make([]int, n), make([]int, capacity-n)
	for i := range places {
		places[i] = i
	}
	for i := range free {
		free[i] = capacity - 1 - i
	}
	return makeAnchor(nodes, places, free), nil
}

// makeAnchor takes the nodes out of the free buckets, in order, and puts the
// given ones into the rest. It keeps places and free.
func makeAnchor(nodes []Node, places, free []int) *Anchor {
	capacity := len(places) + len(free)
	buckets := make([]bucket, capacity)
	// working lists the buckets with nodes, without gaps; at is its inverse.
	working, at := make([]int32, capacity), make([]int32, capacity)
	for i := range int32(capacity) {
		working[i], at[i] = i, i
	}
	left := int32(capacity)
	for _, b := range free {
		left--
		last := working[left]
		buckets[b] = bucket{left: left, next: last}
		working[at[b]] = last
		at[last] = at[b]
	}
	for i, b := range places {
		buckets[b].left = ^int32(i)
	}
	return &Anchor{
		buckets:     buckets,
		nodes:       slices.Clone(nodes),
		nodeBuckets: places,
		freeBuckets: free,
		spread:      newZoneSpread(nodes),
	}
}

// With returns a router with node in the bucket that was emptied last.
func (r *Anchor) With(node Node) (*Anchor, error) { return r.withNodes(node) }

// Without returns a router that lacks the node of that name.
func (r *Anchor) Without(name string) (*Anchor, error) { return r.withoutNodes(name) }

// withNodes is With for nodes one after the other.
func (r *Anchor) withNodes(more ...Node) (*Anchor, error) {
	nodes := slices.Concat(r.nodes, more)
	err := checkNodes(nodes, false)
	if room := len(r.freeBuckets); len(more) > room {
		err = errors.Join(err, fmt.Errorf("%w: %d nodes for %d free buckets of %d", ErrFull, len(more), room, len(r.buckets)))
	}
	if err != nil {
		return nil, err
	}
	left := len(r.freeBuckets) - len(more)
	places := slices.Clone(r.nodeBuckets)
	for _, b := range slices.Backward(r.freeBuckets[left:]) {
		places = append(places, b)
	}
	return makeAnchor(nodes, places, r.freeBuckets[:left:left]), nil
}

// withoutNodes is Without for nodes one after the other.
func (r *Anchor) withoutNodes(names ...string) (*Anchor, error) {
	nodes, places, free := slices.Clone(r.nodes), slices.Clone(r.nodeBuckets), slices.Clone(r.freeBuckets)
	for _, name := range names {
		i, err := indexOf(nodes, name)
		if err != nil {
			return nil, err
		}
		free = append(free, places[i])
		nodes, places = slices.Delete(nodes, i, i+1), slices.Delete(places, i, i+1)
	}
	if err := checkNodes(nodes, false); err != nil {
		return nil, err
	}
	return makeAnchor(nodes, places, free), nil
}

// Nodes implements [Router].
func (r *Anchor) Nodes() []Node { return r.nodes }

// Route implements [Router].
func (r *Anchor) Route(h hash.Stable) int {
	if len(r.buckets) == 0 {
		return None
	}
	at, _ := bits.Mul64(h.Uint64(), uint64(len(r.buckets)))
	b := r.buckets[at]
	for b.left >= 0 {
		at, _ = bits.Mul64(hashSalt(h.Uint64(), at), uint64(b.left))
		// Drawn from the list as it was when b lost its node, at may have
		// been another node's place by then: follow the node that took it.
		to := r.buckets[at]
		for to.left >= b.left {
			at = uint64(to.next)
			to = r.buckets[at]
		}
		b = to
	}
	return int(^b.left)
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Anchor) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.appendRehashed(dst, h, n, r.Route)
}

// AnchorState is everything that decides the answers of an [Anchor]. Equal
// states answer alike in every process; it may be stored or sent, for instance
// as JSON.
type AnchorState struct {
	// Nodes are the members, in the order of [Anchor.Nodes], without what they carry: set
	// Payload anew before [RestoreAnchor].
	Nodes []Node
	// Places has the bucket of every node.
	Places []int
	// Free are the buckets without a node in the order in which they lost
	// theirs. The next node to join takes the last. Places and Free together
	// have each number below the capacity once.
	Free []int
}

// State returns the state, which the caller may keep and change.
func (r *Anchor) State() AnchorState {
	nodes := slices.Clone(r.nodes)
	for i := range nodes {
		nodes[i].Payload = Payload{}
	}
	return AnchorState{
		Nodes:  nodes,
		Places: slices.Clone(r.nodeBuckets),
		Free:   slices.Clone(r.freeBuckets),
	}
}

// RestoreAnchor returns the router whose state s is.
func RestoreAnchor(s AnchorState) (*Anchor, error) {
	err := checkNodes(s.Nodes, false)
	if len(s.Places) != len(s.Nodes) {
		err = errors.Join(err, fmt.Errorf("%w: %d places for %d nodes", ErrOptions, len(s.Places), len(s.Nodes)))
	}
	if err = errors.Join(err, checkBuckets(s.Places, s.Free)); err != nil {
		return nil, err
	}
	return makeAnchor(s.Nodes, slices.Clone(s.Places), slices.Clone(s.Free)), nil
}

// checkBuckets reports whether every bucket is named once.
func checkBuckets(places, free []int) error {
	capacity := len(places) + len(free)
	if capacity > maxCapacity {
		return fmt.Errorf("%w: %d buckets, want at most %d", ErrOptions, capacity, maxCapacity)
	}
	seen := make([]bool, capacity)
	for _, b := range slices.Concat(places, free) {
		if b < 0 || b >= capacity {
			return fmt.Errorf("%w: bucket %d, want one below the capacity, %d", ErrOptions, b, capacity)
		}
		if seen[b] {
			return fmt.Errorf("%w: bucket %d is there twice", ErrOptions, b)
		}
		seen[b] = true
	}
	return nil
}
