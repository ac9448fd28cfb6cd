package rows

import (
	"bytes"
	"sync"
	"unsafe"

	"github.com/cleavekv/cleave/internal/plant"
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
	mu       sync.Mutex
	index    index
	counts   counts
	sequence [lanes]uint64 // publications, by lane
	batch    [lanes]uint64 // of the last publication, by lane
	blocks   blocks
	pins     pins
	table    *Table
	share    int // bytes for unpinned rows
	largest  int // extent of the largest row in an ordinary block
	held     int // weight of rows that are held
	ghosts   ghosts
	// whole tells that every key that exists has a row, parted counts the rows that went
	// though their keys exist.
	whole  bool
	parted uint64
}

func (s *stripe) init(share int, t *Table) {
	s.table, s.share = t, share
	size := blockSize(share)
	s.largest = size / rowsPerBlock
	s.blocks.init(size, &t.slab)
	s.index.resize(leastWords)
}

// lane of a hash: bits that neither the stripe nor the index starts with.
func lane(hash uint64) int { return int(hash >> 32 % lanes) }

// find returns the slot and the row of key.
func (s *stripe) find(hash uint64, key []byte) (slot int, place uint32, r row) {
	x := &s.index
	mask := len(x.words) - 1
	want := uint32(hash)
	for i := x.home(want); ; i = (i + 1) & mask {
		w := x.words[i]
		if w == 0 {
			return 0, 0, nil
		}
		if uint32(w>>32) == want {
			place = uint32(w)
			r = s.blocks.row(place)
			prefetchRow(&r[0]) // its lines together, not one after the other
			if bytes.Equal(r.key(), key) {
				return i, place, r
			}
		}
	}
}

// hidden is what get needs of a row that may be of a batch not yet revealed: time.
const hidden = -1

// get appends the value to dst. If dst has no room it says how much is needed;
// a value in a block of its own it hands out to be copied without the lock.
func (s *stripe) get(hash uint64, key, dst []byte) (out []byte, state State, lone []byte, need int) {
	class := s.table.classOf(key)
	s.mu.Lock()
	_, place, r := s.find(hash, key)
	if r == nil {
		// It is not of a batch either: rows of one stay until they are applied.
		if s.whole {
			state = Absent
			s.counts.of(class).Hits++
		} // else the state behind the log has to be asked: see ticket
		s.mu.Unlock()
		return dst, state, nil, 0
	}
	if s.batch[lane(hash)] > s.table.revealed.Load() && !plant.Bug("rows-batch-torn") {
		s.mu.Unlock()
		return dst, Unknown, nil, hidden
	}
	v := r.value()
	w := r.word()
	switch {
	case w&flagAbsent != 0:
		state = Absent
	case s.blocks.isLone(place):
		state, lone = Present, v
	case len(v) > cap(dst)-len(dst):
		s.mu.Unlock()
		return dst, Unknown, nil, len(v)
	default:
		state, dst = Present, append(dst, v...)
	}
	if w&flagUsed == 0 {
		r.setWord(w | flagUsed)
	}
	s.counts.of(class).Hits++
	s.mu.Unlock()
	return dst, state, lone, 0
}

// buildLone returns the row in memory of its own if it is too large for an
// ordinary block, else nil.
func (s *stripe) buildLone(gen uint64, flags uint32, key, value []byte) row {
	extent := extentOf(len(key), len(value))
	if extent <= s.largest {
		return nil
	}
	r := make(row, extent)
	r.write(gen, flags, key, value)
	return r
}

func (s *stripe) publish(hash, gen uint64, flags uint32, key, value []byte, lone row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence[lane(hash)]++
	s.batch[lane(hash)] = s.table.batch.Load()
	gen = s.pins.newest(gen)
	slot, place, old := s.find(hash, key)
	if old == nil {
		s.insert(hash, gen, flags, key, value, lone)
		return
	}
	if old.has(flagHeld) && plant.Bug("rows-pin-keeps-old") {
		return
	}
	extent := old.extent()
	s.pins.remove(old.generation(), weight(extent))
	flags |= flagUsed | s.passHold(old, extentOf(len(key), len(value)))
	inPlace := lone == nil && !s.blocks.isLone(place) && extentOf(len(key), len(value)) <= extent
	if inPlace {
		extent, left := old.overwrite(gen, flags, value)
		s.pins.add(gen, weight(extent))
		if left > 0 {
			s.class(key).RowBytes -= int64(left)
			s.blocks.bury(place, left)
		}
		return
	}
	s.forget(slot, place, old)
	s.insert(hash, gen, flags, key, value, lone)
}

// insert adds a row whose key is not in the index.
func (s *stripe) insert(hash, gen uint64, flags uint32, key, value []byte, lone row) {
	extent := extentOf(len(key), len(value))
	s.pins.add(gen, weight(extent))
	s.class(key).came(extent)
	if lone != nil {
		lone.setGeneration(gen)
		lone.setWord(uint32(len(key)) | flags)
		place := s.blocks.addLone(lone)
		s.index.insert(wordOf(uint32(hash), place))
		s.reclaim(reclaimEffort)
		return
	}
	s.makeRoom(extent)
	place, r := s.blocks.carve(extent)
	r.write(gen, flags, key, value)
	s.index.insert(wordOf(uint32(hash), place))
}

// forget takes a row out of the index. Its pins are the caller's business.
func (s *stripe) forget(slot int, place uint32, r row) {
	s.index.remove(slot)
	s.class(r.key()).went(r.extent())
	r.setWord(r.word() | flagDead)
	s.blocks.bury(place, r.extent())
}

func (s *stripe) ticket(hash uint64, key []byte) Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	// If the key is unknown here, all its publications have been applied: what
	// the state says from now on is the newest, until the counter moves.
	_, _, r := s.find(hash, key)
	if r == nil {
		s.counts.of(s.table.classOf(key)).Misses++
	}
	return Ticket{hash: hash, sequence: s.sequence[lane(hash)], valid: r == nil}
}

// purpose is why a row that was read is added.
type purpose uint8

const (
	ifAsked purpose = iota // if it is admitted
	wanted                 // somebody needs it next
	toHold
)

// fits tells whether a ticket is good still: nothing has happened to the key, and nobody else has
// filled it in. s.mu is held.
func (s *stripe) fits(tk Ticket, key []byte) bool {
	if tk.sequence != s.sequence[lane(tk.hash)] && !plant.Bug("rows-stale-fill") {
		return false
	}
	_, _, r := s.find(tk.hash, key)
	return r == nil
}

// fill adds what the state behind the log has. A row that is wanted or to be held needs
// no other admission.
func (s *stripe) fill(tk Ticket, flags uint32, key, value []byte, why purpose) (filled bool, err error) {
	// A large row is built before the lock is taken, but not for nothing.
	large := extentOf(len(key), len(value)) > s.largest
	if large && why == ifAsked && !s.asked(tk, key) {
		return false, nil
	}
	lone := s.buildLone(0, flags, key, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fits(tk, key) {
		return false, nil
	}
	switch {
	case why == toHold:
		if err := s.hold(key, extentOf(len(key), len(value))); err != nil {
			return false, err
		}
		flags |= flagHeld
	case why == ifAsked && !large && !s.admit(tk.hash, key):
		return false, nil
	}
	s.insert(tk.hash, 0, flags, key, value, lone)
	return true, nil
}
