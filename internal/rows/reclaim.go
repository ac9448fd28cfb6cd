package rows

import (
	"hash/maphash"

	"github.com/cleavekv/cleave/internal/plant"
)

const (
	// reclaimEffort is how many blocks one call may look at, so that no
	// writer pays for the whole stripe at once.
	reclaimEffort = 8
	// politeEffort is how many of them spare rows that were used.
	politeEffort = 4
)

// limit is what the stripe may hold now: its share, what is pinned, and
// half of that again, so that pinned rows need not be packed at every turn.
func (s *stripe) limit() int { return s.share + s.pins.total + s.pins.total/2 }

func (s *stripe) bytes() int { return s.blocks.bytes + s.index.bytes() + s.ghosts.bytes() }

// over tells whether the stripe must give something up. A spare block counts
// even before there is one: else every other head would be a new allocation.
func (s *stripe) over() bool {
	bytes := s.bytes()
	if s.blocks.spare == nil {
		bytes += s.blocks.size
	}
	return bytes > s.limit()
}

// makeRoom sees to it that the head has room for so many bytes.
func (s *stripe) makeRoom(extent int) {
	if s.blocks.fits(extent) {
		return
	}
	s.blocks.addHead()
	s.reclaim(reclaimEffort)
	if !s.blocks.fits(extent) { // rows that were spared took it all
		s.blocks.addHead()
	}
}

// reclaim empties the oldest blocks until the stripe is within its limit, but
// looks at effort of them at most. It reports whether the limit was reached.
func (s *stripe) reclaim(effort int) bool {
	s.pins.settle(s.table.applied.Load())
	for i := 0; i < effort && s.over(); i++ {
		n := s.blocks.all[0].newer
		if n == 0 {
			break
		}
		if n == s.blocks.head {
			// Other blocks are lone ones: the head is as old as they are.
			if s.blocks.all[n].newer == 0 {
				break
			}
			s.blocks.detach(n)
			s.blocks.attach(n)
			continue
		}
		s.empty(n, i < politeEffort)
	}
	s.index.shrink()
	return !s.over()
}

// spared tells whether a row must or should outlive its block.
func (s *stripe) spared(r row, polite bool) bool {
	if r.generation() > s.pins.settled && !plant.Bug("rows-pinned-evicted") {
		return true
	}
	if r.has(flagHeld) && !plant.Bug("rows-held-evicted") {
		return true
	}
	return polite && r.has(flagUsed)
}

// empty forgets the rows of a block or moves them to the head. If most of it
// would move, the block is left where it is and becomes the newest instead:
// copying it would cost much and gain little.
func (s *stripe) empty(n uint32, polite bool) {
	b := &s.blocks.all[n]
	kept := 0
	var out victims
	for at := 0; at < b.used; {
		r := row(b.data[at:])
		extent := r.extent()
		switch {
		case r.has(flagDead):
		case s.spared(r, polite):
			kept += extent
		default:
			out.add(s, s.blocks.placeOf(n, at), r)
		}
		at += extent
	}
	out.evict(s)
	switch {
	case kept == 0:
		s.blocks.drop(n)
	case b.lone || kept > s.blocks.size/4*3:
		s.rest(n)
	default:
		s.move(n)
	}
}

func (s *stripe) wordAt(place uint32, r row) uint64 {
	return wordOf(uint32(maphash.Bytes(s.table.seed, r.key())), place)
}

// victims are rows of one block that are about to be forgotten. They are
// taken out of the index together, so that the waits for its memory overlap.
type victims struct {
	words [prefetchGroup]uint64
	count int
}

// add marks an unpinned row as dead. Its block is left alone.
func (v *victims) add(s *stripe, place uint32, r row) {
	w := s.wordAt(place, r)
	s.index.prefetch(uint32(w >> 32))
	v.words[v.count] = w
	v.count++
	c := s.class(r.key())
	c.went(r.extent())
	c.Evictions++
	s.part(r)
	r.setWord(r.word() | flagDead)
	s.blocks.all[s.blocks.numberOf(place)].live -= r.extent()
	if v.count == len(v.words) {
		v.evict(s)
	}
}

// evict takes the rows out of the index.
func (v *victims) evict(s *stripe) {
	for _, w := range v.words[:v.count] {
		s.index.remove(s.index.slot(w))
	}
	v.count = 0
}

// rest makes a block the newest, with no row in it marked as used.
func (s *stripe) rest(n uint32) {
	b := &s.blocks.all[n]
	for at := 0; at < b.used; {
		r := row(b.data[at:])
		r.setWord(r.word() &^ flagUsed)
		at += r.extent()
	}
	s.blocks.detach(n)
	s.blocks.attach(n)
}

// move copies the living rows of a block to the head and gives the block up.
func (s *stripe) move(n uint32) {
	data, used := s.blocks.all[n].data, s.blocks.all[n].used
	for at := 0; at < used; {
		r := row(data[at:])
		extent := r.extent()
		if !r.has(flagDead) {
			if !s.blocks.fits(extent) {
				s.blocks.addHead()
			}
			place, to := s.blocks.carve(extent)
			copy(to, r[:extent])
			to.setWord(to.word() &^ flagUsed)
			slot := s.index.slot(s.wordAt(s.blocks.placeOf(n, at), r))
			s.index.words[slot] = s.index.words[slot]>>32<<32 | uint64(place)
		}
		at += extent
	}
	s.blocks.drop(n)
}

// Trim brings the table within its limits without waiting for new rows. Call it
// after [Table.Applied] where time does not matter.
func (t *Table) Trim() {
	for i := range t.stripes {
		t.stripes[i].trim()
	}
}

func (s *stripe) trim() {
	s.mu.Lock()
	// Twice around, as the first round may only spare what was used. The lock
	// is given to whoever waits after each few blocks.
	for left := 2 * len(s.blocks.all); left > 0 && !s.reclaim(reclaimEffort); left -= reclaimEffort {
		s.mu.Unlock()
		s.mu.Lock()
	}
	s.mu.Unlock()
}
