package route

import (
	"fmt"
	"slices"
)

// edits are the edits of a kind, by many nodes at once: a table is built anew
// once, not once a node.
type edits struct {
	with    func(r Router, more []Node) (Router, error)
	without func(r Router, names []string) (Router, error)
}

// listed returns the edits of a kind that is made anew from its edited list of
// nodes, with the options of the router before.
func listed[R Router](
	join func(nodes, more []Node) []Node,
	leave func(nodes []Node, names ...string) ([]Node, error),
	anew func(was R, nodes []Node) (R, error),
) edits {
	return edits{
		with: batch(func(r R, more ...Node) (R, error) { return anew(r, join(r.Nodes(), more)) }),
		without: batch(func(r R, names ...string) (R, error) {
			nodes, err := leave(r.Nodes(), names...)
			if err != nil {
				var none R
				return none, err
			}
			return anew(r, nodes)
		}),
	}
}

// fresh is how a kind without options is made anew.
func fresh[R Router](construct func([]Node) (R, error)) func(was R, nodes []Node) (R, error) {
	return func(_ R, nodes []Node) (R, error) { return construct(nodes) }
}

// batch makes an edit take and return the interface.
func batch[R Router, A any](edit func(R, ...A) (R, error)) func(Router, []A) (Router, error) {
	return func(r Router, args []A) (Router, error) {
		of, ok := r.(R)
		if !ok {
			return nil, fmt.Errorf("%w: a %T was edited as if it were a %T", ErrOptions, r, of)
		}
		return asRouter(edit(of, args...))
	}
}

// creator makes a constructor return the interface.
func creator[R Router](construct func([]Node) (R, error)) func([]Node) (Router, error) {
	return func(nodes []Node) (Router, error) { return asRouter(construct(nodes)) }
}

// creatorWith is creator for a constructor with options.
func creatorWith[R Router, O any](construct func([]Node, O) (R, error), opts O) func([]Node) (Router, error) {
	return func(nodes []Node) (Router, error) { return asRouter(construct(nodes, opts)) }
}

// asRouter drops the typed nil pointer that comes with an error.
func asRouter[R Router](r R, err error) (Router, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// appended returns the topology with more nodes behind the others.
func appended(nodes, more []Node) []Node { return slices.Concat(nodes, more) }

// inserted returns the topology with each of more nodes in the middle.
func inserted(nodes, more []Node) []Node {
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
