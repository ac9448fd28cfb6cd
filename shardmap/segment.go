package shardmap

import (
	"runtime"
	"sync/atomic"
	"time"
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

func (s segment) rootCount() uint64  { return uint64(s.roots) }
func (s segment) spareCount() uint64 { return uint64(s.info & maxSpares) }

// depth is how many leading bits of the hash all keys of the segment share.
func (s segment) depth() uint { return uint(s.info >> depthShift) }

func (s segment) withDepth(depth uint) segment {
	s.info = s.info&maxSpares | uint32(depth)<<depthShift
	return s
}

// rootIndex returns the number of the root bucket for hash. It uses the low 32
// bits; the directory uses the high ones, so that a key keeps its bucket
// number when its segment splits.
func (s segment) rootIndex(hash uint64) uint64 {
	return uint64(uint32(hash)) * s.rootCount() >> 32
}

// bucketAt returns the i-th bucket.
func (s segment) bucketAt(i uint64, bucketBytes uintptr) unsafe.Pointer {
	return unsafe.Add(s.base, uintptr(i)*bucketBytes)
}

// takeSpare reserves an overflow bucket and returns its number, 0 when none
// is left.
func (s segment) takeSpare(bucketBytes uintptr) uint64 {
	used := wordAt(s.bucketAt(s.rootCount(), bucketBytes), headerWord)
	n := atomic.AddUint64(used, 1)
	if n > s.spareCount() {
		atomic.AddUint64(used, ^uint64(0))
		return 0
	}
	return s.rootCount() + n
}

// sparesUsed returns how many overflow buckets are in use.
func (s segment) sparesUsed(bucketBytes uintptr) uint64 {
	if s.spareCount() == 0 {
		return 0 // the shared empty segment has no bookkeeping bucket
	}
	return min(s.spareCount(), atomic.LoadUint64(wordAt(s.bucketAt(s.rootCount(), bucketBytes), headerWord)))
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
	checkInvariant(size.spares <= maxSpares, "overflow buckets fit their field")
	return segment{base: base, roots: uint32(size.buckets), info: uint32(size.spares)}
}

// directory maps the leading bits of a hash to the segment of a shard that
// holds it (extendible hashing). It is an array of segments whose element 0
// carries, in roots, how far to shift the hash; element 1+i is the segment for
// the prefix i. A directory never changes: growth publishes a new one, so
// readers need one atomic load and no lock.
type directory = unsafe.Pointer // *[1+2^depth]segment

const segmentBytes = unsafe.Sizeof(segment{})

// findSegment returns the segment of hash. The hash is shifted in two steps so
// that a depth of zero, a shift by 64, needs no test.
func findSegment(d directory, hash uint64) segment {
	i := hash >> 1 >> ((*segment)(d).roots & 63)
	return *(*segment)(unsafe.Add(d, segmentBytes+uintptr(i)*segmentBytes))
}

// computeDirectoryDepth returns how many bits of the hash the directory looks at.
func computeDirectoryDepth(d directory) uint { return 63 - uint((*segment)(d).roots) }

// newDirectory lays out segs, which are in order of their prefixes and cover
// all of them.
func newDirectory(segs []segment) directory {
	depth := uint(0)
	for _, s := range segs {
		depth = max(depth, s.depth())
	}
	d := make([]segment, 1, 1+1<<depth)
	d[0].roots = uint32(63 - depth)
	for _, s := range segs {
		for range 1 << (depth - s.depth()) {
			d = append(d, s)
		}
	}
	checkInvariant(len(d) == 1+1<<depth, "segments cover the hash space once")
	return unsafe.Pointer(&d[0])
}

// listSegments lists the segments of the directory in order, each once.
func listSegments(d directory) []segment {
	depth := computeDirectoryDepth(d)
	all := unsafe.Slice((*segment)(d), 1+1<<depth)[1:]
	var segs []segment
	for i := 0; i < len(all); i += 1 << (depth - all[i].depth()) {
		segs = append(segs, all[i])
	}
	return segs
}

// segmentSize is the shape of a segment: roots and overflow buckets.
type segmentSize struct{ buckets, spares int }

// totalBuckets counts all buckets, the one for bookkeeping included.
func (s segmentSize) totalBuckets() int { return s.buckets + 1 + s.spares }

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

// listDoublingSizes lists the totals firstBuckets, twice that … up to most.
func listDoublingSizes(most int) []segmentSize {
	var sizes []segmentSize
	for total := firstBuckets; total < most; total *= 2 {
		sizes = append(sizes, sizeOf(total))
	}
	return append(sizes, sizeOf(most))
}

// sizeIndex returns the index of the largest size with at most buckets roots.
func (g *geometry) sizeIndex(buckets uint64) int {
	i := len(g.sizes) - 1
	for i > 0 && g.sizes[i].buckets > int(buckets) {
		i--
	}
	return i
}

// Every bucket of both layouts starts with the same two words:
//
//	word 0  header: flags, occupancy or tags, version
//	word 1  link: number of the next bucket of the chain, 0 for none
//
// The header of the first bucket of a chain (the root) locks the whole chain.
// Only writers lock. A frozen root stays locked for ever: its entries were
// copied to a new segment and the writer has to look the key up again.
const (
	lockBit   = 1 << 0 // a writer owns the chain
	frozenBit = 1 << 1 // the chain moved; always set together with lockBit

	headerWord = 0
	linkWord   = 1
	wordBytes  = 8
)

// wordAt returns the i-th word of the bucket at p.
func wordAt(p unsafe.Pointer, i uintptr) *uint64 {
	return (*uint64)(unsafe.Add(p, i*wordBytes))
}

// lockChain locks the chain of root, sets flags and returns its header
// without them. It answers false when the chain is frozen.
func lockChain(root unsafe.Pointer, flags uint64) (header uint64, ok bool) {
	p := wordAt(root, headerWord)
	for try := 0; ; try++ {
		h := atomic.LoadUint64(p)
		if h&frozenBit != 0 {
			return 0, false
		}
		if h&lockBit == 0 && atomic.CompareAndSwapUint64(p, h, h|flags) {
			return h, true
		}
		backOff(try)
	}
}

// unlockChain publishes header, which carries no flags, and gives the lock up.
func unlockChain(root unsafe.Pointer, header uint64) {
	atomic.StoreUint64(wordAt(root, headerWord), header)
}

// freezeChain locks the chain of root for ever.
func freezeChain(root unsafe.Pointer) {
	_, ok := lockChain(root, lockBit|frozenBit)
	checkInvariant(ok, "a chain is frozen once")
}

// backOff makes the caller wait a little for a lock: first hot, because almost
// every critical section is a handful of stores; then by yielding, in case
// the owner was preempted; at last by sleeping, in case it runs a slow
// callback of Compute.
func backOff(try int) {
	const hotTries, yieldTries = 16, 200
	switch {
	case try < hotTries:
	case try < yieldTries:
		runtime.Gosched()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// checkInvariant panics when a rule of this package's own making is broken.
func checkInvariant(holds bool, rule string) {
	if !holds {
		panic("shardmap: broken invariant: " + rule)
	}
}
