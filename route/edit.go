package route

import (
	"errors"
	"fmt"
	"slices"
)

// indexOf returns the index of the node of that name.
func indexOf(nodes []Node, name string) (int, error) {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return i, fmt.Errorf("%w: %q", ErrUnknownNode, name)
	}
	return i, nil
}

// withNode returns the topology with one node more.
func withNode(nodes []Node, n Node) []Node { return append(slices.Clone(nodes), n) }

// without returns the topology without the named nodes.
func without(nodes []Node, names ...string) ([]Node, error) {
	stays := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		stays[n.Name] = true
	}
	for _, name := range names {
		if !stays[name] {
			return nil, fmt.Errorf("%w: %q", ErrUnknownNode, name)
		}
		stays[name] = false
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
			errs = append(errs, fmt.Errorf("%w: %q", ErrUnknownNode, name))
			continue
		case i == gone:
			errs = append(errs, fmt.Errorf("%w: %q is to be removed twice", ErrDuplicateName, name))
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
