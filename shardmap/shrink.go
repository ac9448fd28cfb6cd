package shardmap

// A shard shrinks in small steps that deletes pay for: each merges one pair
// of segments, or halves the last one, and costs no more than a split.

// afterDelete counts a deleted entry and takes a step if few are left.
func (t *table) afterDelete(s *shard) {
	if n := s.count.Add(-1); n <= s.shrinkAt.Load() {
		t.shrink(s)
	}
}

// shrink takes one step. It gives way when the shard is growing already.
func (t *table) shrink(s *shard) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.count.Load() > s.shrinkAt.Load() {
		return
	}
	segs := segments(s.directory())
	if len(segs) == 1 {
		t.halve(s, segs[0])
	} else {
		t.mergePair(s, segs)
	}
	t.spaceShrinks(s)
}

// spaceShrinks lets some deletes pass before the next step, in proportion to
// the work of one.
func (t *table) spaceShrinks(s *shard) {
	buckets := int64(lookup(s.directory(), 0).buckets())
	if at := s.shrinkAt.Load(); at >= 0 {
		s.shrinkAt.Store(min(at, max(0, s.count.Load()-buckets/16)))
	}
}

// halve moves the only segment of a shard into one of half the size.
func (t *table) halve(s *shard, seg segment) {
	rung := t.rung(seg.buckets())
	if rung == 0 {
		return
	}
	size := t.sizes[rung-1]
	if n := t.countEntries(seg); n <= t.nominalFull(size.buckets)/2 {
		t.freeze(seg)
		t.replace(s, seg, t.rebuild(size, 1, seg)[0])
		t.noteShrink(s, n)
	}
}

// mergePair looks from the cursor on for two segments that a split once
// parted, and merges them if they fill at most half of one.
func (t *table) mergePair(s *shard, segs []segment) {
	i, ok := nextPair(segs, int(s.cursor))
	if !ok {
		s.cursor = 0
		return
	}
	s.cursor = uint32(i + 2)
	left, right := segs[i], segs[i+1]
	size := t.sizes[len(t.sizes)-1]
	n := t.countEntries(left) + t.countEntries(right)
	if n > t.nominalFull(size.buckets)/2 {
		return
	}
	t.freeze(left)
	t.freeze(right)
	merged := t.rebuild(size, 1, left, right)[0].withDepth(left.depth() - 1)
	t.install(s, append(append(segs[:i:i], merged), segs[i+2:]...))
	s.cursor = uint32(i + 1)
	t.noteShrink(s, n)
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

func (t *table) noteShrink(s *shard, moved int) {
	s.shrunk++
	s.moved = max(s.moved, uint32(moved))
}

// clear empties one shard after the other.
func (t *table) clear() {
	for i := range t.shardCount() {
		t.clearShard(t.shardAt(i))
	}
}

// clearShard freezes all segments, so that no writer adds to what was
// counted, and starts over.
func (t *table) clearShard(s *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	segs := segments(s.directory())
	if segs[0].isEmptySegment() {
		return
	}
	n := 0
	for _, seg := range segs {
		t.freeze(seg)
		n += t.countEntries(seg)
	}
	t.install(s, []segment{emptySegment})
	s.count.Add(int64(-n))
}
