package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Kind is a way of routing, for programs that let their users choose one and
// for comparing them all.
type Kind struct {
	// Name is one lower-case word, stable across versions.
	Name string
	// Summary says in one line how a key finds its node.
	Summary string
	// Removal specifies which nodes can leave.
	Removal Removal
	// Weighted reports whether weights other than 1 are honoured. Other kinds
	// refuse them.
	Weighted bool
	// Minimal reports whether a node that joins moves keys to itself only, and one
	// that leaves moves its own keys only.
	Minimal bool
	// New returns a router of this kind with its default options.
	New func(nodes []Node) (Router, error)

	edits kindEdits
}

// With returns r, which is of this kind, with more nodes that join one after
// the other. It keeps r's options. Making a new router from the longer list is
// not the same for kinds that have a history or a table of fixed size.
func (k Kind) With(r Router, nodes ...Node) (Router, error) {
	if k.edits.with == nil {
		return nil, k.newUnlistedError()
	}
	return k.edits.with(r, nodes)
}

// Without returns r, which is of this kind, without the named nodes, which
// leave one after the other. It keeps r's options.
func (k Kind) Without(r Router, names ...string) (Router, error) {
	if k.edits.without == nil {
		return nil, k.newUnlistedError()
	}
	return k.edits.without(r, names)
}

// newUnlistedError is the error of a kind that [Kinds] does not return.
func (k Kind) newUnlistedError() error {
	return fmt.Errorf("%w: %q is not from Kinds", ErrUnknownKind, k.Name)
}

// Removal specifies which nodes can leave a router.
type Removal uint8

// What a router can lose.
const (
	RemovesAny  Removal = iota // any node
	RemovesLast                // the last node in the list
	RemovesHalf                // the last nodes, so many that a power of two remains
)

// String returns a phrase such as "any node".
func (r Removal) String() string {
	switch r {
	case RemovesAny:
		return "any node"
	case RemovesLast:
		return "the last node"
	case RemovesHalf:
		return "the last half"
	}
	return fmt.Sprintf("Removal(%d)", uint8(r))
}

// ErrUnknownKind means there is no kind of that name: its text lists those
// there are.
var ErrUnknownKind = errors.New("route: unknown kind")

// KindNamed returns the kind of that name.
func KindNamed(name string) (Kind, error) {
	var names []string
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("%w: %q, want one of %s", ErrUnknownKind, name, strings.Join(names, ", "))
}

// Kinds returns all kinds, the simplest first. The caller may change the slice.
func Kinds() []Kind {
	return []Kind{
		{
			Name: "modulo", Summary: "hash mod n",
			New:   asConstructor(NewModulo),
			edits: newListEdits(appendNodes, withoutNodes, withoutOptions(NewModulo)),
		},
		{
			Name: "mask", Summary: "the low bits of the hash; n is a power of two", Removal: RemovesHalf, Minimal: true,
			New:   asConstructor(NewMask),
			edits: newListEdits(appendNodes, withoutLast, withoutOptions(NewMask)),
		},
		{
			Name: "interval", Summary: "n equal intervals of hashes; a new node comes last",
			New:   asConstructor(NewInterval),
			edits: newListEdits(appendNodes, withoutNodes, withoutOptions(NewInterval)),
		},
		{
			Name: "interval-relabelled", Summary: "n equal intervals of hashes; a new node comes in the middle",
			New:   asConstructor(NewInterval),
			edits: newListEdits(insertNodes, withoutGaps, withoutOptions(NewInterval)),
		},
		{
			Name: "jump", Summary: "the key jumps from node to node until past the last", Removal: RemovesLast, Minimal: true,
			New:   asConstructor(NewJump),
			edits: newListEdits(appendNodes, withoutLast, withoutOptions(NewJump)),
		},
		{
			Name: "binomial", Summary: "the key draws a place in a binary tree of nodes", Removal: RemovesLast, Minimal: true,
			New:   asConstructor(NewBinomial),
			edits: newListEdits(appendNodes, withoutLast, withoutOptions(NewBinomial)),
		},
		{
			Name: "anchor", Summary: "fixed buckets; one without a node hashes its keys again", Minimal: true,
			New:   asConstructorWith(NewAnchor, AnchorOptions{}),
			edits: kindEdits{with: asBatchEdit((*Anchor).withNodes), without: asBatchEdit((*Anchor).withoutNodes)},
		},
		{
			Name: "maglev", Summary: "a table whose entries the nodes choose in turns", Weighted: true,
			New: asConstructorWith(NewMaglev, MaglevOptions{}),
			edits: newListEdits(appendNodes, withoutNodes, func(r *Maglev, nodes []Node) (*Maglev, error) {
				return NewMaglev(nodes, MaglevOptions{Entries: r.Entries()})
			}),
		},
		{
			Name: "ring", Summary: "the next virtual node clockwise", Weighted: true, Minimal: true,
			New:   asConstructorWith(NewRing, RingOptions{}),
			edits: newListEdits(appendNodes, withoutNodes, func(r *Ring, nodes []Node) (*Ring, error) { return NewRing(nodes, r.opts) }),
		},
		{
			Name: "bounded-ring", Summary: "the next virtual node clockwise whose node has room", Weighted: true,
			New: asConstructorWith(NewBoundedRing, BoundedRingOptions{}),
			edits: newListEdits(appendNodes, withoutNodes, func(r *BoundedRing, nodes []Node) (*BoundedRing, error) {
				return NewBoundedRing(nodes, r.opts)
			}),
		},
		{
			Name: "rendezvous", Summary: "the node with the highest score for the key", Weighted: true, Minimal: true,
			New:   asConstructor(NewRendezvous),
			edits: newListEdits(appendNodes, withoutNodes, withoutOptions(NewRendezvous)),
		},
	}
}

// kindEdits are the edits of a kind, by many nodes at once: a table is built anew
// once, not once a node.
type kindEdits struct {
	with    func(r Router, more []Node) (Router, error)
	without func(r Router, names []string) (Router, error)
}

// newListEdits returns the edits of a kind that is made anew from its edited list of
// nodes, with the options of the router before.
func newListEdits[R Router](
	join func(nodes, more []Node) []Node,
	leave func(nodes []Node, names ...string) ([]Node, error),
	anew func(was R, nodes []Node) (R, error),
) kindEdits {
	return kindEdits{
		with: asBatchEdit(func(r R, more ...Node) (R, error) { return anew(r, join(r.Nodes(), more)) }),
		without: asBatchEdit(func(r R, names ...string) (R, error) {
			nodes, err := leave(r.Nodes(), names...)
			if err != nil {
				var none R
				return none, err
			}
			return anew(r, nodes)
		}),
	}
}

// withoutOptions is how a kind without options is made anew.
func withoutOptions[R Router](construct func([]Node) (R, error)) func(was R, nodes []Node) (R, error) {
	return func(_ R, nodes []Node) (R, error) { return construct(nodes) }
}

// asBatchEdit makes an edit take and return the interface.
func asBatchEdit[R Router, A any](edit func(R, ...A) (R, error)) func(Router, []A) (Router, error) {
	return func(r Router, args []A) (Router, error) {
		of, ok := r.(R)
		if !ok {
			return nil, fmt.Errorf("%w: a %T was edited as if it were a %T", ErrOptions, r, of)
		}
		return asRouter(edit(of, args...))
	}
}

// asConstructor makes a constructor return the interface.
func asConstructor[R Router](construct func([]Node) (R, error)) func([]Node) (Router, error) {
	return func(nodes []Node) (Router, error) { return asRouter(construct(nodes)) }
}

// asConstructorWith is creator for a constructor with options.
func asConstructorWith[R Router, O any](construct func([]Node, O) (R, error), opts O) func([]Node) (Router, error) {
	return func(nodes []Node) (Router, error) { return asRouter(construct(nodes, opts)) }
}

// asRouter drops the typed nil pointer that comes with an error.
func asRouter[R Router](r R, err error) (Router, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// appendNodes returns the topology with more nodes behind the others.
func appendNodes(nodes, more []Node) []Node { return slices.Concat(nodes, more) }

// insertNodes returns the topology with each of more nodes in the middle.
func insertNodes(nodes, more []Node) []Node {
	nodes = slices.Grow(slices.Clone(nodes), len(more))
	for _, n := range more {
		nodes = slices.Insert(nodes, len(nodes)/2, n)
	}
	return nodes
}

// withoutGaps returns the topology without the named nodes, each gap where
// closing it moves the least.
func withoutGaps(nodes []Node, names ...string) ([]Node, error) {
	nodes = slices.Clone(nodes)
	for _, name := range names {
		at, err := indexOf(nodes, name)
		if err != nil {
			return nil, err
		}
		nodes = closeGap(nodes, at)
	}
	return nodes, nil
}
