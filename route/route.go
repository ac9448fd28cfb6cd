// Package route answers one question: which node owns this key?
//
// A [Router] holds topology only, never data. Routers are immutable values
// and pure functions: equal nodes and equal hashes give equal answers in
// every process, so the same router runs in a server and in its clients. A
// change of topology makes a new router; Compare tells what that moves.
//
// Routers take a [hash.Stable], so a hash that differs from process to process
// does not compile. None preserves the order of keys.
package route

import "github.com/cleavekv/cleave/hash"

// None is what an empty router answers: no node owns the key.
const None = -1

// Node is a member of a topology.
type Node struct {
	// Name identifies the node. Routers that hash nodes hash the name, so a
	// node that keeps its name keeps its keys. Not empty, unique in a router.
	Name string
	// Weight is the node's share relative to the others. 0 means 1. Finite
	// and not negative; routers without weights refuse any but 0 and 1.
	Weight float64
	// Zone is the failure domain that RouteN spreads over. Nodes
	// with an empty zone are each their own zone.
	Zone string
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
