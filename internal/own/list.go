package own

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// List is the ranges of a group in order. They do not overlap. It never changes:
// a change makes another one, which shares with it what is the same.
type List struct {
	chunks []*chunk
	// firsts are the starts of the chunks.
	firsts index
	// solid tells of each chunk whether all from its start up to the next one's, or
	// the end of the space, is readable: then a read need not look into it.
	solid []bool
	// frozen is how many ranges are.
	frozen  int
	len     int
	version partition.Version
}

// NewList makes a list of ranges in any order.
func NewList(ranges ...Range) (*List, error) {
	ranges, err := ordered(ranges)
	if err != nil {
		return nil, err
	}
	l := &List{}
	return l.replace(place{}, place{}, ranges), nil
}

// ordered returns a copy of ranges in order, if they could be a list.
func ordered(ranges []Range) ([]Range, error) {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, compareStarts)
	for i := range ranges {
		r := &ranges[i]
		if r.Span.Empty() || r.State < Serving || r.State > Foreign {
			return nil, fmt.Errorf("%w: %v is no range", ErrList, r)
		}
		if i > 0 && ranges[i-1].Span.Overlaps(r.Span) {
			return nil, fmt.Errorf("%w: %v and %v overlap", ErrList, &ranges[i-1], r)
		}
	}
	return ranges, nil
}

func compareStarts(a, b Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) }

// Version is the highest that a range of the list has, or had in a list that this one
// was made from: whoever was routed by a map that is at least as new was routed by
// what the list says.
func (l *List) Version() partition.Version { return l.version }

// Len returns how many ranges there are, in any state.
func (l *List) Len() int { return l.len }

// All yields the ranges in order.
func (l *List) All() iter.Seq[Range] { return l.Over(partition.Whole) }

// place is where a range is: in a chunk, or behind the last one.
type place struct{ chunk, i int }

// at returns the place of the range that has p, or of the first behind it.
func (l *List) at(p partition.Position) (where place, has bool) {
	n := l.chunkOf(p)
	if n < 0 {
		return place{}, false
	}
	c := l.chunks[n]
	i := c.starts.upto(p, c.start) - 1
	if end := c.ranges[i].Span.End; len(end) == 0 || bytes.Compare(p, end) < 0 {
		return place{n, i}, true
	}
	if i++; i < len(c.ranges) {
		return place{n, i}, false
	}
	return place{n + 1, 0}, false
}

// chunkOf returns the last chunk that starts at or before p, below 0 if there is none.
func (l *List) chunkOf(p partition.Position) int {
	return l.firsts.upto(p, func(i int) partition.Position { return l.chunks[i].start(0) }) - 1
}

// find returns the range that has a position, or nil.
func (l *List) find(p partition.Position) *Range {
	where, ok := l.at(p)
	if !ok {
		return nil
	}
	return l.chunks[where.chunk].ranges[where.i]
}

// Find returns the range that has a position.
func (l *List) Find(p partition.Position) (r Range, ok bool) {
	if found := l.find(p); found != nil {
		return *found, true
	}
	return r, false
}

// One returns the range that has all of a span.
func (l *List) One(s partition.Span) (r Range, ok bool) {
	r, ok = l.Find(s.Start)
	if !ok || len(r.Span.End) > 0 && (len(s.End) == 0 || bytes.Compare(s.End, r.Span.End) > 0) {
		return Range{}, false
	}
	return r, true
}

// Over yields the ranges that overlap with a span, in order.
func (l *List) Over(s partition.Span) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		where, _ := l.at(s.Start)
		for n := where.chunk; n < len(l.chunks); n++ {
			for i := where.i; i < len(l.chunks[n].ranges); i++ {
				r := l.chunks[n].ranges[i]
				if !r.Span.Overlaps(s) || !yield(*r) {
					return
				}
			}
			where.i = 0
		}
	}
}

// Except yields the ranges that another list has not, or not in the same state. It
// passes over what the two share, so it is fast if one was made from the other.
func (l *List) Except(o *List) iter.Seq[Range] {
	chunks, without := apart(l.chunks, o.chunks)
	mine, others := apart(flat(chunks), flat(without))
	return func(yield func(Range) bool) {
		at := 0
		for _, r := range mine {
			for at < len(others) && bytes.Compare(others[at].Span.Start, r.Span.Start) < 0 {
				at++
			}
			if (at == len(others) || !others[at].equal(r)) && !yield(*r) {
				return
			}
		}
	}
}

// apart returns what is left of two slices without what they begin and end with alike.
func apart[T comparable](a, b []T) ([]T, []T) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// flat returns the ranges of chunks.
func flat(chunks []*chunk) (ranges []*Range) {
	if len(chunks) == 1 {
		return chunks[0].ranges // as it mostly is
	}
	for _, c := range chunks {
		ranges = append(ranges, c.ranges...)
	}
	return ranges
}

// hasRange tells whether a range is in the list.
func (l *List) hasRange(r *Range) bool {
	found := l.find(r.Span.Start)
	return found != nil && found.equal(r)
}
