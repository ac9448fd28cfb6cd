package partition

import (
	"bytes"
	"iter"
)

// Shards returns the shards that intersect a span, in order; those of [Whole]
// are all. Their own spans may reach beyond it.
func (m *Map) Shards(span Span) iter.Seq[Shard] {
	// Small enough to be inlined: then a loop over it allocates nothing.
	return func(yield func(Shard) bool) { m.forward(span, yield) }
}

// Backward returns the shards that intersect a span, the last one first.
func (m *Map) Backward(span Span) iter.Seq[Shard] {
	return func(yield func(Shard) bool) { m.backward(span, yield) }
}

func (m *Map) forward(span Span, yield func(Shard) bool) {
	first, end := m.tiling.reach(span)
	for i := first; i < end && yield(m.at(i)); i++ {
	}
}

func (m *Map) backward(span Span, yield func(Shard) bool) {
	first, end := m.tiling.reach(span)
	for i := end - 1; i >= first && yield(m.at(i)); i-- {
	}
}

// reach returns the indices of the shards that intersect a span.
func (t *tiling) reach(span Span) (first, end int) {
	if span.Empty() {
		return 0, 0
	}
	first, end = t.find(span.Start), t.count()
	if len(span.End) > 0 {
		end = t.find(span.End)
		if !bytes.Equal(t.start(end), span.End) {
			end++ // the end is inside of this one
		}
	}
	return first, end
}

// Owned returns the shards of a group, in order.
func (m *Map) Owned(g GroupID) iter.Seq[Shard] {
	return m.where(func(s *shard) bool { return s.Group == g })
}

// Misplaced returns the shards that should move, in order: their group is
// draining, or their pin does not allow it.
func (m *Map) Misplaced() iter.Seq[Shard] {
	return m.where(func(s *shard) bool {
		g, _ := m.Group(s.Group)
		return g.Draining || !m.pins[s.pin].Allows(g.Labels)
	})
}

func (m *Map) where(is func(*shard) bool) iter.Seq[Shard] {
	return func(yield func(Shard) bool) {
		for i := range m.shards {
			if is(&m.shards[i]) && !yield(m.at(i)) {
				return
			}
		}
	}
}
