package route

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/hash"
)

// weightOrDefault returns the node's share with the default filled in.
func (n Node) weightOrDefault() float64 {
	if n.Weight == 0 {
		return 1
	}
	return n.Weight
}

// checkNodes validates nodes and reports everything that is wrong with them at
// once. With weights false, any weight but 0 and 1 is refused.
func checkNodes(nodes []Node, weights bool) error {
	if len(nodes) == 0 {
		return ErrNoNodes
	}
	var errs []error
	seen := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if n.Name == "" {
			errs = append(errs, fmt.Errorf("%w: node %d", ErrName, i))
		} else if first, dup := seen[n.Name]; dup {
			errs = append(errs, fmt.Errorf("%w: %q is node %d and node %d", ErrDuplicateName, n.Name, first, i))
		} else {
			seen[n.Name] = i
		}
		switch {
		case n.Weight < 0 || math.IsNaN(n.Weight) || math.IsInf(n.Weight, 0):
			errs = append(errs, fmt.Errorf("%w: node %q has %v, want a finite number above 0, or 0, which means 1", ErrWeight, n.Name, n.Weight))
		case !weights && n.Weight != 0 && n.Weight != 1:
			errs = append(errs, fmt.Errorf("%w: node %q has %v, but this router has no weights: want 0 or 1 only", ErrWeight, n.Name, n.Weight))
		}
	}
	return errors.Join(errs...)
}

// hashNames returns the hash of every name. Two names that hash alike, but for
// bits that are ignored, would stand in the same places and one of them would
// own nothing, so they are refused: that takes a crafted name or about 2^32
// nodes.
func hashNames(nodes []Node, ignored uint64) ([]hash.Stable, error) {
	hs := make([]hash.Stable, len(nodes))
	first := make(map[uint64]int, len(nodes))
	var errs []error
	for i, n := range nodes {
		hs[i] = hash.XXH3String(n.Name)
		if j, met := first[hs[i].Uint64()|ignored]; met {
			errs = append(errs, fmt.Errorf("%w: %q and %q: rename one", ErrNameHash, nodes[j].Name, n.Name))
		}
		first[hs[i].Uint64()|ignored] = i
	}
	return hs, errors.Join(errs...)
}

// maxNumbered bounds what one wrong argument of Numbered can allocate.
const maxNumbered = 1 << 20

// Numbered returns n nodes named 0 to n-1, for shards that are known by their
// number: Route of a router made from them is the number of the shard. That
// holds while only the last shards come and go; after other changes an index
// is no longer the number, but the name still is.
//
// It fails with [ErrNodeCount] unless n is from 1 to 2^20.
func Numbered(n int) ([]Node, error) {
	if n < 1 || n > maxNumbered {
		return nil, fmt.Errorf("%w: %d, want 1 to %d", ErrNodeCount, n, maxNumbered)
	}
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i].Name = strconv.Itoa(i)
	}
	return nodes, nil
}

// indexOf returns the index of the node of that name.
func indexOf(nodes []Node, name string) (int, error) {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return i, unknownNodeError(name, nodes)
	}
	return i, nil
}

// unknownNodeError is the error for a name that no node has. It lists the names there
// are if they are few enough to read.
func unknownNodeError(name string, nodes []Node) error {
	const few = 16
	switch n := len(nodes); {
	case n == 0:
		return fmt.Errorf("%w: %q, and no node is left to remove", ErrUnknownNode, name)
	case n > few:
		return fmt.Errorf("%w: %q is none of the %d names in Nodes", ErrUnknownNode, name, n)
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = strconv.Quote(n.Name)
	}
	return fmt.Errorf("%w: %q, want one of %s", ErrUnknownNode, name, strings.Join(names, ", "))
}

// newRemovedTwiceError is the error for a name that is to be removed a second time.
func newRemovedTwiceError(name string) error {
	return fmt.Errorf("%w: %q is to be removed twice: name it once", ErrDuplicateName, name)
}

// withNode returns the topology with one node more.
func withNode(nodes []Node, n Node) []Node { return append(slices.Clone(nodes), n) }

// withoutNodes returns the topology without the named nodes.
func withoutNodes(nodes []Node, names ...string) ([]Node, error) {
	stays := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		stays[n.Name] = true
	}
	var errs []error
	for _, name := range names {
		if here, known := stays[name]; !known {
			errs = append(errs, unknownNodeError(name, nodes))
		} else if !here {
			errs = append(errs, newRemovedTwiceError(name))
		} else {
			stays[name] = false
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !stays[n.Name] }), nil
}

// withoutLast returns nodes without the named ones, which must be the last.
func withoutLast(nodes []Node, names ...string) ([]Node, error) {
	const gone = -1
	index := make(map[string]int, len(nodes))
	for i, n := range nodes {
		index[n.Name] = i
	}
	left := len(nodes) - len(names)
	var errs []error
	for _, name := range names {
		i, known := index[name]
		switch {
		case !known:
			errs = append(errs, unknownNodeError(name, nodes))
			continue
		case i == gone:
			errs = append(errs, newRemovedTwiceError(name))
		case i < left:
			errs = append(errs, fmt.Errorf("%w: %q is node %d of %d, and only the last can go: use a router that can lose any node", ErrNotRemovable, name, i, len(nodes)))
		}
		index[name] = gone
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return nodes[:left], nil
}

// Payload is a value that a [Node] carries for the program: a connection, an address, a handle.
// It has no part in routing: routers of equal names, weights and zones answer alike whatever
// their nodes carry. The zero Payload carries nothing. It is neither written as JSON nor kept
// by an [AnchorState].
//
// Two nodes are equal by == only if they carry the very same Payload, and not if they carry two
// of equal values: compare names.
type Payload struct{ box payloadBox }

// payloadBox is a *boxOf of some type, so that a Payload can be compared whatever it carries.
type payloadBox interface{ describe() string }

type boxOf[T any] struct{ value T }

func (b *boxOf[T]) describe() string { return fmt.Sprintf("%T", b.value) }

// NewPayload returns a payload that carries a value.
func NewPayload[T any](value T) Payload { return Payload{&boxOf[T]{value}} }

// PayloadOf returns what a node carries, and false if that is nothing or of another type than T.
// T is the type that [NewPayload] was called with, not one that its value implements.
func PayloadOf[T any](n Node) (value T, ok bool) {
	b, ok := n.Payload.box.(*boxOf[T])
	if !ok {
		return value, false
	}
	return b.value, true
}

// String names the type that is carried, "" if there is none: what is carried may be a secret.
func (p Payload) String() string {
	if p.box == nil {
		return ""
	}
	return p.box.describe()
}
