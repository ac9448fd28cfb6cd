package rowcache

import (
	"bytes"
	"hash/maphash"
)

const (
	// maxReclaimedBlocks is how many blocks one call may look at, so that no
	// writer pays for the whole stripe at once.
	maxReclaimedBlocks = 8
	// maxSparingBlocks is how many of them spare rows that were used.
	maxSparingBlocks = 4
)

// limitBytes is what the stripe may hold now. Pinned rows, with half of them again so that they
// need not be packed at every turn, take the place of cached ones, of which half of the share
// is left: pinned rows of half the table make it a quarter larger.
func (s *stripe) limitBytes() int {
	return max(s.shareBytes, s.shareBytes/2+s.unapplied.totalBytes+s.unapplied.totalBytes/2)
}

func (s *stripe) sizeBytes() int {
	return s.blocks.totalBytes + s.index.sizeBytes() + s.rejected.sizeBytes()
}

// isOverLimit reports whether the stripe must give something up. A spare block counts
// even before there is one: else every other head would be a new allocation.
func (s *stripe) isOverLimit() bool {
	bytes := s.sizeBytes()
	if s.blocks.spare == nil {
		bytes += s.blocks.blockBytes
	}
	return bytes > s.limitBytes()
}

// makeRoom sees to it that the head has room for so many bytes.
func (s *stripe) makeRoom(extent int) {
	if s.blocks.hasRoom(extent) {
		return
	}
	s.blocks.addHead()
	s.reclaimBlocks(maxReclaimedBlocks)
	if !s.blocks.hasRoom(extent) { // rows that were spared took it all
		s.blocks.addHead()
	}
}

// reclaimBlocks empties the oldest blocks until the stripe is within its limit, but
// looks at effort of them at most. It reports whether the limit was reached.
func (s *stripe) reclaimBlocks(effort int) bool {
	s.unapplied.discardApplied(s.cache.appliedGen.Load())
	for i := 0; i < effort && s.isOverLimit(); i++ {
		n := s.blocks.entries[0].newer
		if n == 0 {
			break
		}
		if n == s.blocks.head {
			// Other blocks are lone ones: the head is as old as they are.
			if s.blocks.entries[n].newer == 0 {
				break
			}
			s.blocks.unlinkBlock(n)
			s.blocks.linkNewest(n)
			continue
		}
		s.emptyBlock(n, i < maxSparingBlocks)
	}
	s.index.shrink()
	return !s.isOverLimit()
}

// shouldKeep reports whether a row must or should outlive its block.
func (s *stripe) shouldKeep(r row, keepUsed bool) bool {
	if r.generation() > s.unapplied.appliedGen {
		return true
	}
	if r.hasFlag(flagPinned) {
		return true
	}
	return keepUsed && r.hasFlag(flagUsed)
}

// emptyBlock forgets the rows of a block or moves them to the head. If most of it
// would move, the block is left where it is and becomes the newest instead:
// copying it would cost much and gain little.
func (s *stripe) emptyBlock(n uint32, keepUsed bool) {
	b := &s.blocks.entries[n]
	kept := 0
	var out evictionBatch
	for at := 0; at < b.usedBytes; {
		r := row(b.data[at:])
		extent := r.sizeBytes()
		switch {
		case r.hasFlag(flagDead):
		case s.shouldKeep(r, keepUsed):
			kept += extent
		default:
			out.add(s, s.blocks.placeOf(n, at), r)
		}
		at += extent
	}
	out.evictRows(s)
	switch {
	case kept == 0:
		s.blocks.dropBlock(n)
	case b.isDedicated || kept > s.blocks.blockBytes/4*3:
		s.renewBlock(n)
	default:
		s.compactBlock(n)
	}
}

func (s *stripe) wordAt(place uint32, r row) uint64 {
	return makeWord(uint32(maphash.Bytes(s.cache.seed, r.key())), place)
}

// evictionBatch are rows of one block that are about to be forgotten. They are
// taken out of the index together, so that the waits for its memory overlap.
type evictionBatch struct {
	words [prefetchGroup]uint64
	count int
}

// add marks an unpinned row as dead. Its block is left alone.
func (v *evictionBatch) add(s *stripe, place uint32, r row) {
	w := s.wordAt(place, r)
	s.index.prefetchSlot(uint32(w >> 32))
	v.words[v.count] = w
	v.count++
	c := s.metricsOf(r.key())
	c.removeRow(r.sizeBytes())
	c.Evictions++
	s.recordLoss(r)
	r.setFlagWord(r.flagWord() | flagDead)
	s.blocks.entries[s.blocks.numberOf(place)].liveBytes -= r.sizeBytes()
	if v.count == len(v.words) {
		v.evictRows(s)
	}
}

// evictRows takes the rows out of the index.
func (v *evictionBatch) evictRows(s *stripe) {
	for _, w := range v.words[:v.count] {
		s.index.remove(s.index.findSlot(w))
	}
	v.count = 0
}

// renewBlock makes a block the newest, with no row in it marked as used.
func (s *stripe) renewBlock(n uint32) {
	b := &s.blocks.entries[n]
	for at := 0; at < b.usedBytes; {
		r := row(b.data[at:])
		r.setFlagWord(r.flagWord() &^ flagUsed)
		at += r.sizeBytes()
	}
	s.blocks.unlinkBlock(n)
	s.blocks.linkNewest(n)
}

// compactBlock copies the living rows of a block to the head and gives the block up.
func (s *stripe) compactBlock(n uint32) {
	data, used := s.blocks.entries[n].data, s.blocks.entries[n].usedBytes
	for at := 0; at < used; {
		r := row(data[at:])
		extent := r.sizeBytes()
		if !r.hasFlag(flagDead) {
			if !s.blocks.hasRoom(extent) {
				s.blocks.addHead()
			}
			place, to := s.blocks.reserveRow(extent)
			copy(to, r[:extent])
			to.setFlagWord(to.flagWord() &^ flagUsed)
			slot := s.index.findSlot(s.wordAt(s.blocks.placeOf(n, at), r))
			s.index.words[slot] = s.index.words[slot]>>32<<32 | uint64(place)
		}
		at += extent
	}
	s.blocks.dropBlock(n)
}

// Trim brings the table within its limits without waiting for new rows. Call it
// after [Cache.SetApplied] where time does not matter.
func (t *Cache) Trim() {
	for i := range t.stripes {
		t.stripes[i].trimStripe()
	}
}

func (s *stripe) trimStripe() {
	s.mu.Lock()
	// Twice around, as the first round may only spare what was used. After each few
	// blocks the lock is released to those that wait for it.
	for left := 2 * len(s.blocks.entries); left > 0 && !s.reclaimBlocks(maxReclaimedBlocks); left -= maxReclaimedBlocks {
		s.mu.Unlock()
		s.mu.Lock()
	}
	s.mu.Unlock()
}

// rejectedKeys remembers keys that were turned away lately, by a piece of their hash: a key
// that is asked for once, in a sweep over many, is not worth the place of one that is
// asked for again and again. A newer key takes the mark of an older one, so that a key is
// remembered for about as many misses as there are marks.
type rejectedKeys struct{ marks []uint16 } // 0 is none

// recallOrAdd reports whether a key is remembered, and forgets it if so, else remembers it.
func (g *rejectedKeys) recallOrAdd(hash uint64, size int) bool {
	if len(g.marks) != size {
		g.marks = make([]uint16, size)
	}
	// Bits that neither the stripe, the lane nor the mark is made of, as far as there
	// are so many.
	at := &g.marks[hash>>35%uint64(size)]
	mark := uint16(hash) | 1
	if *at == mark {
		*at = 0
		return true
	}
	*at = mark
	return false
}

func (g *rejectedKeys) sizeBytes() int { return 2 * len(g.marks) }

// minSpareBlocks is how much of a stripe's room may be left for it to count as full: the
// head, the spare one, and one to fall short of the limit by.
const minSpareBlocks = 3

// hasRoom reports whether there is room for one more row.
func (s *stripe) hasRoom() bool {
	return s.sizeBytes()+minSpareBlocks*s.blocks.blockBytes <= s.limitBytes()
}

// admitRow reports whether a row that was read may be cached: there is room, or its key was
// asked for before, not long ago.
func (s *stripe) admitRow(hash uint64, key []byte) bool {
	if s.hasRoom() {
		return true
	}
	// As many marks as the index has words: up to four for each row.
	if s.rejected.recallOrAdd(hash, len(s.index.words)) {
		return true
	}
	s.metricsOf(key).Refused++
	if s.unapplied.discardApplied(s.cache.appliedGen.Load()); s.isOverLimit() {
		s.reclaimBlocks(maxReclaimedBlocks) // new rows would have done it
	}
	return false
}

// lockAndAdmit is admit, for callers without the lock. It drives nothing out for a ticket that is void.
func (s *stripe) lockAndAdmit(tk Ticket, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isFillable(tk, key) && s.admitRow(tk.hash, key)
}

// DropRange forgets the unpinned rows with start <= key < end, and voids all tickets.
// A nil end is the end of all keys. It looks at every row. Held ones go too,
// and the table is not whole any more.
func (t *Cache) DropRange(start, end []byte) {
	for i := range t.stripes {
		t.stripes[i].dropRange(start, end)
	}
}

func (s *stripe) dropRange(start, end []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropRangeLocked(start, end)
}

// dropRangeLocked is drop while s.mu is held.
func (s *stripe) dropRangeLocked(start, end []byte) {
	for i := range s.sequence {
		s.sequence[i]++ // a fill under way may carry what is being dropped
	}
	s.isComplete = false
	s.lostRows++
	s.unapplied.discardApplied(s.cache.appliedGen.Load())
	for n := s.blocks.entries[0].newer; n != 0; {
		newer := s.blocks.entries[n].newer // n may go
		s.dropRangeInBlock(n, start, end)
		n = newer
	}
}

// dropRangeInBlock forgets the unpinned rows of a range in one block.
func (s *stripe) dropRangeInBlock(n uint32, start, end []byte) {
	b := &s.blocks.entries[n]
	var out evictionBatch
	for at := 0; at < b.usedBytes; {
		r := row(b.data[at:])
		at += r.sizeBytes()
		if r.hasFlag(flagDead) || r.generation() > s.unapplied.appliedGen {
			continue
		}
		k := r.key()
		if bytes.Compare(k, start) >= 0 && (end == nil || bytes.Compare(k, end) < 0) {
			if r.hasFlag(flagPinned) {
				s.removePinned(k, r.sizeBytes())
			}
			out.add(s, s.blocks.placeOf(n, at-r.sizeBytes()), r)
		}
	}
	out.evictRows(s)
	if b.liveBytes == 0 && n != s.blocks.head {
		s.blocks.dropBlock(n)
	}
}

// DropDeletedRange is [Cache.DropRange] for a range of which the state behind the log has no key: what is known
// to be absent beyond it stays known. Pinned rows stay, as they do there.
func (t *Cache) DropDeletedRange(start, end []byte) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		whole, parted := s.isComplete, s.lostRows
		s.dropRangeLocked(start, end)
		s.isComplete, s.lostRows = whole, parted
		s.index.shrink()
		s.mu.Unlock()
	}
}

// ReclaimFree gives memory of the slab that holds no rows back to the operating system, and returns
// how much. The table takes it again when rows come, which then costs a fault for each page: call
// it when much was forgotten.
func (t *Cache) ReclaimFree() int64 { return t.slab.reclaimFreePages() }
