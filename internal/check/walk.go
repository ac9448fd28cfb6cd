package check

import "slices"

// walk returns a shortest path of at most limit arcs, at least 1, of these kinds
// within the knot, or nil.
//
// Real time needs no arcs here: from a transaction, all that were invoked after
// its return are one step away. The knot is in order of invocation, so those
// that were not reached yet are always its front part.
func (s *search) walk(from, to int32, kinds edges, k knot, limit int) cycle {
	s.path++
	s.mark[from] = s.path
	s.todo = append(s.todo[:0], from)
	early := len(k) // all from here on are reached
	depth, level := 1, 1
	for i := 0; i < len(s.todo); i++ {
		if i == level { // all of the last depth are done
			depth++
			level = len(s.todo)
		}
		at := s.todo[i]
		if s.follow(at, to, kinds, depth < limit) {
			return s.trace(from, to)
		}
		if kinds&rt == 0 || s.l.history[at].Status != OK {
			continue
		}
		until := s.l.history[at].Return
		if until < s.l.history[to].Invoke {
			s.came[to] = arc{at, to, none, rt}
			return s.trace(from, to)
		}
		for depth < limit && early > 0 && until < s.l.history[k[early-1]].Invoke {
			early--
			s.reach(arc{at, k[early], none, rt})
		}
	}
	return nil
}

// follow looks at the arcs out of a transaction. It tells whether one of them
// leads to the goal, and otherwise notes those that may lead on, if asked to.
func (s *search) follow(at, goal int32, kinds edges, on bool) bool {
	for _, a := range s.g.out(at) {
		s.steps--
		if a.kind&kinds == 0 || a.to >= int32(s.g.inner) {
			continue
		}
		if a.to < int32(s.g.txns) {
			if a.to == goal {
				s.came[goal] = a
				return true
			}
			if on {
				s.reach(a)
			}
			continue
		}
		if on { // beyond a key's node nobody need look twice
			if s.mark[a.to] == s.path {
				continue
			}
			s.mark[a.to] = s.path
		}
		for _, b := range s.g.out(a.to) {
			s.steps--
			b = arc{at, b.to, b.about, a.kind}
			if b.to == goal {
				s.came[goal] = b
				return true
			}
			if on {
				s.reach(b)
			}
		}
	}
	return false
}

// reach notes the first arc that leads to a transaction of the same knot.
func (s *search) reach(a arc) {
	s.steps--
	if s.mark[a.to] != s.path && s.home[a.to] == s.home[a.from] {
		s.mark[a.to] = s.path
		s.came[a.to] = a
		s.todo = append(s.todo, a.to)
	}
}

// trace returns the path that was found.
func (s *search) trace(from, to int32) (path cycle) {
	for at := to; at != from; at = path[len(path)-1].from {
		path = append(path, s.came[at])
	}
	slices.Reverse(path)
	return path
}
