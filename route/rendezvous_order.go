package route

import (
	"cmp"
	"math"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

const (
	// fewNodes is the size of a topology whose scores fit the stack: 1 KiB.
	fewNodes = 128
	// fewAnswers is how often looking at all nodes is quicker than sorting
	// them.
	fewAnswers = 16
)

// RouteN implements [Router]: further nodes are those with the next scores.
func (r *Rendezvous) RouteN(dst []int, h hash.Stable, n int) []int {
	d := newDraw(h)
	switch n = min(n, len(r.ids)); {
	case n <= 0:
		return dst
	case len(r.ids) <= fewNodes:
		return r.selection(dst, d, n)
	case n <= fewAnswers:
		return r.winners(dst, d, n)
	}
	return r.ranking(dst, d, n)
}

// costAt returns the cost of the node at a position or, where weights are
// equal, something quicker to tell that has the same order.
func (r *Rendezvous) costAt(at int, d draw) float64 {
	score := r.groups[at/groupNodes].score(at%groupNodes, d)
	if r.even {
		return float64(^score)
	}
	return cost(score, r.nodes[r.ids[at]].weight())
}

// selection is RouteN for few nodes: their costs are computed once.
func (r *Rendezvous) selection(dst []int, d draw, n int) []int {
	var costs [fewNodes]float64
	left := costs[:len(r.ids)]
	for at := range left {
		left[at] = r.costAt(at, d)
	}
	from := len(dst)
	for range n {
		picked := dst[from:]
		best, least := 0, math.Inf(1)
		for at, c := range left {
			if c < least && !r.passOver(picked, int(r.ids[at])) {
				best, least = at, c
			}
		}
		left[best] = math.Inf(1)
		dst = append(dst, int(r.ids[best]))
	}
	return dst
}

// winners is RouteN for few answers: it looks at all nodes for each.
func (r *Rendezvous) winners(dst []int, d draw, n int) []int {
	from := len(dst)
	for range n {
		picked := dst[from:]
		dst = append(dst, r.winner(d, func(node int) bool { return r.passOver(picked, node) }))
	}
	return dst
}

// passOver says whether a node must wait: it is picked, or its zone is while
// others are not.
func (r *Rendezvous) passOver(picked []int, node int) bool {
	if len(picked) >= r.spread.zones {
		return slices.Contains(picked, node)
	}
	zone := r.spread.zoneOf(node)
	return slices.ContainsFunc(picked, func(p int) bool { return r.spread.zoneOf(p) == zone })
}

// ranking is RouteN for many answers among many nodes: it sorts them.
func (r *Rendezvous) ranking(dst []int, d draw, n int) []int {
	type entry struct {
		cost float64
		id   int32
	}
	order := make([]entry, len(r.ids))
	for at, id := range r.ids {
		order[at] = entry{r.costAt(at, d), id}
	}
	// Stable, so that ties stay in the order of the names.
	slices.SortStableFunc(order, func(a, b entry) int { return cmp.Compare(a.cost, b.cost) })
	return r.spread.collect(dst, n, len(order), func(i int) int { return int(order[i].id) })
}
