package shardmap

import (
	"unsafe"
)

// bucketLayout is what growth needs to know about a layout.
type bucketLayout interface {
	// newSegment returns an empty segment of depth 0.
	newSegment(size segmentSize) segment
	// countChain counts the entries of the chain whose root is bucket i.
	countChain(seg segment, i uint64) int
	// copyChain copies the frozen chain i of seg into unpublished segments:
	// into to[0], or into to[1] if there is one and the hash has bit set.
	// It answers false when a segment was full.
	copyChain(seg segment, i uint64, to []segment, bit uint) bool
}

// Growth never stops a reader. It freezes one segment, so that writers of its
// keys wait, copies it into new ones and publishes a directory with those in
// its place. The frozen segment stays what it was when the copy was made: a
// reader that still holds it answers as of a moment before the publication,
// which lies within its own call.

// growSegment makes room in the segment of hash, which the caller found full.
func (t *table) growSegment(s *shard, full segment, hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := findSegment(s.loadDirectory(), hash)
	if seg.base != full.base {
		return // another writer made room
	}
	t.freezeSegment(seg)
	n, overflow := t.countOverflow(seg)
	rung := t.sizeIndex(seg.rootCount())
	switch size := t.computeCompactedSize(seg, overflow); {
	case size.spares > 0:
		t.replaceSegment(s, seg, t.rebuildSegments(size, 1, seg)[0].withDepth(seg.depth()))
	case n < int(seg.rootCount())*t.slots/4:
		// Full of spares, not of entries: hashes collide. More buckets
		// would not part them.
		t.addSpares(s, seg)
	case rung+1 < len(t.sizes):
		t.replaceSegment(s, seg, t.rebuildSegments(t.sizes[rung+1], 1, seg)[0].withDepth(seg.depth()))
	default:
		t.splitSegment(s, seg, n)
	}
	s.growths++
	s.largestMove = max(s.largestMove, uint32(n))
}

// splitSegment parts a frozen segment of n entries in two by the next bit of the
// hash, unless nearly all entries have the same.
func (t *table) splitSegment(s *shard, seg segment, n int) {
	depth := seg.depth() + 1
	if depth > maxDepth {
		t.addSpares(s, seg)
		return
	}
	halves := t.rebuildSegments(t.sizes[len(t.sizes)-1], 2, seg)
	left := t.countEntries(halves[0])
	if min(left, n-left) <= n/16 {
		t.addSpares(s, seg)
		return
	}
	t.replaceSegment(s, seg, halves[0].withDepth(depth), halves[1].withDepth(depth))
}

// addSpares gives a frozen segment twice the overflow buckets.
func (t *table) addSpares(s *shard, seg segment) {
	size := segmentSize{buckets: int(seg.rootCount()), spares: 2 * int(seg.spareCount())}
	t.replaceSegment(s, seg, t.rebuildSegments(size, 1, seg)[0].withDepth(seg.depth()))
}

// rebuildSegments copies frozen segments into ways new ones. If chance or a flood of
// collisions fills one of those, it starts again with more spares.
func (t *table) rebuildSegments(size segmentSize, ways int, from ...segment) []segment {
	for {
		to := make([]segment, ways)
		for i := range to {
			to[i] = t.layout.newSegment(size)
		}
		if t.transferAll(to, from) {
			return to
		}
		size.spares *= 2
	}
}

func (t *table) transferAll(to, from []segment) bool {
	for _, seg := range from {
		for i := range seg.rootCount() {
			if !t.layout.copyChain(seg, i, to, 63-seg.depth()) {
				return false
			}
		}
	}
	return true
}

// countOverflow counts the entries of a segment, and how many spares their
// chains would need if there were no gaps in them.
func (t *table) countOverflow(seg segment) (entries, overflow int) {
	for i := range seg.rootCount() {
		n := t.layout.countChain(seg, i)
		entries += n
		overflow += max(0, n-1) / t.slots
	}
	return entries, overflow
}

// computeCompactedSize returns the size in which to rebuild a full segment that needs no
// more room but has its spares in chains that have become short again, since
// deletes give no spare back. Without that, entries that come and go would make
// a map grow whose number of entries stays the same. It returns no spares if
// the overflow would take a quarter of them or there are only a few, so that a
// rebuild is followed by many inserts before the next.
func (t *table) computeCompactedSize(seg segment, overflow int) segmentSize {
	usual := t.sizes[t.sizeIndex(seg.rootCount())].spares
	for _, spares := range []int{usual, int(seg.spareCount())} {
		if overflow < spares/4 {
			return segmentSize{buckets: int(seg.rootCount()), spares: spares}
		}
	}
	return segmentSize{}
}

func (t *table) freezeSegment(seg segment) {
	for i := range seg.rootCount() {
		freezeChain(seg.bucketAt(i, t.bucketBytes))
	}
}

func (t *table) countEntries(seg segment) int {
	n := 0
	for i := range seg.rootCount() {
		n += t.layout.countChain(seg, i)
	}
	return n
}

// replaceSegment publishes a directory with segments in the place of old.
func (t *table) replaceSegment(s *shard, old segment, by ...segment) {
	segs := listSegments(s.loadDirectory())
	for i := range segs {
		if segs[i].base == old.base {
			t.installDirectory(s, append(append(segs[:i:i], by...), segs[i+1:]...))
			return
		}
	}
	checkInvariant(false, "a replaced segment is in the directory")
}

// installDirectory publishes a directory of segs and sets when to shrink it: at a
// quarter of what it could hold. Growth leaves segments half full, so there
// is room between the two.
func (t *table) installDirectory(s *shard, segs []segment) {
	buckets := 0
	for _, seg := range segs {
		buckets += int(seg.rootCount())
	}
	at := int64(-1) // never
	if buckets > max(t.minBuckets, t.sizes[0].buckets) {
		at = int64(t.nominalFull(buckets) / 4)
	}
	s.shrinkAt.Store(at)
	s.publishDirectory(newDirectory(segs))
}

// newShards returns n shards that share one directory of the empty segment.
func newShards(n int) unsafe.Pointer {
	shards := make([]shard, n)
	empty := newDirectory([]segment{emptySegment})
	for i := range shards {
		shards[i].shrinkAt.Store(-1)
		shards[i].publishDirectory(empty)
	}
	return unsafe.Pointer(&shards[0])
}

// reserveCapacity gives every shard segments for n entries, evenly filled to three
// quarters of what makes a segment grow, and keeps shrinking from undoing it.
func (t *table) reserveCapacity(n int) {
	want := n * 4 / 3
	size, depth := t.sizes[len(t.sizes)-1], uint(0)
	for _, smaller := range t.sizes {
		if t.nominalFull(smaller.buckets) >= want {
			size = smaller
			break
		}
	}
	for depth < maxDepth && t.nominalFull(size.buckets)<<depth < want {
		depth++
	}
	t.minBuckets = size.buckets << depth
	for i := range t.shardCount() {
		segs := make([]segment, 1<<depth)
		for j := range segs {
			segs[j] = t.layout.newSegment(size).withDepth(depth)
		}
		t.installDirectory(t.shardAt(i), segs)
	}
}

// A shard shrinks in small steps that deletes pay for: each merges one pair
// of segments, or halves the last one, and costs no more than a split.

// afterDelete counts a deleted entry and takes a step if few are left.
func (t *table) afterDelete(s *shard) {
	if n := s.count.Add(-1); n <= s.shrinkAt.Load() {
		t.shrinkOnce(s)
	}
}

// shrinkOnce takes one step. It gives way when the shard is growing already.
func (t *table) shrinkOnce(s *shard) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.count.Load() > s.shrinkAt.Load() {
		return
	}
	segs := listSegments(s.loadDirectory())
	if len(segs) == 1 {
		t.halveSegment(s, segs[0])
	} else {
		t.mergePair(s, segs)
	}
	t.delayNextShrink(s)
}

// delayNextShrink lets some deletes pass before the next step, in proportion to
// the work of one.
func (t *table) delayNextShrink(s *shard) {
	buckets := int64(findSegment(s.loadDirectory(), 0).rootCount())
	if at := s.shrinkAt.Load(); at >= 0 {
		s.shrinkAt.Store(min(at, max(0, s.count.Load()-buckets/16)))
	}
}

// halveSegment moves the only segment of a shard into one of half the size.
func (t *table) halveSegment(s *shard, seg segment) {
	rung := t.sizeIndex(seg.rootCount())
	if rung == 0 {
		return
	}
	size := t.sizes[rung-1]
	if n := t.countEntries(seg); n <= t.nominalFull(size.buckets)/2 {
		t.freezeSegment(seg)
		t.replaceSegment(s, seg, t.rebuildSegments(size, 1, seg)[0])
		t.recordShrink(s, n)
	}
}

// mergePair looks from the cursor on for two segments that a split once
// parted, and merges them if they fill at most half of one.
func (t *table) mergePair(s *shard, segs []segment) {
	i, ok := nextPair(segs, int(s.mergeCursor))
	if !ok {
		s.mergeCursor = 0
		return
	}
	s.mergeCursor = uint32(i + 2)
	left, right := segs[i], segs[i+1]
	size := t.sizes[len(t.sizes)-1]
	n := t.countEntries(left) + t.countEntries(right)
	if n > t.nominalFull(size.buckets)/2 {
		return
	}
	t.freezeSegment(left)
	t.freezeSegment(right)
	merged := t.rebuildSegments(size, 1, left, right)[0].withDepth(left.depth() - 1)
	t.installDirectory(s, append(append(segs[:i:i], merged), segs[i+2:]...))
	s.mergeCursor = uint32(i + 1)
	t.recordShrink(s, n)
}

// nextPair returns the index, from start on, of a segment whose right
// neighbour is its sibling: same depth, prefixes that differ in the last bit.
func nextPair(segs []segment, start int) (int, bool) {
	prefix := uint64(0) // of segs[i], as a position in the hash space
	for i := 0; i+1 < len(segs); i++ {
		depth := segs[i].depth()
		isLeft := prefix>>(64-depth)&1 == 0
		if i >= start && isLeft && segs[i+1].depth() == depth {
			return i, true
		}
		prefix += 1 << (64 - depth)
	}
	return 0, false
}

func (t *table) recordShrink(s *shard, moved int) {
	s.shrinks++
	s.largestMove = max(s.largestMove, uint32(moved))
}

// clearShards empties one shard after the other.
func (t *table) clearShards() {
	for i := range t.shardCount() {
		t.clearShard(t.shardAt(i))
	}
}

// clearShard freezes all segments, so that no writer adds to what was
// counted, and starts over.
func (t *table) clearShard(s *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	segs := listSegments(s.loadDirectory())
	if segs[0].isEmptySegment() {
		return
	}
	n := 0
	for _, seg := range segs {
		t.freezeSegment(seg)
		n += t.countEntries(seg)
	}
	t.installDirectory(s, []segment{emptySegment})
	s.count.Add(int64(-n))
}
