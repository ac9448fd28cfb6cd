package own

import (
	"bytes"

	"github.com/cleavekv/cleave/partition"
)

// edges are where a group begins and ends to answer reads, in turn: borders between
// two ranges that both do are none. A shard that is cut stays where it is until it
// moves, so there are few of them however many ranges there are, and every read asks
// them.
type edges struct {
	index
	at []partition.Position
}

// newEdges returns the edges of ranges in order. There is no last one if the end of
// the space is readable.
func newEdges(ranges []*Range) (e edges) {
	for i, r := range ranges {
		if !r.Reads() {
			continue
		}
		if n := len(e.at); i > 0 && ranges[i-1].Reads() && bytes.Equal(e.at[n-1], r.Span.Start) {
			e.at[n-1] = r.Span.End
		} else {
			e.at = append(e.at, r.Span.Start, r.Span.End)
		}
	}
	if n := len(e.at); n > 0 && len(e.at[n-1]) == 0 {
		e.at = e.at[:n-1]
	}
	e.index = newIndex(len(e.at), e.start)
	return e
}

func (e *edges) start(i int) partition.Position { return e.at[i] }

// inside tells whether a position is behind a beginning and before its end, and how
// many edges are at or before it.
func (e *edges) inside(p partition.Position) (n int, yes bool) {
	n = e.upto(p, e.start)
	return n, n%2 == 1
}

// solid tells whether a chunk answers reads of everything up to the chunk behind it,
// nil for the end of the space.
func (c *chunk) solid(next *chunk) bool {
	switch {
	case len(c.reads.at) == 0 || !bytes.Equal(c.reads.at[0], c.start(0)):
		return false
	case next == nil:
		return len(c.reads.at) == 1
	}
	return len(c.reads.at) == 2 && bytes.Equal(c.reads.at[1], next.start(0))
}

// Reads tells whether the group answers reads of a position.
func (l *List) Reads(p partition.Position) bool {
	n := l.chunkOf(p)
	if n < 0 {
		return false
	}
	if l.solid[n] {
		return true
	}
	_, yes := l.chunks[n].reads.inside(p)
	return yes
}

// ReadsUpto returns up to where the group answers reads without a gap, from a
// position on; empty for the end of the space. It is not ok if it does not answer
// those of the position.
func (l *List) ReadsUpto(p partition.Position) (end partition.Position, ok bool) {
	n := l.chunkOf(p)
	if n < 0 {
		return nil, false
	}
	edge, ok := l.chunks[n].reads.inside(p)
	for ok {
		at := l.chunks[n].reads.at
		if edge == len(at) {
			return nil, true
		}
		end = at[edge]
		// It may go on in the chunks behind.
		if n++; edge+1 < len(at) || n == len(l.chunks) || !l.chunks[n].begins(end) {
			break
		}
		edge = 1
	}
	return end, ok
}

// begins tells whether the chunk answers reads from a position on, with which it
// begins.
func (c *chunk) begins(p partition.Position) bool {
	return len(c.reads.at) > 0 && bytes.Equal(c.reads.at[0], p)
}

// Covers tells whether all of a span is in ranges that answer reads.
func (l *List) Covers(s partition.Span) bool {
	if s.Empty() {
		return true
	}
	end, ok := l.ReadsUpto(s.Start)
	return ok && (len(end) == 0 || len(s.End) > 0 && bytes.Compare(end, s.End) >= 0)
}
