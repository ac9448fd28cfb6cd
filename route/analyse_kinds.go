package route

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// A Change is a change of topology.
type Change struct {
	// Remove has the names of nodes that leave, in that order.
	Remove []string
	// Add has nodes that join after that, in that order.
	Add []Node
}

// A Comparison tells what a change moves under one kind of router.
type Comparison struct {
	Kind     Kind
	Movement Movement
	// Err says why the kind cannot have these nodes or make this change. The
	// movement is then zero.
	Err error
}

// CompareKinds makes the same change under every kind and returns what moves,
// the least first, kinds that cannot make the change last. Keys are those of
// [Compare], gone through once a kind.
func CompareKinds(kinds []Kind, nodes []Node, change Change, keys iter.Seq[hash.Stable]) []Comparison {
	list := make([]Comparison, 0, len(kinds))
	for _, k := range kinds {
		c := Comparison{Kind: k}
		before, after, err := change.apply(k, nodes)
		if err != nil {
			c.Err = fmt.Errorf("%s: %w", k.Name, err)
		} else {
			c.Movement = Compare(before, after, keys)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Comparison) int {
		switch {
		case a.Err != nil && b.Err != nil:
			return 0
		case a.Err != nil:
			return 1
		case b.Err != nil:
			return -1
		}
		return cmp.Compare(a.Movement.Moved, b.Movement.Moved)
	})
	return list
}

// apply returns routers of one kind before and after the change.
func (c Change) apply(k Kind, nodes []Node) (before, after Router, err error) {
	if k.New == nil {
		return nil, nil, k.unlisted()
	}
	if before, err = k.New(nodes); err != nil {
		return nil, nil, err
	}
	after = before
	if len(c.Remove) > 0 {
		if after, err = k.Without(after, c.Remove...); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Add) > 0 {
		if after, err = k.With(after, c.Add...); err != nil {
			return nil, nil, err
		}
	}
	return before, after, nil
}
