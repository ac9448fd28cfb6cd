// Package ownership determines which positions a group may serve now.
//
// A [Table] is the durable list of ranges of one group. It alone decides what the group serves;
// the map that routers hold is a hint. It changes by one command, [ChangeOwnership], and only if
// exactly what the command expects is there: so a message that comes late, or twice, or from a
// sender that was overtaken, changes nothing. Splits, merges, freezes, releases and activations
// are all ChangeOwnership commands.
//
// A range that was given away stays in the table as Foreign, so that a late message is known to
// be late. Adjacent Foreign ranges become one when the jobs that made them have ended: see
// ChangeOwnership.JobFloor.
//
// A table may have ten thousand ranges: a lookup of one reads a few cache lines, and a change
// copies a few hundred pointers. Reads and writes do neither: they check the bounds of what is
// served, which do not change when a range is split.
//
// The package is pure: the group that evaluates a ChangeOwnership keeps the table, and takes it
// back if the batch does not become durable.
package ownership

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// Table is the ranges of a group in order. They do not overlap. It never changes:
// a change makes another one, which shares with it what is the same.
type Table struct {
	chunks []*chunk
	// chunkStarts are the starts of the chunks.
	chunkStarts startIndex
	// readableChunks has for each chunk whether all from its start up to the next one's, or
	// the end of the space, is readable: then a read need not look into it.
	readableChunks []bool
	// readBounds are those of all chunks together, if they are few: most groups serve one span, or
	// one of each keyspace. Nil if they are not.
	readBounds *readBounds
	// frozenCount is how many ranges are.
	frozenCount int
	rangeCount  int
	version     partition.Version
}

// NewTable makes a list of ranges in any order.
func NewTable(ranges ...Range) (*Table, error) {
	ranges, err := sortAndCheck(ranges)
	if err != nil {
		return nil, err
	}
	l := &Table{}
	return l.replaceRanges(rangeIndex{}, rangeIndex{}, ranges), nil
}

// sortAndCheck returns a copy of ranges in order, if they could be a table.
func sortAndCheck(ranges []Range) ([]Range, error) {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, compareStarts)
	for i := range ranges {
		r := &ranges[i]
		if r.Span.Empty() || r.State < Serving || r.State > Foreign {
			return nil, fmt.Errorf("%w: %v is no range", ErrBadTable, r)
		}
		if i > 0 && ranges[i-1].Span.Overlaps(r.Span) {
			return nil, fmt.Errorf("%w: %v and %v overlap", ErrBadTable, &ranges[i-1], r)
		}
	}
	return ranges, nil
}

func compareStarts(a, b Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) }

// Version is the highest version that a range of the table has, or had in a table that this one
// was made from: a request routed by a map at least as new was routed by what this table has.
func (l *Table) Version() partition.Version { return l.version }

// Len returns how many ranges there are, in any state.
func (l *Table) Len() int { return l.rangeCount }

// All yields the ranges in order.
func (l *Table) All() iter.Seq[Range] { return l.ScanOverlapping(partition.Whole) }

// rangeIndex is where a range is: in a chunk, or behind the last one.
type rangeIndex struct{ chunk, i int }

// locateRange returns the place of the range that has p, or of the first behind it.
func (l *Table) locateRange(p partition.Position) (where rangeIndex, has bool) {
	n := l.findChunk(p)
	if n < 0 {
		return rangeIndex{}, false
	}
	c := l.chunks[n]
	i := c.starts.countUpTo(p, c.startAt) - 1
	if end := c.ranges[i].Span.End; len(end) == 0 || bytes.Compare(p, end) < 0 {
		return rangeIndex{n, i}, true
	}
	if i++; i < len(c.ranges) {
		return rangeIndex{n, i}, false
	}
	return rangeIndex{n + 1, 0}, false
}

// findChunk returns the last chunk that starts at or before p, below 0 if there is none.
func (l *Table) findChunk(p partition.Position) int {
	return l.chunkStarts.countUpTo(p, func(i int) partition.Position { return l.chunks[i].startAt(0) }) - 1
}

// findRange returns the range that has a position, or nil.
func (l *Table) findRange(p partition.Position) *Range {
	where, ok := l.locateRange(p)
	if !ok {
		return nil
	}
	return l.chunks[where.chunk].ranges[where.i]
}

// Find returns the range that has a position.
func (l *Table) Find(p partition.Position) (r Range, ok bool) {
	if found := l.findRange(p); found != nil {
		return *found, true
	}
	return r, false
}

// FindContaining returns the range that has all of a span.
func (l *Table) FindContaining(s partition.Span) (r Range, ok bool) {
	r, ok = l.Find(s.Start)
	if !ok || len(r.Span.End) > 0 && (len(s.End) == 0 || bytes.Compare(s.End, r.Span.End) > 0) {
		return Range{}, false
	}
	return r, true
}

// ScanOverlapping yields the ranges that overlap with a span, in order.
func (l *Table) ScanOverlapping(s partition.Span) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		where, _ := l.locateRange(s.Start)
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

// ScanMissingFrom yields the ranges that another list has not, or not in the same state. It
// passes over what the two share, so it is fast if one was made from the other.
func (l *Table) ScanMissingFrom(o *Table) iter.Seq[Range] {
	chunks, without := trimCommon(l.chunks, o.chunks)
	mine, others := trimCommon(flattenChunks(chunks), flattenChunks(without))
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

// trimCommon returns what is left of two slices without what they begin and end with alike.
func trimCommon[T comparable](a, b []T) ([]T, []T) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// flattenChunks returns the ranges of chunks.
func flattenChunks(chunks []*chunk) (ranges []*Range) {
	if len(chunks) == 1 {
		return chunks[0].ranges // as it mostly is
	}
	for _, c := range chunks {
		ranges = append(ranges, c.ranges...)
	}
	return ranges
}

// hasRange reports whether a range is in the table.
func (l *Table) hasRange(r *Range) bool {
	found := l.findRange(r.Span.Start)
	return found != nil && found.equal(r)
}

// changeRanges returns the table in which become has taken the place of expect. done reports
// whether become is there already, as it is when a step is repeated. It copies what lies between
// the first and the last of them.
func (l *Table) changeRanges(expect, become []Range) (next *Table, done bool, err error) {
	if l.hasAll(become) || len(expect)+len(become) == 0 {
		return l, true, nil
	}
	if become, err = sortAndCheck(become); err != nil {
		return nil, false, err
	}
	expect = slices.Clone(expect)
	slices.SortFunc(expect, compareStarts)
	hull := boundingSpan(expect, become)
	missing, merged := expect, become
	for r := range l.ScanOverlapping(hull) {
		if len(missing) > 0 && r.equal(&missing[0]) {
			missing = missing[1:]
		} else {
			merged = append(merged, r)
		}
	}
	if len(missing) > 0 {
		return nil, false, l.newStaleError(&missing[0])
	}
	slices.SortFunc(merged, compareStarts)
	for i := 1; i < len(merged); i++ {
		if merged[i-1].Span.Overlaps(merged[i].Span) {
			return nil, false, fmt.Errorf("%w: %v and %v overlap", ErrStale, merged[i-1], merged[i])
		}
	}
	from, _ := l.locateRange(hull.Start)
	to := rangeIndex{len(l.chunks), 0}
	if len(hull.End) > 0 {
		var inside bool
		if to, inside = l.locateRange(hull.End); inside && bytes.Compare(l.chunks[to.chunk].startAt(to.i), hull.End) < 0 {
			to.i++ // it ends behind the hull, and overlaps with it
		}
	}
	return l.replaceRanges(from, to, merged), false, nil
}

// boundingSpan returns the smallest span that has all of some ranges.
func boundingSpan(expect, become []Range) (hull partition.Span) {
	first := true
	for _, of := range [2][]Range{expect, become} {
		for i := range of {
			s := of[i].Span
			if first || bytes.Compare(s.Start, hull.Start) < 0 {
				hull.Start = s.Start
			}
			if first || len(hull.End) > 0 && (len(s.End) == 0 || bytes.Compare(s.End, hull.End) > 0) {
				hull.End = s.End
			}
			first = false
		}
	}
	return hull
}

// replaceRanges returns the table in which ranges have taken the place of those from one index
// up to another.
func (l *Table) replaceRanges(from, to rangeIndex, ranges []Range) *Table {
	first, last := from.chunk, min(to.chunk+1, len(l.chunks)) // chunks that are made anew
	var head, tail []*Range
	if first < len(l.chunks) {
		head = l.chunks[first].ranges[:from.i]
	}
	if to.chunk < len(l.chunks) {
		tail = l.chunks[to.chunk].ranges[to.i:]
	}
	made := make([]*Range, len(ranges))
	for i := range ranges {
		r := ranges[i] // each by itself: one must not keep all of them in memory
		made[i] = &r
	}
	all := slices.Concat(head, made, tail)
	switch {
	case len(all) >= minChunkRanges:
	case last < len(l.chunks):
		all = append(all, l.chunks[last].ranges...)
		last++
	case first > 0:
		first--
		all = append(slices.Clip(l.chunks[first].ranges), all...)
	}
	chunks := splitIntoChunks(all)
	next := &Table{chunks: slices.Concat(l.chunks[:first], chunks, l.chunks[last:]), rangeCount: l.rangeCount + len(all), frozenCount: l.frozenCount, version: l.version}
	for _, c := range l.chunks[first:last] {
		next.rangeCount, next.frozenCount = next.rangeCount-len(c.ranges), next.frozenCount-c.frozenCount
	}
	for _, c := range chunks {
		next.frozenCount += c.frozenCount
	}
	for i := range ranges {
		next.version = max(next.version, ranges[i].Version)
	}
	next.indexChunks(l, first, last, len(chunks))
	next.markReadableChunks(l, first, last, len(chunks))
	next.readBounds = mergeReadBounds(next.chunks)
	return next
}

// markReadableChunks determines which chunks are readable, like indexChunks. It matters to a
// chunk where the next one starts.
func (l *Table) markReadableChunks(before *Table, first, last, n int) {
	l.readableChunks = make([]bool, len(l.chunks))
	for i, c := range l.chunks {
		switch {
		case i < first-1:
			l.readableChunks[i] = before.readableChunks[i]
		case i >= first+n:
			l.readableChunks[i] = before.readableChunks[i-first-n+last]
		case i+1 < len(l.chunks):
			l.readableChunks[i] = c.isReadableUpTo(l.chunks[i+1])
		default:
			l.readableChunks[i] = c.isReadableUpTo(nil)
		}
	}
}

// indexChunks makes the index of chunks, of which n have taken the place of those from first to
// last of a table before.
func (l *Table) indexChunks(before *Table, first, last, n int) {
	if len(l.chunks) == 0 {
		return
	}
	l.chunkStarts.prefix = commonPrefix(l.chunks[0].startAt(0), l.chunks[len(l.chunks)-1].startAt(0))
	l.chunkStarts.words = make([]uint64, len(l.chunks))
	skip := len(l.chunkStarts.prefix)
	same := before.rangeCount > 0 && len(before.chunkStarts.prefix) == skip
	for i := range l.chunks {
		switch {
		case same && i < first:
			l.chunkStarts.words[i] = before.chunkStarts.words[i]
		case same && i >= first+n:
			l.chunkStarts.words[i] = before.chunkStarts.words[i-first-n+last]
		default:
			l.chunkStarts.words[i] = wordAfterPrefix(l.chunks[i].startAt(0), skip)
		}
	}
}

// hasAll reports whether all of become is in the table.
func (l *Table) hasAll(become []Range) bool {
	for i := range become {
		if !l.hasRange(&become[i]) {
			return false
		}
	}
	return len(become) > 0
}

// newStaleError names what is in the place of what was expected.
func (l *Table) newStaleError(want *Range) error {
	for r := range l.ScanOverlapping(want.Span) {
		return fmt.Errorf("%w: %v, not %v", ErrStale, r, *want)
	}
	return fmt.Errorf("%w: nothing, not %v", ErrStale, *want)
}
