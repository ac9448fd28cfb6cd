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

// withoutNode returns the topology without the node of that name.
func withoutNode(nodes []Node, name string) ([]Node, error) {
	i, err := indexOf(nodes, name)
	if err != nil {
		return nil, err
	}
	return slices.Delete(slices.Clone(nodes), i, i+1), nil
}

// withoutLast returns nodes without the named ones, which must be the last.
func withoutLast(nodes []Node, names ...string) ([]Node, error) {
	left := len(nodes) - len(names)
	var errs []error
	for k, name := range names {
		i, err := indexOf(nodes, name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case slices.Contains(names[:k], name):
			errs = append(errs, fmt.Errorf("%w: %q is to be removed twice", ErrDuplicateName, name))
		case i < left:
			errs = append(errs, fmt.Errorf("%w: %q is node %d of %d, and only the last can go: use a router that can lose any node", ErrNotRemovable, name, i, len(nodes)))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return nodes[:left], nil
}
