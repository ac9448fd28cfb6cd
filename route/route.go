// Package route answers one question: which node owns this key?
//
// A [Router] holds topology only, never data. Routers are immutable values
// and pure functions: equal nodes and equal hashes give equal answers in
// every process, so the same router runs in a server and in its clients. A
// change of topology makes a new router: With and Without of each type return
// one, and [Compare] returns what that would move before it is done.
//
// Which one to use:
//
//   - nodes come and go in any order: [Ring], which is quick among any number
//     of nodes; [Rendezvous], if there are few or their weights must be exact;
//     [Anchor], if all processes can apply the same edits in the same order.
//   - nodes are [Numbered], and the last one joins and leaves: [Binomial], or
//     [Jump] to agree with other programs.
//   - no node may have much more than its share: [BoundedRing] or [Maglev],
//     which move a few more keys than they must.
//   - the number of nodes is fixed, or doubles: [Modulo], [Mask].
//   - a node must own one contiguous range of hashes: [Interval].
//
// [Owner] and [Owners] turn the indexes that a router answers into nodes. A node carries what
// belongs to it, such as a connection, as its [Payload]. Package meter counts what any router
// sends to each node, and how that went.
//
// The doc of each type says what moves when, which nodes can leave, and what
// weights, memory and lookups cost. [Kinds] lists them all for programs that
// let their users choose.
//
// Routers take a [hash.Stable], so a hash that differs from process to process
// does not compile. They read bits of it as they are: a poor hash function
// makes uneven loads. None preserves the order of keys.
package route

import (
	"errors"

	"github.com/cleavekv/cleave/hash"
)

// None is what an empty router answers: no node owns the key.
const None = -1

// Node is a member of a topology.
type Node struct {
	// Name identifies the node. Routers that hash nodes hash the name, so a
	// node that keeps its name keeps its keys. Not empty, unique in a router.
	Name string
	// Weight is the node's share relative to the others: a finite number
	// above 0, or 0, which means 1. Routers without weights take 0 or 1 only.
	Weight float64
	// Zone is the failure domain that RouteN spreads over. Nodes with an
	// empty zone are each their own zone.
	Zone string
	// Payload is whatever the program wants to find with the node, such as its connection: see
	// [NewPayload]. Routers hand it on and never look at it.
	Payload Payload `json:"-"`
}

// Router finds the owner of a key. Implementations are safe for concurrent
// use because they do not change.
type Router interface {
	// Route returns the index in Nodes of the node that owns h, or None if
	// the router is empty.
	Route(h hash.Stable) int
	// RouteN appends to dst the indexes of min(n, len(Nodes())) distinct
	// nodes in order of preference and returns the extended slice. The first
	// is Route(h). Nodes in zones not used yet come before nodes in zones
	// that are.
	RouteN(dst []int, h hash.Stable, n int) []int
	// Nodes returns the members by index. The caller must not change it.
	Nodes() []Node
}

// Owner returns the node that owns h, and false if the router is empty. It is
// Route for callers that want the node and not its index. A nil router is an empty
// one.
func Owner(r Router, h hash.Stable) (Node, bool) {
	if r == nil {
		return Node{}, false
	}
	i := r.Route(h)
	if i == None {
		return Node{}, false
	}
	return r.Nodes()[i], true
}

// Owners returns min(n, len(r.Nodes())) distinct nodes for h in order of
// preference, the owner first and then nodes in zones not used yet. It is
// RouteN for callers that want the nodes and not their indexes, and allocates
// where RouteN need not. A nil router is an empty one.
func Owners(r Router, h hash.Stable, n int) []Node {
	if r == nil {
		return nil
	}
	indexes := r.RouteN(nil, h, n)
	nodes, owners := r.Nodes(), make([]Node, len(indexes))
	for i, index := range indexes {
		owners[i] = nodes[index]
	}
	return owners
}

// ErrNoNodes means a router was asked for with no nodes: name at least one.
var ErrNoNodes = errors.New("route: no nodes")

// ErrDuplicateName means two nodes share a name: rename one, since names
// identify nodes.
var ErrDuplicateName = errors.New("route: duplicate node name")

// ErrWeight means a node's weight is not what Node.Weight allows, or not one
// that this kind of router can honour: the text says what it may be.
var ErrWeight = errors.New("route: bad weight")

// ErrName means a node has an empty name: give it one that no other has.
var ErrName = errors.New("route: empty node name")

// ErrUnknownNode means a node to remove is not there: remove one of Nodes. The
// text lists their names if they are few, and else says how many there are.
var ErrUnknownNode = errors.New("route: unknown node")

// ErrNotRemovable means this kind of router cannot lose that node: the doc of
// each type says what it allows.
var ErrNotRemovable = errors.New("route: node cannot be removed here")

// ErrNodeCount means a router cannot have that number of nodes: the doc of
// its type says which it can.
var ErrNodeCount = errors.New("route: impossible number of nodes")

// ErrOptions means an option has a value that its doc excludes: the text says
// which one, and what it may be.
var ErrOptions = errors.New("route: bad options")

// ErrTooLarge means a table would outgrow its bound: ask for fewer nodes,
// smaller weights or a smaller table.
var ErrTooLarge = errors.New("route: too large")

// ErrNameHash means two names have the same 64-bit hash, so one of the nodes
// would own nothing: rename one.
var ErrNameHash = errors.New("route: names hash alike")
