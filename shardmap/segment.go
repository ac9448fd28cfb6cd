package shardmap

import (
	"sync/atomic"
	"unsafe"
)

// segment is a small hash table of its own: buckets, one bookkeeping bucket,
// spare buckets for overflow. Its memory is one allocation:
//
//	bucket 0 … buckets-1             roots, addressed by the hash
//	bucket buckets                   word 0: number of spares in use
//	bucket buckets+1 … +spares       overflow, linked from a chain
//
// It is full when a chain needs a spare and none is left. The struct itself
// is immutable and is copied by value.
type segment struct {
	base  unsafe.Pointer
	roots uint32
	info  uint32 // spares | depth<<26
}

const (
	depthShift = 26
	maxSpares  = 1<<depthShift - 1
)

func (s segment) buckets() uint64 { return uint64(s.roots) }
func (s segment) spares() uint64  { return uint64(s.info & maxSpares) }

// depth is how many leading bits of the hash all keys of the segment share.
func (s segment) depth() uint { return uint(s.info >> depthShift) }

func (s segment) withDepth(depth uint) segment {
	s.info = s.info&maxSpares | uint32(depth)<<depthShift
	return s
}

// root returns the number of the root bucket for hash. It uses the low 32
// bits; the directory uses the high ones, so that a key keeps its bucket
// number when its segment splits.
func (s segment) root(hash uint64) uint64 {
	return uint64(uint32(hash)) * s.buckets() >> 32
}

// at returns the i-th bucket.
func (s segment) at(i uint64, bucketBytes uintptr) unsafe.Pointer {
	return unsafe.Add(s.base, uintptr(i)*bucketBytes)
}

// takeSpare reserves an overflow bucket and returns its number, 0 when none
// is left.
func (s segment) takeSpare(bucketBytes uintptr) uint64 {
	used := word(s.at(s.buckets(), bucketBytes), headerWord)
	n := atomic.AddUint64(used, 1)
	if n > s.spares() {
		atomic.AddUint64(used, ^uint64(0))
		return 0
	}
	return s.buckets() + n
}

// sparesUsed returns how many overflow buckets are in use.
func (s segment) sparesUsed(bucketBytes uintptr) uint64 {
	if s.spares() == 0 {
		return 0 // the shared empty segment has no bookkeeping bucket
	}
	return min(s.spares(), atomic.LoadUint64(word(s.at(s.buckets(), bucketBytes), headerWord)))
}

// emptyBucket is what every shard starts with: one frozen root without
// entries, shared by all maps. Readers find nothing there; the first writer
// replaces it. So an empty map costs its shards and nothing more.
// The second line is for wordTable.read, which may look one word past a root.
var emptyBucket = [2 * cacheLine / wordBytes]uint64{headerWord: lockBit | frozenBit}

var emptySegment = segment{base: unsafe.Pointer(&emptyBucket), roots: 1}

func (s segment) isEmptySegment() bool { return s.base == emptySegment.base }

// newSegment describes size buckets at base.
func newSegment(base unsafe.Pointer, size segmentSize) segment {
	invariant(size.spares <= maxSpares, "overflow buckets fit their field")
	return segment{base: base, roots: uint32(size.buckets), info: uint32(size.spares)}
}
