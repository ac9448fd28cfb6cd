package own

import (
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// A list is cut into chunks, so that a change copies one or two of them and the list
// of chunks, and lists share the others. At 10,000 ranges that is some hundred pointers
// of each kind.
const (
	maxChunk  = 128 // ranges in a chunk
	minChunk  = 32  // fewer are joined with the chunk beside them
	packChunk = 96  // in each chunk when ranges are cut, so that there is room
)

// chunk is some of the ranges, at least one, in order. It never changes.
type chunk struct {
	starts index
	ranges []*Range
	reads  edges
	frozen int
}

func newChunk(ranges []*Range) *chunk {
	c := &chunk{ranges: ranges}
	c.starts = newIndex(len(ranges), c.start)
	c.reads = newEdges(ranges)
	for _, r := range ranges {
		if r.State == Frozen {
			c.frozen++
		}
	}
	return c
}

func (c *chunk) start(i int) partition.Position { return c.ranges[i].Span.Start }

// cut makes chunks of ranges.
func cut(ranges []*Range) []*chunk {
	if len(ranges) == 0 {
		return nil
	}
	if len(ranges) <= maxChunk {
		return []*chunk{newChunk(ranges)}
	}
	chunks := make([]*chunk, (len(ranges)+packChunk-1)/packChunk)
	for i := range chunks {
		from, to := i*len(ranges)/len(chunks), (i+1)*len(ranges)/len(chunks)
		chunks[i] = newChunk(slices.Clone(ranges[from:to])) // one must not keep all of them in memory
	}
	return chunks
}
