package own

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// change returns the list in which become has taken the place of expect. Done
// tells that become is there already, as it is when a step is repeated. It copies
// what lies between the first and the last of them.
func (l *List) change(expect, become []Range) (next *List, done bool, err error) {
	if l.has(become) || len(expect)+len(become) == 0 {
		return l, true, nil
	}
	if become, err = ordered(become); err != nil {
		return nil, false, err
	}
	expect = slices.Clone(expect)
	slices.SortFunc(expect, compareStarts)
	hull := hullOf(expect, become)
	missing, merged := expect, become
	for r := range l.Over(hull) {
		if len(missing) > 0 && r.equal(&missing[0]) {
			missing = missing[1:]
		} else {
			merged = append(merged, r)
		}
	}
	if len(missing) > 0 {
		return nil, false, l.stale(&missing[0])
	}
	slices.SortFunc(merged, compareStarts)
	for i := 1; i < len(merged); i++ {
		if merged[i-1].Span.Overlaps(merged[i].Span) {
			return nil, false, fmt.Errorf("%w: %v and %v overlap", ErrStale, merged[i-1], merged[i])
		}
	}
	from, _ := l.at(hull.Start)
	to := place{len(l.chunks), 0}
	if len(hull.End) > 0 {
		var inside bool
		if to, inside = l.at(hull.End); inside && bytes.Compare(l.chunks[to.chunk].start(to.i), hull.End) < 0 {
			to.i++ // it ends behind the hull, and overlaps with it
		}
	}
	return l.replace(from, to, merged), false, nil
}

// hullOf returns the smallest span that has all of some ranges.
func hullOf(expect, become []Range) (hull partition.Span) {
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

// replace returns the list in which ranges have taken the place of those from one
// place up to another.
func (l *List) replace(from, to place, ranges []Range) *List {
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
	case len(all) >= minChunk:
	case last < len(l.chunks):
		all = append(all, l.chunks[last].ranges...)
		last++
	case first > 0:
		first--
		all = append(slices.Clip(l.chunks[first].ranges), all...)
	}
	chunks := cut(all)
	next := &List{chunks: slices.Concat(l.chunks[:first], chunks, l.chunks[last:]), len: l.len + len(all), frozen: l.frozen, version: l.version}
	for _, c := range l.chunks[first:last] {
		next.len, next.frozen = next.len-len(c.ranges), next.frozen-c.frozen
	}
	for _, c := range chunks {
		next.frozen += c.frozen
	}
	for i := range ranges {
		next.version = max(next.version, ranges[i].Version)
	}
	next.index(l, first, last, len(chunks))
	next.solidify(l, first, last, len(chunks))
	return next
}

// solidify says which chunks are solid, like index. It matters to a chunk where the
// next one starts.
func (l *List) solidify(before *List, first, last, n int) {
	l.solid = make([]bool, len(l.chunks))
	for i, c := range l.chunks {
		switch {
		case i < first-1:
			l.solid[i] = before.solid[i]
		case i >= first+n:
			l.solid[i] = before.solid[i-first-n+last]
		case i+1 < len(l.chunks):
			l.solid[i] = c.solid(l.chunks[i+1])
		default:
			l.solid[i] = c.solid(nil)
		}
	}
}

// index makes the index of chunks, of which n have taken the place of those from
// first to last of a list before.
func (l *List) index(before *List, first, last, n int) {
	if len(l.chunks) == 0 {
		return
	}
	l.firsts.prefix = common(l.chunks[0].start(0), l.chunks[len(l.chunks)-1].start(0))
	l.firsts.words = make([]uint64, len(l.chunks))
	skip := len(l.firsts.prefix)
	same := before.len > 0 && len(before.firsts.prefix) == skip
	for i := range l.chunks {
		switch {
		case same && i < first:
			l.firsts.words[i] = before.firsts.words[i]
		case same && i >= first+n:
			l.firsts.words[i] = before.firsts.words[i-first-n+last]
		default:
			l.firsts.words[i] = word(l.chunks[i].start(0), skip)
		}
	}
}

// has tells whether all of become is in the list.
func (l *List) has(become []Range) bool {
	for i := range become {
		if !l.hasRange(&become[i]) {
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
