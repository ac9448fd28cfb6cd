package shardmap

// segmentSize is the shape of a segment: roots and overflow buckets.
type segmentSize struct{ buckets, spares int }

// total counts all buckets, the one for bookkeeping included.
func (s segmentSize) total() int { return s.buckets + 1 + s.spares }

// geometry is the shape of a layout's buckets and segments.
type geometry struct {
	bucketBytes uintptr
	slots       int           // entries per bucket
	sizes       []segmentSize // by which a segment doubles before it splits
}

const (
	// firstBuckets is the total of a shard's first segment.
	firstBuckets = 4
	// maxSegmentBytes bounds a segment of words and with it the work of one
	// split, at most about two thousand entries. A map of a million words
	// has about a thousand segments: few enough for the garbage collector,
	// and directories of 16 KiB in all, which the first-level cache holds.
	maxSegmentBytes = 64 << 10
	// maxDepth bounds a directory to a million segments a shard, and keeps
	// its bits of the hash apart from those of the shard.
	maxDepth = 20
)

// sizeOf splits total buckets into roots and spares. With one spare for
// seven roots a segment is full at about 5/8 of its slots, when about one
// entry in ten sits in an overflow bucket.
func sizeOf(total int) segmentSize {
	spares := max(1, total/8)
	return segmentSize{buckets: total - 1 - spares, spares: spares}
}

// nominalFull is how many entries n buckets hold when their segments are
// about to grow.
func (g *geometry) nominalFull(buckets int) int { return buckets * g.slots * 5 / 8 }

// doubling lists the totals firstBuckets, twice that … up to most.
func doubling(most int) []segmentSize {
	var sizes []segmentSize
	for total := firstBuckets; total < most; total *= 2 {
		sizes = append(sizes, sizeOf(total))
	}
	return append(sizes, sizeOf(most))
}

// rung returns the index of the largest size with at most buckets roots.
func (g *geometry) rung(buckets uint64) int {
	i := len(g.sizes) - 1
	for i > 0 && g.sizes[i].buckets > int(buckets) {
		i--
	}
	return i
}
