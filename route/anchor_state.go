package route

import (
	"errors"
	"fmt"
	"slices"
)

// AnchorState is everything that decides the answers of an [Anchor]. Equal
// states answer alike in every process; it may be stored or sent, for instance
// as JSON.
type AnchorState struct {
	// Nodes are the members, in the order of [Anchor.Nodes].
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
	return AnchorState{
		Nodes:  slices.Clone(r.nodes),
		Places: slices.Clone(r.places),
		Free:   slices.Clone(r.free),
	}
}

// RestoreAnchor returns the router whose state s is.
func RestoreAnchor(s AnchorState) (*Anchor, error) {
	err := check(s.Nodes, false)
	if len(s.Places) != len(s.Nodes) {
		err = errors.Join(err, fmt.Errorf("%w: %d places for %d nodes", ErrOptions, len(s.Places), len(s.Nodes)))
	}
	if err = errors.Join(err, checkBuckets(s.Places, s.Free)); err != nil {
		return nil, err
	}
	return makeAnchor(s.Nodes, slices.Clone(s.Places), slices.Clone(s.Free)), nil
}

// checkBuckets tells whether every bucket is named once.
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
