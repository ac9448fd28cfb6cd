package route

import "fmt"

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
	// With and Without edit a router of this kind: nodes join or leave one
	// after the other. Making a new router from the longer list is not the
	// same for kinds with a table of fixed size.
	With    func(r Router, nodes ...Node) (Router, error)
	Without func(r Router, names ...string) (Router, error)
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

// Kinds returns all kinds, from what moves most to what moves least and is
// the most flexible. The caller may change the slice.
func Kinds() []Kind {
	return []Kind{
		{
			Name: "modulo", Summary: "hash mod n",
			New: creator(NewModulo), With: each((*Modulo).With), Without: each((*Modulo).Without),
		},
		{
			Name: "mask", Summary: "the low bits of the hash; n is a power of two",
			Removal: RemovesHalf, Minimal: true,
			New: creator(NewMask), With: batch((*Mask).With), Without: batch((*Mask).Without),
		},
		{
			Name: "interval", Summary: "n equal intervals of hashes; a new node comes last",
			New: creator(NewInterval), With: each((*Interval).With), Without: each((*Interval).Without),
		},
		{
			Name: "interval-relabelled", Summary: "n equal intervals of hashes; a new node comes in the middle",
			New: creator(NewInterval), With: each((*Interval).WithRelabelled), Without: each((*Interval).WithoutRelabelled),
		},
		{
			Name: "jump", Summary: "the key jumps from node to node until past the last",
			Removal: RemovesLast, Minimal: true,
			New: creator(NewJump), With: each((*Jump).With), Without: each((*Jump).Without),
		},
		{
			Name: "binomial", Summary: "the key draws a place in a binary tree of nodes",
			Removal: RemovesLast, Minimal: true,
			New: creator(NewBinomial), With: each((*Binomial).With), Without: each((*Binomial).Without),
		},
		{
			Name: "anchor", Summary: "fixed buckets; a bucket without a node hashes again", Minimal: true,
			New:  creatorWith(NewAnchor, AnchorOptions{}),
			With: each((*Anchor).With), Without: each((*Anchor).Without),
		},
		{
			Name: "maglev", Summary: "a table whose entries the nodes choose in turns", Weighted: true,
			New:  creatorWith(NewMaglev, MaglevOptions{}),
			With: each((*Maglev).With), Without: each((*Maglev).Without),
		},
		{
			Name: "ring", Summary: "the next virtual node clockwise", Weighted: true, Minimal: true,
			New:  creatorWith(NewRing, RingOptions{}),
			With: each((*Ring).With), Without: each((*Ring).Without),
		},
		{
			Name: "rendezvous", Summary: "the node with the highest score for the key", Weighted: true, Minimal: true,
			New: creator(NewRendezvous), With: each((*Rendezvous).With), Without: each((*Rendezvous).Without),
		},
	}
}

// creator makes a constructor return the interface, and nil with an error.
func creator[R Router](construct func([]Node) (R, error)) func([]Node) (Router, error) {
	return func(nodes []Node) (Router, error) { return asRouter(construct(nodes)) }
}

// creatorWith is creator for a constructor with options.
func creatorWith[R Router, O any](construct func([]Node, O) (R, error), opts O) func([]Node) (Router, error) {
	return func(nodes []Node) (Router, error) { return asRouter(construct(nodes, opts)) }
}

// each applies an edit with one argument for every argument in turn.
func each[R Router, A any](edit func(R, A) (R, error)) func(Router, ...A) (Router, error) {
	return batch(func(r R, args ...A) (R, error) {
		var err error
		for _, arg := range args {
			if r, err = edit(r, arg); err != nil {
				return r, err
			}
		}
		return r, nil
	})
}

// batch applies an edit with several arguments to a router of type R.
func batch[R Router, A any](edit func(R, ...A) (R, error)) func(Router, ...A) (Router, error) {
	return func(r Router, args ...A) (Router, error) {
		of, ok := r.(R)
		if !ok {
			return nil, fmt.Errorf("%w: a %T was edited as if it were a %T", ErrOption, r, of)
		}
		return asRouter(edit(of, args...))
	}
}

// asRouter drops the typed nil pointer that comes with an error.
func asRouter[R Router](r R, err error) (Router, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
