package rows

import "github.com/cleavekv/cleave/internal/plant"

// ghosts remembers keys that were turned away lately, by a piece of their hash: a key
// that is asked for once, in a sweep over many, is not worth the place of one that is
// asked for again and again. A newer key takes the mark of an older one, so that a key is
// remembered for about as many misses as there are marks.
type ghosts struct{ marks []uint16 } // 0 is none

// recall tells whether a key is remembered, and forgets it if so, else remembers it.
func (g *ghosts) recall(hash uint64, size int) bool {
	if len(g.marks) != size {
		g.marks = make([]uint16, size)
	}
	// Bits that neither the stripe, the lane nor the mark is made of, as far as there
	// are so many.
	at := &g.marks[hash>>35&uint64(size-1)]
	mark := uint16(hash) | 1
	if *at == mark {
		*at = 0
		return true
	}
	*at = mark
	return false
}

func (g *ghosts) bytes() int { return 2 * len(g.marks) }

// spareBlocks is how much of a stripe's room may be left for it to count as full: the
// head, the spare one, and one to fall short of the limit by.
const spareBlocks = 3

// roomy tells whether there is room for one more row.
func (s *stripe) roomy() bool { return s.bytes()+spareBlocks*s.blocks.size <= s.limit() }

// admit tells whether a row that was read may be cached: there is room, or its key was
// asked for before, not long ago.
func (s *stripe) admit(hash uint64, key []byte) bool {
	if s.roomy() || plant.Bug("rows-admit-all") {
		return true
	}
	// As many marks as the index has words: up to four for each row.
	if s.ghosts.recall(hash, len(s.index.words)) {
		return true
	}
	s.class(key).Refused++
	if s.pins.settle(s.table.applied.Load()); s.over() {
		s.reclaim(reclaimEffort) // new rows would have done it
	}
	return false
}

// asked is admit, for those who do not hold the lock. It drives nothing out for a ticket that is void.
func (s *stripe) asked(tk Ticket, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fits(tk, key) && s.admit(tk.hash, key)
}
