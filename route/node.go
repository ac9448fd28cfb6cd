package route

import (
	"errors"
	"fmt"
	"math"

	"github.com/cleavekv/cleave/hash"
)

// weight returns the node's share with the default filled in.
func (n Node) weight() float64 {
	if n.Weight == 0 {
		return 1
	}
	return n.Weight
}

// check validates nodes and reports everything that is wrong with them at
// once. With weights false, any weight but 0 and 1 is refused.
func check(nodes []Node, weights bool) error {
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
