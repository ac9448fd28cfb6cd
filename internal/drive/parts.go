package drive

import (
	"bytes"
	"slices"
	"sort"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Parts divides what a transaction does, by a map. Each shard is a part, so that none
// waits for a shard that has nothing to do with it. But a range that was read across
// shards of one group is in one part with all of them: there may be more shards than
// a transaction may have parts, and it waits for each of them in any case.
type Parts struct {
	m *partition.Map
	// wide are the spans of ranges across shards, in order; they do not overlap.
	wide  []partition.Span
	parts map[string]*txn.Part // by their starts
}

// NewParts begins with the ranges that were read, each of which has one owner.
func NewParts(m *partition.Map, ranges []command.RangeRead) *Parts {
	d := &Parts{m: m, parts: map[string]*txn.Part{}}
	for _, r := range ranges {
		if s := d.around(partition.Span{Start: r.Start, End: r.End}); !s.Equal(m.Find(r.Start).Span) {
			d.wide = append(d.wide, s)
		}
	}
	d.wide = united(d.wide)
	for _, r := range ranges {
		part := d.Of(r.Start)
		part.Ranges = append(part.Ranges, r)
	}
	return d
}

// around returns the span of all shards that a span meets.
func (d *Parts) around(s partition.Span) partition.Span {
	s.Start = d.m.Find(s.Start).Span.Start
	if len(s.End) == 0 {
		return s
	}
	if last := d.m.Find(s.End).Span; !bytes.Equal(last.Start, s.End) { // else it ends before that one
		s.End = last.End
	}
	return s
}

// united makes one of spans that overlap. In order, those that only touch stay two.
func united(spans []partition.Span) (list []partition.Span) {
	slices.SortFunc(spans, func(a, b partition.Span) int { return bytes.Compare(a.Start, b.Start) })
	for _, s := range spans {
		n := len(list) - 1
		switch {
		case n < 0 || !list[n].Overlaps(s):
			list = append(list, s)
		case len(list[n].End) > 0 && (len(s.End) == 0 || bytes.Compare(s.End, list[n].End) > 0):
			list[n].End = s.End
		}
	}
	return list
}

// Of returns the part that a position is in.
func (d *Parts) Of(p partition.Position) *txn.Part {
	s := d.spanOf(p)
	part := d.parts[string(s.Start)]
	if part == nil {
		part = &txn.Part{Span: s}
		d.parts[string(s.Start)] = part
	}
	return part
}

func (d *Parts) spanOf(p partition.Position) partition.Span {
	behind := sort.Search(len(d.wide), func(i int) bool { return bytes.Compare(d.wide[i].Start, p) > 0 })
	if behind > 0 && d.wide[behind-1].Contains(p) {
		return d.wide[behind-1]
	}
	return d.m.Find(p).Span
}

// Sorted returns the parts in the order of their spans.
func (d *Parts) Sorted() []txn.Part {
	parts := make([]txn.Part, 0, len(d.parts))
	for _, part := range d.parts {
		parts = append(parts, *part)
	}
	slices.SortFunc(parts, func(a, b txn.Part) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	return parts
}

// Piece is as much of a span as one group has of it without a gap.
type Piece struct {
	Group partition.GroupID
	Span  partition.Span
}

// Pieces cuts a span where its owners change, and nowhere else.
func Pieces(m *partition.Map, s partition.Span) (pieces []Piece) {
	for stretch := range m.Stretches(s) {
		pieces = append(pieces, Piece{stretch.Group, stretch.Span.Intersect(s)})
	}
	return pieces
}
