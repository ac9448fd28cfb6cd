package route

import (
	"errors"
	"fmt"
	"math"
)

// ErrNoNodes means a router was asked for with no nodes: name at least one.
var ErrNoNodes = errors.New("route: no nodes")

// ErrDuplicateName means two nodes share a name: names identify nodes.
var ErrDuplicateName = errors.New("route: duplicate node name")

// ErrWeight means a node's weight is negative, not finite, or not one that
// this kind of router can honour.
var ErrWeight = errors.New("route: bad weight")

// ErrName means a node has an empty name.
var ErrName = errors.New("route: empty node name")

// ErrUnknownNode means a node to remove is not there.
var ErrUnknownNode = errors.New("route: unknown node")

// ErrNotRemovable means this kind of router cannot lose that node: the doc of
// each type says what it allows.
var ErrNotRemovable = errors.New("route: node cannot be removed here")

// ErrOption means a knob has a value that its doc excludes.
var ErrOption = errors.New("route: bad option")

// ErrTooLarge means a table would outgrow its bound: ask for fewer nodes,
// smaller weights or a smaller table.
var ErrTooLarge = errors.New("route: too large")

// ErrNameHash means two names have the same 64-bit hash, so one of the nodes
// would own nothing: rename one.
var ErrNameHash = errors.New("route: names hash alike")

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
			errs = append(errs, fmt.Errorf("%w: node %q has %v, want a finite weight above 0 (0 means 1)", ErrWeight, n.Name, n.Weight))
		case !weights && n.Weight != 0 && n.Weight != 1:
			errs = append(errs, fmt.Errorf("%w: node %q has %v, but this router has no weights", ErrWeight, n.Name, n.Weight))
		}
	}
	return errors.Join(errs...)
}
