package runs

import "math"

// sorted is what was put in order: runs from the oldest to the newest, each at
// least twice as long as the next. It is never changed.
type sorted struct {
	count uint32 // operations in the runs, those that newer ones replaced included
	depth int    // at which all words were taken; all keys begin alike up to it
	runs  []run
}

// Cut is a moment in a Set. It takes a constant time to make, and its View
// shows exactly what was visible then.
type Cut struct {
	set   *Set
	count uint32
	base  *sorted // what was in order at that moment
	log   opLog
}

// View is a Set's content at one moment, in order. It never changes.
type View struct {
	log opLog
	*sorted
}

// Cut returns this moment. It waits for nobody.
func (s *Set) Cut() Cut {
	// In this order: what is sorted may lag behind what is visible, but is
	// never ahead of it, and the blocks hold at least what is visible.
	c := Cut{set: s, base: s.base()}
	c.count = s.revealed.Load()
	c.log = s.log()
	return c
}

// View returns everything that is visible now.
func (s *Set) View() View { return s.Cut().View() }

// nothing is in order before the first View.
var nothing = &sorted{depth: math.MaxInt}

func (s *Set) base() *sorted {
	if b := s.sorted.Load(); b != nil {
		return b
	}
	return nothing
}

// View puts the cut's operations in order, as far as nobody has done so.
func (c Cut) View() View {
	if c.base.count == c.count {
		return View{c.log, c.base}
	}
	now := c.set.extendTo(c)
	if now.count > c.count {
		// Somebody sorted past this moment, and newer operations may have
		// replaced ours in the runs: go on from what there was.
		now = c.base.extend(c.log, c.count)
	}
	return View{c.log, now}
}

// extendTo returns what is in order, up to the cut at least.
func (s *Set) extendTo(c Cut) *sorted {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.base()
	if now.count < c.count {
		now = now.extend(c.log, c.count)
		s.sorted.Store(now)
	}
	return now
}

// extend sorts the operations that are missing up to count. As in a binary
// counter, runs are joined with the one before unless that is twice as long as
// they: so there are O(log n) runs, and a run grows by half when it is joined.
func (s *sorted) extend(log opLog, count uint32) *sorted {
	next := &sorted{count: count, depth: s.sharedWith(log, count)}
	// New slices: Views hold the old ones.
	next.runs = append(make([]run, 0, len(s.runs)+1), s.runs...)
	if next.depth < s.depth {
		// Seldom: keys come that begin unlike all before.
		for i, r := range next.runs {
			next.runs[i] = r.at(log, next.depth)
		}
	}
	last := sortRun(log, s.count, count, next.depth)
	n, newer := len(next.runs), len(last)
	for n > 0 && len(next.runs[n-1]) < 2*newer {
		n--
		newer += len(next.runs[n])
	}
	next.runs = append(next.runs, last)
	next.runs = append(next.runs[:n], joinAll(log, next.runs[n:], next.depth))
	return next
}

// sharedWith returns how many bytes the keys in order and those of the
// operations up to count begin with in common.
func (s *sorted) sharedWith(log opLog, count uint32) int {
	first := log.at(0).keyBytes()
	depth := min(s.depth, len(first))
	for i := s.count; i < count; i++ {
		depth = sharedPrefix(first, log.at(i).keyBytes(), depth)
	}
	return depth
}

// Get returns the newest operation on key.
func (v View) Get(key []byte) (op Op, ok bool) {
	if len(v.runs) == 0 {
		return Op{}, false
	}
	to := v.target(key)
	for i := len(v.runs) - 1; i >= 0; i-- {
		r := v.runs[i]
		if at, found := r.search(v.log, &to); found {
			return v.log.at(r[at].op).public(), true
		}
	}
	return Op{}, false
}

// target prepares to look for key in a View that is not empty.
func (v View) target(key []byte) target { return targetOf(key, v.log.at(0).keyBytes()[:v.depth]) }
