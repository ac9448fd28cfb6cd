package shardmap

import "unsafe"

// bucketLayout is what growth needs to know about a layout.
type bucketLayout interface {
	// newSegment returns an empty segment of depth 0.
	newSegment(size segmentSize) segment
	// entries counts the entries of the chain whose root is bucket i.
	entries(seg segment, i uint64) int
	// transfer copies the frozen chain i of seg into unpublished segments:
	// into to[0], or into to[1] if there is one and the hash has bit set.
	// It answers false when a segment was full.
	transfer(seg segment, i uint64, to []segment, bit uint) bool
}

// Growth never stops a reader. It freezes one segment, so that writers of its
// keys wait, copies it into new ones and publishes a directory with those in
// its place. The frozen segment stays what it was when the copy was made: a
// reader that still holds it answers as of a moment before the publication,
// which lies within its own call.

// grow makes room in the segment of hash, which the caller found full.
func (t *table) grow(s *shard, full segment, hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := lookup(s.directory(), hash)
	if seg.base != full.base {
		return // another writer made room
	}
	t.freeze(seg)
	n, overflow := t.countOverflow(seg)
	rung := t.rung(seg.buckets())
	switch size := t.tidySize(seg, overflow); {
	case size.spares > 0:
		t.replace(s, seg, t.rebuild(size, 1, seg)[0].withDepth(seg.depth()))
	case n < int(seg.buckets())*t.slots/4:
		// Full of spares, not of entries: hashes collide. More buckets
		// would not part them.
		t.addSpares(s, seg)
	case rung+1 < len(t.sizes):
		t.replace(s, seg, t.rebuild(t.sizes[rung+1], 1, seg)[0].withDepth(seg.depth()))
	default:
		t.split(s, seg, n)
	}
	s.grown++
	s.moved = max(s.moved, uint32(n))
}

// split parts a frozen segment of n entries in two by the next bit of the
// hash, unless nearly all entries have the same.
func (t *table) split(s *shard, seg segment, n int) {
	depth := seg.depth() + 1
	if depth > maxDepth {
		t.addSpares(s, seg)
		return
	}
	halves := t.rebuild(t.sizes[len(t.sizes)-1], 2, seg)
	left := t.countEntries(halves[0])
	if min(left, n-left) <= n/16 {
		t.addSpares(s, seg)
		return
	}
	t.replace(s, seg, halves[0].withDepth(depth), halves[1].withDepth(depth))
}

// addSpares gives a frozen segment twice the overflow buckets.
func (t *table) addSpares(s *shard, seg segment) {
	size := segmentSize{buckets: int(seg.buckets()), spares: 2 * int(seg.spares())}
	t.replace(s, seg, t.rebuild(size, 1, seg)[0].withDepth(seg.depth()))
}

// rebuild copies frozen segments into ways new ones. If chance or a flood of
// collisions fills one of those, it starts again with more spares.
func (t *table) rebuild(size segmentSize, ways int, from ...segment) []segment {
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
		for i := range seg.buckets() {
			if !t.layout.transfer(seg, i, to, 63-seg.depth()) {
				return false
			}
		}
	}
	return true
}

// countOverflow counts the entries of a segment, and how many spares their
// chains would need if there were no gaps in them.
func (t *table) countOverflow(seg segment) (entries, overflow int) {
	for i := range seg.buckets() {
		n := t.layout.entries(seg, i)
		entries += n
		overflow += max(0, n-1) / t.slots
	}
	return entries, overflow
}

// tidySize returns the size in which to rebuild a full segment that needs no
// more room but has its spares in chains that have become short again, since
// deletes give no spare back. Without that, entries that come and go would make
// a map grow whose number of entries stays the same. It returns no spares if
// the overflow would take a quarter of them or there are only a few, so that a
// rebuild is followed by many inserts before the next.
func (t *table) tidySize(seg segment, overflow int) segmentSize {
	usual := t.sizes[t.rung(seg.buckets())].spares
	for _, spares := range []int{usual, int(seg.spares())} {
		if overflow < spares/4 {
			return segmentSize{buckets: int(seg.buckets()), spares: spares}
		}
	}
	return segmentSize{}
}

func (t *table) freeze(seg segment) {
	for i := range seg.buckets() {
		freezeChain(seg.at(i, t.bucketBytes))
	}
}

func (t *table) countEntries(seg segment) int {
	n := 0
	for i := range seg.buckets() {
		n += t.layout.entries(seg, i)
	}
	return n
}

// replace publishes a directory with segments in the place of old.
func (t *table) replace(s *shard, old segment, by ...segment) {
	segs := segments(s.directory())
	for i := range segs {
		if segs[i].base == old.base {
			t.install(s, append(append(segs[:i:i], by...), segs[i+1:]...))
			return
		}
	}
	invariant(false, "a replaced segment is in the directory")
}

// install publishes a directory of segs and sets when to shrink it: at a
// quarter of what it could hold. Growth leaves segments half full, so there
// is room between the two.
func (t *table) install(s *shard, segs []segment) {
	buckets := 0
	for _, seg := range segs {
		buckets += int(seg.buckets())
	}
	at := int64(-1) // never
	if buckets > max(t.floor, t.sizes[0].buckets) {
		at = int64(t.nominalFull(buckets) / 4)
	}
	s.shrinkAt.Store(at)
	s.publish(newDirectory(segs))
}

// newShards returns n shards that share one directory of the empty segment.
func newShards(n int) unsafe.Pointer {
	shards := make([]shard, n)
	empty := newDirectory([]segment{emptySegment})
	for i := range shards {
		shards[i].shrinkAt.Store(-1)
		shards[i].publish(empty)
	}
	return unsafe.Pointer(&shards[0])
}

// reserve gives every shard segments for n entries, evenly filled to three
// quarters of what makes a segment grow, and keeps shrinking from undoing it.
func (t *table) reserve(n int) {
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
	t.floor = size.buckets << depth
	for i := range t.shardCount() {
		segs := make([]segment, 1<<depth)
		for j := range segs {
			segs[j] = t.layout.newSegment(size).withDepth(depth)
		}
		t.install(t.shardAt(i), segs)
	}
}
