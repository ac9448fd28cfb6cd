package check

import (
	"fmt"
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
	// told are the members of the cycles that are reported.
	told map[string]bool
	// settled are the transactions of those cycles.
	settled map[int32]bool
}

func newSearch(l *lists, g *graph, steps int) *search {
	return &search{
		l: l, g: g, steps: steps,
		home:    make([]int32, g.txns),
		came:    make([]arc, g.inner),
		mark:    make([]int32, g.inner),
		told:    map[string]bool{},
		settled: map[int32]bool{},
	}
}

// run reports, for each kind of cycle, the shortest in each knot.
func (s *search) run() {
	for _, c := range classes {
		s.each(c, func(c class, k knot) {
			if best := s.shortest(c, k); best.is(c.kind) {
				s.tell(best)
			}
		})
	}
	// A search that was cut short may have found only cycles of another kind.
	s.each(classes[len(classes)-1], func(c class, k knot) {
		if !slices.ContainsFunc(k, func(t int32) bool { return s.settled[t] }) {
			s.tell(s.shortest(c, k))
		}
	})
}

// each calls f for the knots that the edges of a class form.
func (s *search) each(c class, f func(class, knot)) {
	knots := s.g.knots(c.close | c.path)
	for i := range s.home {
		s.home[i] = none
	}
	for i, k := range knots {
		for _, t := range k {
			s.home[t] = int32(i)
		}
	}
	for _, k := range knots {
		f(c, k)
	}
}

// tell reports a cycle, unless another of the same transactions was.
func (s *search) tell(c cycle) {
	anomaly := s.l.explain(c)
	if id := fmt.Sprint(anomaly.Calls); !s.told[id] {
		s.told[id] = true
		for _, t := range c.members() {
			s.settled[t] = true
		}
		s.l.report.Add(anomaly)
	}
}

// shortest returns the shortest cycle of the class within the knot, one of its
// kind if there is any. It tries all short ones first, since the cost of a path
// grows with its length.
func (s *search) shortest(c class, k knot) (best cycle) {
	for _, limit := range []int{1, 2, 3, noLimit} {
		for _, t := range k {
			for _, a := range s.g.out(t) {
				if a.kind != c.close {
					continue
				}
				best = s.closeAll(c, k, a, limit, best)
				if len(best) > 0 && (s.steps <= 0 || best.is(c.kind) && limit < noLimit) {
					return best
				}
			}
		}
	}
	return best
}

// closeAll tries to close a cycle that begins with an arc, or with one of those
// that it stands for if it leads to the node of a key. It returns the better one
// of what it finds and what there is.
func (s *search) closeAll(c class, k knot, a arc, limit int, best cycle) cycle {
	if a.to < int32(s.g.txns) {
		return s.close(c, k, a, limit, best)
	}
	for _, b := range s.g.out(a.to) {
		best = s.close(c, k, arc{a.from, b.to, b.about, a.kind}, limit, best)
		if s.steps <= 0 && len(best) > 0 {
			break
		}
	}
	return best
}

func (s *search) close(c class, k knot, a arc, limit int, best cycle) cycle {
	if a.from == a.to || s.home[a.from] != s.home[a.to] {
		return best
	}
	if best.is(c.kind) {
		limit = min(limit, len(best)-2) // only a shorter one is better
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
