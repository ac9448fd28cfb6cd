package partition

import "iter"

// Stretch is positions that follow one another and have one owner, whatever shards
// they are in.
type Stretch struct {
	Span  Span // shares its bytes with the map: only read them
	Group GroupID
}

// stretches are a map without the borders inside of groups. Who only looks for a
// group finds it among them: mostly they are far fewer than shards, since what is cut
// stays where it is until it moves, and so they stay in a core's own memory.
type stretches struct {
	tiling *tiling
	groups []GroupID
}

// newStretches joins the shards of a tiling.
func newStretches(t *tiling, shards []shard) *stretches {
	s := new(stretches)
	for i := range shards {
		if i == 0 || shards[i].Group != shards[i-1].Group {
			s.groups = append(s.groups, shards[i].Group)
		}
	}
	if len(s.groups) == len(shards) {
		s.tiling = t // nothing is joined
		return s
	}
	s.tiling = &tiling{ends: make([]uint32, 1, len(s.groups)+1)}
	for i := range shards {
		if i == 0 || shards[i].Group != shards[i-1].Group {
			s.tiling.add(t.start(i))
		}
	}
	s.tiling.makeIndex()
	return s
}

// GroupOf returns the group that owns a position. It is what a request asks that
// wants to know where to go.
func (m *Map) GroupOf(p Position) GroupID { return m.stretches.groups[m.stretches.tiling.find(p)] }

// Stretches returns what groups own of a span, in order: two that follow one another
// are of two groups. The first and the last may reach out of the span.
func (m *Map) Stretches(span Span) iter.Seq[Stretch] {
	return func(yield func(Stretch) bool) {
		s := m.stretches
		first, end := s.tiling.reach(span)
		for i := first; i < end && yield(Stretch{s.tiling.span(i), s.groups[i]}); i++ {
		}
	}
}
