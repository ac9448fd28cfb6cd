package check

import (
	"cmp"
	"slices"
)

// knot is a set of at least two transactions each of which reaches each other:
// every cycle lies within one. They are in the order of their invocations.
type knot []int32

// knots returns the knots that edges of these kinds form, by Tarjan's algorithm
// with a stack of its own: a history is deeper than a goroutine's may get.
func (g *graph) knots(kinds edges) (found []knot) {
	kinds |= through
	nodes := len(g.first) - 1
	// seen is the number of a node in the order of visits, from 1; low the least
	// that it reaches. done marks nodes whose knot is known.
	seen, low := make([]int32, nodes), make([]int32, nodes)
	done := make([]bool, nodes)
	type frame struct{ node, next int32 }
	var path []frame  // from the root to the node at hand
	var open []int32  // visited and not done
	var visited int32 // number of them
	enter := func(n int32) {
		visited++
		seen[n], low[n] = visited, visited
		open = append(open, n)
		path = append(path, frame{n, g.first[n]})
	}
	for root := range int32(nodes) {
		if seen[root] != 0 {
			continue
		}
		enter(root)
		for len(path) > 0 {
			f := &path[len(path)-1]
			if f.next < g.first[f.node+1] {
				a := &g.arcs[f.next]
				f.next++
				switch {
				case a.kind&kinds == 0 || done[a.to]:
				case seen[a.to] == 0:
					enter(a.to)
				default:
					low[f.node] = min(low[f.node], seen[a.to])
				}
				continue
			}
			n := f.node
			path = path[:len(path)-1]
			if len(path) > 0 {
				parent := path[len(path)-1].node
				low[parent] = min(low[parent], low[n])
			}
			if low[n] == seen[n] {
				start := len(open) - 1
				for open[start] != n {
					start--
				}
				found = g.collect(found, open[start:], done)
				open = open[:start]
			}
		}
	}
	slices.SortFunc(found, func(a, b knot) int { return cmp.Compare(a[0], b[0]) })
	return found
}

// collect marks the nodes of a component as done and adds the transactions in
// it, if it is a knot.
func (g *graph) collect(found []knot, component []int32, done []bool) []knot {
	if len(component) == 1 {
		done[component[0]] = true
		return found
	}
	var k knot
	for _, n := range component {
		done[n] = true
		if n < int32(g.txns) {
			k = append(k, n)
		}
	}
	if len(k) < 2 {
		return found
	}
	slices.SortFunc(k, func(a, b int32) int {
		return cmp.Or(cmp.Compare(g.calls[a].Invoke, g.calls[b].Invoke), cmp.Compare(a, b))
	})
	return append(found, k)
}
