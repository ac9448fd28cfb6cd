package check

import (
	"iter"
	"slices"
)

// search looks for cycles in the graph of a history.
type search struct {
	l     *lists
	g     *graph
	steps int // that are left
	// home is the knot of each transaction, by its place in the list at hand,
	// or none.
	home []int32
	// came is the arc by which the path at hand reached a node; mark tells in
	// which path that was.
	came []arc
	mark []int32
	path int32
	todo []int32
	// told has, for each transaction, the cycles with it that are reported, by
	// their numbers; sizes has their lengths.
	told  map[int32][]int
	sizes []int
}

func newSearch(l *lists, g *graph, steps int) *search {
	return &search{
		l: l, g: g, steps: steps,
		home: make([]int32, g.txns),
		came: make([]arc, g.inner),
		mark: make([]int32, g.inner),
		told: map[int32][]int{},
	}
}

// run reports, for each kind of cycle, the shortest in each knot.
func (s *search) run() {
	for _, c := range classes {
		for _, k := range s.enter(c.close | c.path) {
			if best := s.shortest(c, k); best.is(c.kind) {
				s.tell(best)
			}
		}
	}
	// A search that was cut short has left knots out.
	for _, k := range s.enter(anyEdge) {
		if !slices.ContainsFunc(k, func(t int32) bool { return s.told[t] != nil }) {
			s.tell(s.first(k))
		}
	}
}

// enter returns the knots that edges of these kinds form, and makes them the home
// of their transactions.
func (s *search) enter(kinds edges) []knot {
	knots := s.g.knots(kinds)
	for i := range s.home {
		s.home[i] = none
	}
	for i, k := range knots {
		for _, t := range k {
			s.home[t] = int32(i)
		}
	}
	return knots
}

// tell reports a cycle, unless it is a detour: one that has all transactions of a
// cycle that is reported.
func (s *search) tell(c cycle) {
	shared := map[int]int{}
	for _, t := range c.members() {
		for _, n := range s.told[t] {
			if shared[n]++; shared[n] == s.sizes[n] {
				return
			}
		}
	}
	for _, t := range c.members() {
		s.told[t] = append(s.told[t], len(s.sizes))
	}
	s.sizes = append(s.sizes, len(c))
	s.l.report.Add(s.l.explain(c))
}

// shortest returns the shortest cycle of the class within the knot, one of its
// kind if there is any. It tries all short ones first, since the cost of a path
// grows with its length.
func (s *search) shortest(c class, k knot) (best cycle) {
	for _, limit := range []int{1, 2, 3, noLimit} {
		for a := range s.within(k, c.close) {
			best = s.close(c, k, a, limit, best)
			if s.steps <= 0 || best.is(c.kind) && limit < noLimit {
				return best
			}
		}
	}
	return best
}

// close returns the better one of the cycle that there is and a shortest one
// that begins with the arc.
func (s *search) close(c class, k knot, a arc, limit int, best cycle) cycle {
	if best.is(c.kind) {
		limit = min(limit, len(best)-2) // only a shorter one is better
	}
	if limit < 1 {
		return best
	}
	path := s.walk(a.to, a.from, c.path, k, limit)
	if path == nil {
		return best
	}
	if found := append(cycle{a}, path...); len(best) == 0 || found.is(c.kind) {
		return found
	}
	return best
}

// first returns some cycle of a knot that edges of all kinds form: there is one
// through every arc within.
func (s *search) first(k knot) cycle {
	for a := range s.within(k, ww|wr|rw) {
		return append(cycle{a}, s.walk(a.to, a.from, anyEdge, k, noLimit)...)
	}
	return nil
}

// within yields the arcs of these kinds, not real time, that join two
// transactions of a knot.
func (s *search) within(k knot, kinds edges) iter.Seq[arc] {
	inner := func(a arc) bool { return a.from != a.to && s.home[a.from] == s.home[a.to] }
	return func(yield func(arc) bool) {
		for _, t := range k {
			for _, a := range s.g.out(t) {
				if a.kind&kinds == 0 {
					continue
				}
				if a.to < int32(s.g.txns) {
					if inner(a) && !yield(a) {
						return
					}
					continue
				}
				for _, b := range s.g.out(a.to) { // a key's node
					if b = (arc{a.from, b.to, b.about, a.kind}); inner(b) && !yield(b) {
						return
					}
				}
			}
		}
	}
}
