package route

import (
	"errors"
	"fmt"
	"strings"
)

// A Kind is a way of routing, for programs that let their users choose one and
// for comparing them all.
type Kind struct {
	// Name is one lower-case word, stable across versions.
	Name string
	// Summary says in one line how a key finds its node.
	Summary string
	// Removal says which nodes can leave.
	Removal Removal
	// Weighted says whether weights other than 1 are honoured. Other kinds
	// refuse them.
	Weighted bool
	// Minimal says that a node that joins moves keys to itself only, and one
	// that leaves moves its own keys only.
	Minimal bool
	// New returns a router of this kind with its default options.
	New func(nodes []Node) (Router, error)

	edits edits
}

// With returns r, which is of this kind, with more nodes that join one after
// the other. It keeps r's options. Making a new router from the longer list is
// not the same for kinds that have a history or a table of fixed size.
func (k Kind) With(r Router, nodes ...Node) (Router, error) {
	if k.edits.with == nil {
		return nil, k.unlisted()
	}
	return k.edits.with(r, nodes)
}

// Without returns r, which is of this kind, without the named nodes, which
// leave one after the other. It keeps r's options.
func (k Kind) Without(r Router, names ...string) (Router, error) {
	if k.edits.without == nil {
		return nil, k.unlisted()
	}
	return k.edits.without(r, names)
}

// unlisted is the error of a kind that [Kinds] does not return.
func (k Kind) unlisted() error {
	return fmt.Errorf("%w: %q is not from Kinds", ErrUnknownKind, k.Name)
}

// Removal says which nodes can leave a router.
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
			New:   creator(NewModulo),
			edits: listed(appended, without, fresh(NewModulo)),
		},
		{
			Name: "mask", Summary: "the low bits of the hash; n is a power of two", Removal: RemovesHalf, Minimal: true,
			New:   creator(NewMask),
			edits: listed(appended, withoutLast, fresh(NewMask)),
		},
		{
			Name: "interval", Summary: "n equal intervals of hashes; a new node comes last",
			New:   creator(NewInterval),
			edits: listed(appended, without, fresh(NewInterval)),
		},
		{
			Name: "interval-relabelled", Summary: "n equal intervals of hashes; a new node comes in the middle",
			New:   creator(NewInterval),
			edits: listed(inserted, withoutGaps, fresh(NewInterval)),
		},
		{
			Name: "jump", Summary: "the key jumps from node to node until past the last", Removal: RemovesLast, Minimal: true,
			New:   creator(NewJump),
			edits: listed(appended, withoutLast, fresh(NewJump)),
		},
		{
			Name: "binomial", Summary: "the key draws a place in a binary tree of nodes", Removal: RemovesLast, Minimal: true,
			New:   creator(NewBinomial),
			edits: listed(appended, withoutLast, fresh(NewBinomial)),
		},
		{
			Name: "anchor", Summary: "fixed buckets; one without a node hashes its keys again", Minimal: true,
			New:   creatorWith(NewAnchor, AnchorOptions{}),
			edits: edits{with: batch((*Anchor).join), without: batch((*Anchor).leave)},
		},
		{
			Name: "maglev", Summary: "a table whose entries the nodes choose in turns", Weighted: true,
			New: creatorWith(NewMaglev, MaglevOptions{}),
			edits: listed(appended, without, func(r *Maglev, nodes []Node) (*Maglev, error) {
				return NewMaglev(nodes, MaglevOptions{Entries: r.Entries()})
			}),
		},
		{
			Name: "ring", Summary: "the next virtual node clockwise", Weighted: true, Minimal: true,
			New:   creatorWith(NewRing, RingOptions{}),
			edits: listed(appended, without, func(r *Ring, nodes []Node) (*Ring, error) { return NewRing(nodes, r.opts) }),
		},
		{
			Name: "bounded-ring", Summary: "the next virtual node clockwise whose node has room", Weighted: true,
			New: creatorWith(NewBoundedRing, BoundedRingOptions{}),
			edits: listed(appended, without, func(r *BoundedRing, nodes []Node) (*BoundedRing, error) {
				return NewBoundedRing(nodes, r.opts)
			}),
		},
		{
			Name: "rendezvous", Summary: "the node with the highest score for the key", Weighted: true, Minimal: true,
			New:   creator(NewRendezvous),
			edits: listed(appended, without, fresh(NewRendezvous)),
		},
	}
}
