package route

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// indexOf returns the index of the node of that name.
func indexOf(nodes []Node, name string) (int, error) {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return i, unknown(name, nodes)
	}
	return i, nil
}

// unknown is the error for a name that no node has. It lists the names there
// are if they are few enough to read.
func unknown(name string, nodes []Node) error {
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

// twice is the error for a name that is to be removed a second time.
func twice(name string) error {
	return fmt.Errorf("%w: %q is to be removed twice: name it once", ErrDuplicateName, name)
}

// withNode returns the topology with one node more.
func withNode(nodes []Node, n Node) []Node { return append(slices.Clone(nodes), n) }

// without returns the topology without the named nodes.
func without(nodes []Node, names ...string) ([]Node, error) {
	stays := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		stays[n.Name] = true
	}
	var errs []error
	for _, name := range names {
		if here, known := stays[name]; !known {
			errs = append(errs, unknown(name, nodes))
		} else if !here {
			errs = append(errs, twice(name))
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
			errs = append(errs, unknown(name, nodes))
			continue
		case i == gone:
			errs = append(errs, twice(name))
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
