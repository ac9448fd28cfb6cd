package ownership

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// A table is cut into chunks, so that a change copies one or two of them and the list of chunks,
// and tables share the others. At 10,000 ranges that is some hundred pointers of each kind.
const (
	maxChunkRanges    = 128 // ranges in a chunk
	minChunkRanges    = 32  // fewer are joined with the chunk beside them
	targetChunkRanges = 96  // in each chunk when ranges are cut, so that there is room
)

// chunk is some of the ranges, at least one, in order. It never changes.
type chunk struct {
	starts      startIndex
	ranges      []*Range
	readBounds  readBounds
	frozenCount int
}

func newChunk(ranges []*Range) *chunk {
	c := &chunk{ranges: ranges}
	c.starts = newStartIndex(len(ranges), c.startAt)
	c.readBounds = newReadBounds(ranges)
	for _, r := range ranges {
		if r.State == Frozen {
			c.frozenCount++
		}
	}
	return c
}

func (c *chunk) startAt(i int) partition.Position { return c.ranges[i].Span.Start }

// splitIntoChunks makes chunks of ranges.
func splitIntoChunks(ranges []*Range) []*chunk {
	if len(ranges) == 0 {
		return nil
	}
	if len(ranges) <= maxChunkRanges {
		return []*chunk{newChunk(ranges)}
	}
	chunks := make([]*chunk, (len(ranges)+targetChunkRanges-1)/targetChunkRanges)
	for i := range chunks {
		from, to := i*len(ranges)/len(chunks), (i+1)*len(ranges)/len(chunks)
		chunks[i] = newChunk(slices.Clone(ranges[from:to])) // one must not keep all of them in memory
	}
	return chunks
}

// startIndex finds a position among starts that are in order. Of each start it keeps the
// eight bytes behind what all of them have in common, side by side: so a search reads
// a few lines of memory, and the starts themselves only where those bytes are equal.
type startIndex struct {
	prefix partition.Position
	words  []uint64
}

// newStartIndex makes the index of n starts.
func newStartIndex(n int, start func(int) partition.Position) (x startIndex) {
	if n == 0 {
		return x
	}
	x.prefix = commonPrefix(start(0), start(n-1))
	x.words = make([]uint64, n)
	for i := range x.words {
		x.words[i] = wordAfterPrefix(start(i), len(x.prefix))
	}
	return x
}

// wordAfterPrefix is the first eight bytes behind what is common, in an order that is that of
// the bytes. A shorter start has zeros there, so different ones may have equal words.
func wordAfterPrefix(p partition.Position, skip int) uint64 {
	p = p[skip:]
	if len(p) >= 8 {
		return binary.BigEndian.Uint64(p)
	}
	var b [8]byte
	copy(b[:], p)
	return binary.BigEndian.Uint64(b[:])
}

// commonPrefix returns what two positions begin with.
func commonPrefix(a, b partition.Position) partition.Position {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return a[:i]
		}
	}
	return a[:n]
}

// countUpTo returns how many of the starts are at or before p.
func (x *startIndex) countUpTo(p partition.Position, start func(int) partition.Position) int {
	skip := len(x.prefix)
	if len(p) < skip || !bytes.Equal(p[:skip], x.prefix) {
		if bytes.Compare(p, x.prefix) < 0 {
			return 0
		}
		return len(x.words)
	}
	if len(x.words) == 0 {
		return 0
	}
	// It does not branch on what it reads: of random positions every second branch
	// would be predicted wrong.
	w := wordAfterPrefix(p, skip)
	first, size := 0, len(x.words)
	for size > 1 {
		half := size / 2
		_, less := bits.Sub64(x.words[first+half-1], w, 0)
		first += half & -int(less)
		size -= half
	}
	_, less := bits.Sub64(x.words[first], w, 0)
	first += int(less)
	last := first // those before first are less than w, those from last on greater
	for last < len(x.words) && x.words[last] == w {
		last++
	}
	for first < last { // which are equal in that, and mostly one at most
		if m := int(uint(first+last) / 2); bytes.Compare(start(m), p) <= 0 {
			first = m + 1
		} else {
			last = m
		}
	}
	return first
}

// readBounds are where a group begins and ends to answer reads, in turn: borders between
// two ranges that both do are none. A shard that is cut stays where it is until it
// moves, so there are few of them however many ranges there are, and every read asks
// them.
type readBounds struct {
	startIndex
	positions []partition.Position
}

// newReadBounds returns the edges of ranges in order. There is no last one if the end of
// the space is readable.
func newReadBounds(ranges []*Range) (e readBounds) {
	for i, r := range ranges {
		if !r.IsReadable() {
			continue
		}
		if n := len(e.positions); i > 0 && ranges[i-1].IsReadable() && bytes.Equal(e.positions[n-1], r.Span.Start) {
			e.positions[n-1] = r.Span.End
		} else {
			e.positions = append(e.positions, r.Span.Start, r.Span.End)
		}
	}
	if n := len(e.positions); n > 0 && len(e.positions[n-1]) == 0 {
		e.positions = e.positions[:n-1]
	}
	e.startIndex = newStartIndex(len(e.positions), e.startAt)
	return e
}

// maxMergedBounds is how many bounds a table has together at most: so few that a search reads no more memory than
// that of the chunks, and a change of the table little. BenchmarkCheckHalf shows what it saves.
const maxMergedBounds = 64

// mergeReadBounds returns the bounds of chunks in order, nil if they are many. Where one chunk ends and the next begins
// is none.
func mergeReadBounds(chunks []*chunk) *readBounds {
	e := new(readBounds)
	for _, c := range chunks {
		more := c.readBounds.positions
		if n := len(e.positions); n > 0 && len(more) > 0 && bytes.Equal(e.positions[n-1], more[0]) {
			e.positions, more = e.positions[:n-1], more[1:]
		}
		if e.positions = append(e.positions, more...); len(e.positions) > maxMergedBounds {
			return nil
		}
	}
	e.startIndex = newStartIndex(len(e.positions), e.startAt)
	return e
}

func (e *readBounds) startAt(i int) partition.Position { return e.positions[i] }

// locatePosition reports whether a position is behind a beginning and before its end, and how
// many edges are at or before it.
func (e *readBounds) locatePosition(p partition.Position) (n int, yes bool) {
	n = e.countUpTo(p, e.startAt)
	return n, n%2 == 1
}

// isReadableUpTo reports whether a chunk answers reads of everything up to the chunk behind it,
// nil for the end of the space.
func (c *chunk) isReadableUpTo(next *chunk) bool {
	switch {
	case len(c.readBounds.positions) == 0 || !bytes.Equal(c.readBounds.positions[0], c.startAt(0)):
		return false
	case next == nil:
		return len(c.readBounds.positions) == 1
	}
	return len(c.readBounds.positions) == 2 && bytes.Equal(c.readBounds.positions[1], next.startAt(0))
}

// CanRead reports whether the group answers reads of a position.
func (l *Table) CanRead(p partition.Position) bool {
	if l.readBounds != nil {
		_, yes := l.readBounds.locatePosition(p)
		return yes
	}
	n := l.findChunk(p)
	if n < 0 {
		return false
	}
	if l.readableChunks[n] {
		return true
	}
	_, yes := l.chunks[n].readBounds.locatePosition(p)
	return yes
}

// FindReadableEnd returns up to where the group answers reads without a gap, from a
// position on; empty for the end of the space. It is not ok if it does not answer
// those of the position.
func (l *Table) FindReadableEnd(p partition.Position) (end partition.Position, ok bool) {
	n := l.findChunk(p)
	if n < 0 {
		return nil, false
	}
	edge, ok := l.chunks[n].readBounds.locatePosition(p)
	for ok {
		at := l.chunks[n].readBounds.positions
		if edge == len(at) {
			return nil, true
		}
		end = at[edge]
		// It may go on in the chunks behind.
		if n++; edge+1 < len(at) || n == len(l.chunks) || !l.chunks[n].isReadableFrom(end) {
			break
		}
		edge = 1
	}
	return end, ok
}

// isReadableFrom reports whether the chunk answers reads from a position on, with which it
// begins.
func (c *chunk) isReadableFrom(p partition.Position) bool {
	return len(c.readBounds.positions) > 0 && bytes.Equal(c.readBounds.positions[0], p)
}

// CanReadSpan reports whether all of a span is in ranges that answer reads.
func (l *Table) CanReadSpan(s partition.Span) bool {
	if s.Empty() {
		return true
	}
	end, ok := l.FindReadableEnd(s.Start)
	return ok && (len(end) == 0 || len(s.End) > 0 && bytes.Compare(end, s.End) >= 0)
}
