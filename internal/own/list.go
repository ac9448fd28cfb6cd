package own

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// List is the ranges of a group in order. They do not overlap. It never changes:
// a change makes another one.
type List struct {
	ranges  []Range
	version partition.Version
}

// NewList makes a list of ranges in any order.
func NewList(ranges ...Range) (*List, error) {
	l := &List{ranges: slices.Clone(ranges)}
	slices.SortFunc(l.ranges, func(a, b Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	for i := range l.ranges {
		r := &l.ranges[i]
		if r.Span.Empty() || r.State < Serving || r.State > Foreign {
			return nil, fmt.Errorf("%w: %v is no range", ErrList, r)
		}
		if i > 0 && l.ranges[i-1].Span.Overlaps(r.Span) {
			return nil, fmt.Errorf("%w: %v and %v overlap", ErrList, &l.ranges[i-1], r)
		}
		l.version = max(l.version, r.Version)
	}
	return l, nil
}

// Version is the highest of the ranges': whoever was routed by a map that is at
// least as new was routed by what the list says.
func (l *List) Version() partition.Version { return l.version }

// Len returns how many ranges there are, in any state.
func (l *List) Len() int { return len(l.ranges) }

// All yields the ranges in order.
func (l *List) All() iter.Seq[Range] { return slices.Values(l.ranges) }

// at returns the index of the range that has p, or of the first behind it.
func (l *List) at(p partition.Position) (i int, has bool) {
	i, found := slices.BinarySearchFunc(l.ranges, p, func(r Range, p partition.Position) int {
		return bytes.Compare(r.Span.Start, p)
	})
	if found {
		return i, true
	}
	if i > 0 && l.ranges[i-1].Span.Contains(p) {
		return i - 1, true
	}
	return i, false
}

// Find returns the range that has a position.
func (l *List) Find(p partition.Position) (r Range, ok bool) {
	i, ok := l.at(p)
	if !ok {
		return r, false
	}
	return l.ranges[i], true
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
		i, _ := l.at(s.Start)
		for ; i < len(l.ranges) && l.ranges[i].Span.Overlaps(s); i++ {
			if !yield(l.ranges[i]) {
				return
			}
		}
	}
}

// Covers tells whether all of a span is in ranges that answer reads.
func (l *List) Covers(s partition.Span) bool {
	at := s.Start
	for r := range l.Over(s) {
		if !r.Reads() || bytes.Compare(r.Span.Start, at) > 0 {
			return false
		}
		if at = r.Span.End; len(at) == 0 {
			return true
		}
	}
	return len(s.End) > 0 && bytes.Compare(at, s.End) >= 0
}

// change returns the list in which become has taken the place of expect. Done
// tells that become is there already, as it is when a step is repeated.
func (l *List) change(expect, become []Range) (next *List, done bool, err error) {
	if l.has(become) {
		return l, true, nil
	}
	kept := make([]Range, 0, len(l.ranges)+len(become))
	missing := slices.Clone(expect)
	for i := range l.ranges {
		r := &l.ranges[i]
		if j := slices.IndexFunc(missing, func(x Range) bool { return x.equal(r) }); j >= 0 {
			missing = slices.Delete(missing, j, j+1)
			continue
		}
		kept = append(kept, *r)
	}
	if len(missing) > 0 {
		return nil, false, l.stale(&missing[0])
	}
	for i := range become {
		for _, r := range kept {
			if r.Span.Overlaps(become[i].Span) {
				return nil, false, l.stale(&become[i])
			}
		}
	}
	next, err = NewList(append(kept, become...)...)
	return next, false, err
}

// has tells whether all of become is in the list.
func (l *List) has(become []Range) bool {
	for i := range become {
		at, ok := l.at(become[i].Span.Start)
		if !ok || !l.ranges[at].equal(&become[i]) {
			return false
		}
	}
	return len(become) > 0
}

// stale says what is in the place of what was expected.
func (l *List) stale(want *Range) error {
	for r := range l.Over(want.Span) {
		return fmt.Errorf("%w: %v, not %v", ErrStale, r, *want)
	}
	return fmt.Errorf("%w: nothing, not %v", ErrStale, *want)
}
