package check

import (
	"iter"
	"math"
	"slices"
)

// cycle is a list of arcs, each of which begins where the one before ends, and
// the first where the last ends. Its arcs join transactions: what leads through a
// node of another sort is one arc here.
type cycle []arc

// cycleClass is a kind of cycle and how to find it: one arc of the kind close, the
// rest from path.
type cycleClass struct {
	kind          Kind
	closing, rest edgeKinds
}

// cycleClasses has those of few ingredients first: what a cycle can do without, it
// does without.
var cycleClasses = []cycleClass{
	{G0, ww, ww},
	{G1c, wr, ww | wr},
	{GSingle, rw, ww | wr},
	{G2, rw, ww | wr | rw},
	{G0RealTime, ww, ww | rt},
	{G1cRealTime, wr, ww | wr | rt},
	{GSingleRealTime, rw, ww | wr | rt},
	{G2RealTime, rw, anyEdge},
}

// classify returns what a cycle is by what it has.
func (c cycle) classify() Kind {
	var has edgeKinds
	reads := 0
	for _, a := range c {
		has |= a.kind
		if a.kind == rw {
			reads++
		}
	}
	i := 0
	switch {
	case reads > 1:
		i = 3
	case reads == 1:
		i = 2
	case has&wr != 0:
		i = 1
	}
	if has&rt != 0 {
		i += len(cycleClasses) / 2
	}
	return cycleClasses[i].kind
}

// isKind reports whether there is a cycle and it is of the kind.
func (c cycle) isKind(k Kind) bool { return len(c) > 0 && c.classify() == k }

// shapeName is what the shape is widely called, or empty.
func (c cycle) shapeName(l *listChecker) string {
	shape := make([]edgeKinds, len(c))
	for i, a := range c {
		shape[i] = a.kind
	}
	is := func(want ...edgeKinds) bool {
		return len(shape) == len(want) && (slices.Equal(shape, want) ||
			slices.Equal(append(slices.Clone(shape[1:]), shape[0]), want))
	}
	oneKey := func() bool { return l.elements[c[0].element].key == l.elements[c[1].element].key }
	switch {
	case is(ww, rw) && oneKey(), is(rw, rw) && oneKey(): // in the latter, it is unknown whose update
		return "lost update"
	case is(wr, rw):
		return "fractured read"
	case is(rw, rw):
		return "write skew"
	case is(wr, rw, wr, rw):
		return "long fork"
	case c.classify() == GSingleRealTime:
		return "stale read"
	}
	return ""
}

// listTxns returns the transactions of the cycle.
func (c cycle) listTxns() []int32 {
	m := make([]int32, len(c))
	for i, a := range c {
		m[i] = a.from
	}
	return m
}

// maxSearchSteps is how many arcs the search for short cycles may look at before it
// takes what it has. So a knot of 100,000 transactions costs a second, not hours.
const maxSearchSteps = 50_000_000

// noLimit is a length that no path has.
const noLimit = math.MaxInt32

// search looks for cycles in the graph of a history.
type search struct {
	checker   *listChecker
	graph     *graph
	stepsLeft int // that are left
	// componentOf is the knot of each transaction, by its place in the list at hand,
	// or none.
	componentOf []int32
	// arcTo is the arc by which the path at hand reached a node; mark tells in
	// which path that was.
	arcTo      []arc
	visitedBy  []int32
	pathNumber int32
	frontier   []int32
	// reportedIn has, for each transaction, the cycles with it that are reported, by
	// their numbers; sizes has their lengths.
	reportedIn    map[int32][]int
	reportedSizes []int
}

func newSearch(l *listChecker, g *graph, steps int) *search {
	return &search{
		checker: l, graph: g, stepsLeft: steps,
		componentOf: make([]int32, g.txnCount),
		arcTo:       make([]arc, g.firstBarrier),
		visitedBy:   make([]int32, g.firstBarrier),
		reportedIn:  map[int32][]int{},
	}
}

// run reports, for each kind of cycle, the shortest in each knot.
func (s *search) run() {
	for _, c := range cycleClasses {
		for _, k := range s.enterComponents(c.closing | c.rest) {
			if best := s.findShortest(c, k); best.isKind(c.kind) {
				s.reportCycle(best)
			}
		}
	}
	// A search that was cut short has left knots out.
	for _, k := range s.enterComponents(anyEdge) {
		if !slices.ContainsFunc(k, func(t int32) bool { return s.reportedIn[t] != nil }) {
			s.reportCycle(s.findAny(k))
		}
	}
}

// enterComponents returns the knots that edges of these kinds form, and makes them the home
// of their transactions.
func (s *search) enterComponents(kinds edgeKinds) []txnComponent {
	knots := s.graph.stronglyConnected(kinds)
	for i := range s.componentOf {
		s.componentOf[i] = none
	}
	for i, k := range knots {
		for _, t := range k {
			s.componentOf[t] = int32(i)
		}
	}
	return knots
}

// reportCycle reports a cycle, unless it is a detour: one that has all transactions of a
// cycle that is reported.
func (s *search) reportCycle(c cycle) {
	shared := map[int]int{}
	for _, t := range c.listTxns() {
		for _, n := range s.reportedIn[t] {
			if shared[n]++; shared[n] == s.reportedSizes[n] {
				return
			}
		}
	}
	for _, t := range c.listTxns() {
		s.reportedIn[t] = append(s.reportedIn[t], len(s.reportedSizes))
	}
	s.reportedSizes = append(s.reportedSizes, len(c))
	s.checker.report.Add(s.checker.explainCycle(c))
}

// findShortest returns the shortest cycle of the class within the knot, one of its
// kind if there is any. It tries all short ones first, since the cost of a path
// grows with its length.
func (s *search) findShortest(c cycleClass, k txnComponent) (best cycle) {
	for _, limit := range []int{1, 2, 3, noLimit} {
		for a := range s.arcsWithin(k, c.closing) {
			best = s.closeCycle(c, k, a, limit, best)
			if s.stepsLeft <= 0 || best.isKind(c.kind) && limit < noLimit {
				return best
			}
		}
	}
	return best
}

// closeCycle returns the better one of the cycle that there is and a shortest one
// that begins with the arc.
func (s *search) closeCycle(c cycleClass, k txnComponent, a arc, limit int, best cycle) cycle {
	if best.isKind(c.kind) {
		limit = min(limit, len(best)-2) // only a shorter one is better
	}
	if limit < 1 {
		return best
	}
	path := s.findPath(a.to, a.from, c.rest, k, limit)
	if path == nil {
		return best
	}
	if found := append(cycle{a}, path...); len(best) == 0 || found.isKind(c.kind) {
		return found
	}
	return best
}

// findAny returns some cycle of a knot that edges of all kinds form: there is one
// through every arc within.
func (s *search) findAny(k txnComponent) cycle {
	for a := range s.arcsWithin(k, ww|wr|rw) {
		return append(cycle{a}, s.findPath(a.to, a.from, anyEdge, k, noLimit)...)
	}
	return nil
}

// arcsWithin yields the arcs of these kinds, not real time, that join two
// transactions of a knot.
func (s *search) arcsWithin(k txnComponent, kinds edgeKinds) iter.Seq[arc] {
	inner := func(a arc) bool { return a.from != a.to && s.componentOf[a.from] == s.componentOf[a.to] }
	return func(yield func(arc) bool) {
		for _, t := range k {
			for _, a := range s.graph.arcsFrom(t) {
				if a.kind&kinds == 0 {
					continue
				}
				if a.to < int32(s.graph.txnCount) {
					if inner(a) && !yield(a) {
						return
					}
					continue
				}
				for _, b := range s.graph.arcsFrom(a.to) { // a key's node
					if b = (arc{a.from, b.to, b.element, a.kind}); inner(b) && !yield(b) {
						return
					}
				}
			}
		}
	}
}

// findPath returns a shortest path of at most limit arcs, at least 1, of these kinds
// within the knot, or nil.
//
// Real time needs no arcs here: from a transaction, all that were invoked after
// its return are one step away. The knot is in order of invocation, so those
// that were not reached yet are always its front part.
func (s *search) findPath(from, to int32, kinds edgeKinds, k txnComponent, limit int) cycle {
	s.pathNumber++
	s.visitedBy[from] = s.pathNumber
	s.frontier = append(s.frontier[:0], from)
	early := len(k) // all from here on are reached
	depth, level := 1, 1
	for i := 0; i < len(s.frontier); i++ {
		if i == level { // all of the last depth are done
			depth++
			level = len(s.frontier)
		}
		at := s.frontier[i]
		if s.followArcs(at, to, kinds, depth < limit) {
			return s.tracePath(from, to)
		}
		if kinds&rt == 0 || s.checker.history[at].Status != OK {
			continue
		}
		until := s.checker.history[at].Return
		if until < s.checker.history[to].Invoke {
			s.arcTo[to] = arc{at, to, none, rt}
			return s.tracePath(from, to)
		}
		for depth < limit && early > 0 && until < s.checker.history[k[early-1]].Invoke {
			early--
			s.visitNode(arc{at, k[early], none, rt})
		}
	}
	return nil
}

// followArcs looks at the arcs out of a transaction. It reports whether one of them
// leads to the goal, and otherwise notes those that may lead on, if asked to.
func (s *search) followArcs(at, goal int32, kinds edgeKinds, on bool) bool {
	for _, a := range s.graph.arcsFrom(at) {
		s.stepsLeft--
		if a.kind&kinds == 0 || a.to >= int32(s.graph.firstBarrier) {
			continue
		}
		if a.to < int32(s.graph.txnCount) {
			if a.to == goal {
				s.arcTo[goal] = a
				return true
			}
			if on {
				s.visitNode(a)
			}
			continue
		}
		if on { // beyond a key's node a second look is not needed
			if s.visitedBy[a.to] == s.pathNumber {
				continue
			}
			s.visitedBy[a.to] = s.pathNumber
		}
		for _, b := range s.graph.arcsFrom(a.to) {
			s.stepsLeft--
			b = arc{at, b.to, b.element, a.kind}
			if b.to == goal {
				s.arcTo[goal] = b
				return true
			}
			if on {
				s.visitNode(b)
			}
		}
	}
	return false
}

// visitNode notes the first arc that leads to a transaction of the same knot.
func (s *search) visitNode(a arc) {
	s.stepsLeft--
	if s.visitedBy[a.to] != s.pathNumber && s.componentOf[a.to] == s.componentOf[a.from] {
		s.visitedBy[a.to] = s.pathNumber
		s.arcTo[a.to] = a
		s.frontier = append(s.frontier, a.to)
	}
}

// tracePath returns the path that was found.
func (s *search) tracePath(from, to int32) (path cycle) {
	for at := to; at != from; at = path[len(path)-1].from {
		path = append(path, s.arcTo[at])
	}
	slices.Reverse(path)
	return path
}
