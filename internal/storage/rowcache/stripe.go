package rowcache

import (
	"bytes"
	"slices"
	"sync"
	"unsafe"
)

// lanes is how many publication counters a stripe has. A key's publications
// move one of them: the more there are, the fewer tickets are voided by a
// publication of some other key. Eight fill one cache line.
const lanes = 8

// stripe is the part of a table behind one lock. It is padded so that two
// neighbours never share a cache line, nor the pair of lines that is fetched at once.
type stripe struct {
	stripeFields
	_ [(128 - unsafe.Sizeof(stripeFields{})%128) % 128]byte
}

type stripeFields struct {
	mu           sync.Mutex
	index        index
	counts       classCounts
	sequence     [lanes]uint64 // publications, by lane
	lastBatch    [lanes]uint64 // of the last publication, by lane
	blocks       blockList
	unapplied    unappliedBytes
	cache        *Cache
	shareBytes   int // bytes for unpinned rows
	maxSharedRow int // extent of the largest row in an ordinary block
	pinnedBytes  int // weight of rows that are held
	rejected     rejectedKeys
	// isComplete reports whether every key that exists has a row, parted counts the rows that went
	// though their keys exist.
	isComplete bool
	lostRows   uint64
}

func (s *stripe) initStripe(share int, t *Cache) {
	s.cache, s.shareBytes = t, share
	size := chooseBlockBytes(share)
	s.maxSharedRow = size / minRowsPerBlock
	s.blocks.init(size, &t.slab)
	s.index.resize(minIndexWords)
}

// close forgets all rows. Those that come later are in memory of the heap.
func (s *stripe) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = blockList{}
	s.blocks.init(chooseBlockBytes(s.shareBytes), new(slab))
	s.index = index{}
	s.index.resize(minIndexWords)
	s.counts, s.unapplied, s.rejected, s.pinnedBytes = classCounts{}, unappliedBytes{appliedGen: s.unapplied.appliedGen}, rejectedKeys{}, 0
	for i := range s.sequence {
		s.sequence[i]++ // a fill under way must not think that its key is absent
	}
	s.isComplete = false
	s.lostRows++
}

// findLane of a hash: bits that neither the stripe nor the index starts with.
func findLane(hash uint64) int { return int(hash >> 32 % lanes) }

// find returns the slot and the row of key.
func (s *stripe) find(hash uint64, key []byte) (slot int, place uint32, r row) {
	x := &s.index
	want := uint32(hash)
	for i := x.homeSlot(want); ; i = x.nextSlot(i) {
		w := x.words[i]
		if w == 0 {
			return 0, 0, nil
		}
		if uint32(w>>32) == want {
			place = uint32(w)
			r = s.blocks.rowAt(place)
			prefetchRow(&r[0]) // its lines together, not one after the other
			if bytes.Equal(r.key(), key) {
				return i, place, r
			}
		}
	}
}

// notRevealed is what get needs of a row that may be of a batch not yet revealed: time.
const notRevealed = -1

// get appends the value to dst. If dst has no room it says how much is needed;
// a value in a block of its own it hands out to be copied without the lock.
func (s *stripe) get(hash uint64, key, dst []byte) (out []byte, state State, lone []byte, need int) {
	class := s.cache.classOf(key)
	s.mu.Lock()
	_, place, r := s.find(hash, key)
	if r == nil {
		// It is not of a batch either: rows of one stay until they are applied.
		if s.isComplete {
			state = Absent
			s.counts.getOrAdd(class).Hits++
		} // else the state behind the log has to be asked: see ticket
		s.mu.Unlock()
		return dst, state, nil, 0
	}
	if s.lastBatch[findLane(hash)] > s.cache.revealedBatch.Load() {
		s.mu.Unlock()
		return dst, Unknown, nil, notRevealed
	}
	v := r.value()
	w := r.flagWord()
	switch {
	case w&flagAbsent != 0:
		state = Absent
	case s.blocks.isDedicated(place):
		state, lone = Present, v
	case len(v) > cap(dst)-len(dst):
		s.mu.Unlock()
		return dst, Unknown, nil, len(v)
	default:
		state, dst = Present, append(dst, v...)
	}
	if w&flagUsed == 0 {
		r.setFlagWord(w | flagUsed)
	}
	s.counts.getOrAdd(class).Hits++
	s.mu.Unlock()
	return dst, state, lone, 0
}

// buildDedicatedRow returns the row in memory of its own if it is too large for an
// ordinary block, else nil.
func (s *stripe) buildDedicatedRow(gen uint64, flags uint32, key, value []byte) row {
	extent := rowBytes(len(key), len(value))
	if extent <= s.maxSharedRow {
		return nil
	}
	r := make(row, extent)
	r.encode(gen, flags, key, value)
	return r
}

func (s *stripe) publishRow(hash, gen uint64, flags uint32, key, value []byte, lone row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence[findLane(hash)]++
	s.lastBatch[findLane(hash)] = s.cache.currentBatch.Load()
	gen = s.unapplied.clampGeneration(gen)
	slot, place, old := s.find(hash, key)
	if old == nil {
		s.insertRow(hash, gen, flags, key, value, lone)
		return
	}
	extent := old.sizeBytes()
	s.unapplied.remove(old.generation(), weightOfRow(extent))
	flags |= flagUsed | s.movePin(old, rowBytes(len(key), len(value)))
	inPlace := lone == nil && !s.blocks.isDedicated(place) && rowBytes(len(key), len(value)) <= extent
	if inPlace {
		extent, left := old.replaceValue(gen, flags, value)
		s.unapplied.add(gen, weightOfRow(extent))
		if left > 0 {
			s.metricsOf(key).RowBytes -= int64(left)
			s.blocks.markDead(place, left)
		}
		return
	}
	s.removeRow(slot, place, old)
	s.insertRow(hash, gen, flags, key, value, lone)
}

// insertRow adds a row whose key is not in the index.
func (s *stripe) insertRow(hash, gen uint64, flags uint32, key, value []byte, lone row) {
	extent := rowBytes(len(key), len(value))
	s.unapplied.add(gen, weightOfRow(extent))
	s.metricsOf(key).addRow(extent)
	if lone != nil {
		lone.setGeneration(gen)
		lone.setFlagWord(uint32(len(key)) | flags)
		place := s.blocks.addDedicated(lone)
		s.index.insert(makeWord(uint32(hash), place))
		s.reclaimBlocks(maxReclaimedBlocks)
		return
	}
	s.makeRoom(extent)
	place, r := s.blocks.reserveRow(extent)
	r.encode(gen, flags, key, value)
	s.index.insert(makeWord(uint32(hash), place))
}

// removeRow takes a row out of the index. Its pins are the caller's business.
func (s *stripe) removeRow(slot int, place uint32, r row) {
	s.index.remove(slot)
	s.metricsOf(r.key()).removeRow(r.sizeBytes())
	r.setFlagWord(r.flagWord() | flagDead)
	s.blocks.markDead(place, r.sizeBytes())
}

func (s *stripe) newTicket(hash uint64, key []byte) Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	// If the key is unknown here, all its publications have been applied: what
	// the state says from now on is the newest, until the counter moves.
	_, _, r := s.find(hash, key)
	if r == nil {
		s.counts.getOrAdd(s.cache.classOf(key)).Misses++
	}
	return Ticket{hash: hash, sequence: s.sequence[findLane(hash)], valid: r == nil}
}

// fillPurpose is why a row that was read is added.
type fillPurpose uint8

const (
	fillIfAdmitted fillPurpose = iota // if it is admitted
	fillNeeded                        // it is needed next
	fillPinned
)

// isFillable reports whether a ticket is still valid: nothing has happened to the key, and no other
// caller has filled it in. s.mu is held.
func (s *stripe) isFillable(tk Ticket, key []byte) bool {
	if tk.sequence != s.sequence[findLane(tk.hash)] {
		return false
	}
	_, _, r := s.find(tk.hash, key)
	return r == nil
}

// fillRow adds what the state behind the log has. A row that is wanted or to be held needs
// no other admission.
func (s *stripe) fillRow(tk Ticket, flags uint32, key, value []byte, why fillPurpose) (filled bool, err error) {
	// A large row is built before the lock is taken, but not for nothing.
	large := rowBytes(len(key), len(value)) > s.maxSharedRow
	if large && why == fillIfAdmitted && !s.lockAndAdmit(tk, key) {
		return false, nil
	}
	lone := s.buildDedicatedRow(0, flags, key, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isFillable(tk, key) {
		return false, nil
	}
	switch {
	case why == fillPinned:
		if err := s.addPinned(key, rowBytes(len(key), len(value))); err != nil {
			return false, err
		}
		flags |= flagPinned
	case why == fillIfAdmitted && !large && !s.admitRow(tk.hash, key):
		return false, nil
	}
	s.insertRow(tk.hash, 0, flags, key, value, lone)
	return true, nil
}

// unappliedBytes counts the bytes of pinned rows by generation, so that a stripe knows
// how much it may hold beyond its share. Generations are sorted; those at or
// below settled have been applied and are forgotten.
// Invariant: total is the sum of byGeneration.
type unappliedBytes struct {
	byGeneration []generationBytes
	totalBytes   int
	appliedGen   uint64
}

type generationBytes struct {
	generation uint64
	bytes      int
}

// weightOfRow is what a pinned row counts: its memory and its part of the index.
func weightOfRow(extent int) int { return extent + maxIndexBytesPerRow }

// clampGeneration returns the generation under which a row published with g is counted:
// never less than one seen before, so that the list stays sorted. A row may so be
// pinned longer than asked, never shorter.
func (p *unappliedBytes) clampGeneration(g uint64) uint64 {
	if n := len(p.byGeneration); n > 0 {
		return max(g, p.byGeneration[n-1].generation)
	}
	return g
}

func (p *unappliedBytes) add(generation uint64, bytes int) {
	if generation <= p.appliedGen {
		return
	}
	p.totalBytes += bytes
	if n := len(p.byGeneration); n > 0 && p.byGeneration[n-1].generation == generation {
		p.byGeneration[n-1].bytes += bytes
		return
	}
	p.byGeneration = append(p.byGeneration, generationBytes{generation, bytes})
}

// remove takes back what add counted for a row that is replaced.
func (p *unappliedBytes) remove(generation uint64, bytes int) {
	if generation <= p.appliedGen {
		return
	}
	i := len(p.byGeneration) - 1
	if p.byGeneration[i].generation != generation { // seldom: most rows are replaced young
		i, _ = slices.BinarySearchFunc(p.byGeneration, generation, func(p generationBytes, g uint64) int {
			if p.generation < g {
				return -1
			}
			return int(min(p.generation-g, 1))
		})
	}
	p.byGeneration[i].bytes -= bytes
	p.totalBytes -= bytes
}

// discardApplied forgets what has been applied.
func (p *unappliedBytes) discardApplied(applied uint64) {
	if applied <= p.appliedGen {
		return
	}
	p.appliedGen = applied
	n := 0
	for n < len(p.byGeneration) && p.byGeneration[n].generation <= applied {
		p.totalBytes -= p.byGeneration[n].bytes
		n++
	}
	p.byGeneration = slices.Delete(p.byGeneration, 0, n)
}
