package rowcache

import (
	"unsafe"
)

// index finds a row's place by its key's hash: open addressing with linear
// probing over words of 32 bits of hash above 32 bits of place. The hash in the
// word distinguishes keys without touching their rows, and says where a word
// belongs, so that growing and removing touch no row either.
// Invariant: between a word's home and the word there is no empty slot.
type index struct {
	words []uint64 // 0 is empty
	count int
}

const (
	minIndexWords = 64
	// maxIndexBytesPerRow is the most index that one row needs, with a quarter of the
	// words in use.
	maxIndexBytesPerRow = 32
	// indexGrowth is the part by which the index grows: so it is three fifths to three quarters full,
	// while to grow moves each word five times at most.
	indexGrowth = 4
)

func makeWord(hash uint32, place uint32) uint64 { return uint64(hash)<<32 | uint64(place) }

func (x *index) resize(size int) {
	old := x.words
	x.words = make([]uint64, size)
	for _, w := range old {
		if w != 0 {
			x.putWord(w)
		}
	}
}

// homeSlot spreads the hashes evenly over the slots, in their order.
func (x *index) homeSlot(hash uint32) int { return int(uint64(hash) * uint64(len(x.words)) >> 32) }

// nextSlot returns the slot behind one; the first is behind the last.
func (x *index) nextSlot(i int) int {
	if i++; i == len(x.words) {
		return 0
	}
	return i
}

// distance returns how many slots behind from the slot to is.
func (x *index) distance(from, to int) int {
	if to < from {
		to += len(x.words)
	}
	return to - from
}

// putWord puts a word into the first empty slot from its home on.
func (x *index) putWord(w uint64) {
	for i := x.homeSlot(uint32(w >> 32)); ; i = x.nextSlot(i) {
		if x.words[i] == 0 {
			x.words[i] = w
			return
		}
	}
}

// insert adds a word that is not there yet. Beyond three quarters the
// probes for absent keys get long, so the index grows.
func (x *index) insert(w uint64) {
	if (x.count+1)*4 > len(x.words)*3 {
		x.resize(len(x.words) + len(x.words)/indexGrowth)
	}
	x.count++
	x.putWord(w)
}

// findSlot returns where the exact word lies. It is there.
func (x *index) findSlot(w uint64) int {
	i := x.homeSlot(uint32(w >> 32))
	for x.words[i] != w {
		i = x.nextSlot(i)
	}
	return i
}

// remove empties a slot and moves later words of the same chain back, so that
// no marker is needed for what was removed.
func (x *index) remove(i int) {
	for j := x.nextSlot(i); x.words[j] != 0; j = x.nextSlot(j) {
		home := x.homeSlot(uint32(x.words[j] >> 32))
		// The word may move back to i only if i is not before its home.
		if x.distance(home, j) >= x.distance(i, j) {
			x.words[i] = x.words[j]
			i = j
		}
	}
	x.words[i] = 0
	x.count--
}

// shrink gives memory back after most rows have gone: below a quarter, which
// leaves room to grow again without a resize at every turn.
func (x *index) shrink() {
	size := len(x.words)
	for size > minIndexWords && x.count*4 < size {
		size /= 2
	}
	if size < len(x.words) {
		x.resize(size)
	}
}

func (x *index) sizeBytes() int { return len(x.words) * 8 }

// MaxPrefetchKeys is how many rows are best asked for at once: about as many misses as a
// processor keeps under way.
const MaxPrefetchKeys = prefetchGroup

// Hint is what is known of a key's place in the table.
type Hint uint64

// PrefetchIndex begins to fetch the index entries of key, and never waits. A reader that
// looks at one row after the other waits for memory each time; a reader that prefetches the index of several,
// then their rows, and then reads them, waits once. It returns no row and changes nothing.
func (t *Cache) PrefetchIndex(key []byte) Hint {
	s, h := t.findStripe(key)
	s.mu.Lock()
	s.index.prefetchSlot(uint32(h))
	s.mu.Unlock()
	return Hint(h)
}

// PrefetchRow begins to fetch the row of a key that was sought.
func (t *Cache) PrefetchRow(h Hint) {
	s := &t.stripes[h>>t.shift]
	s.mu.Lock()
	s.prefetchByHash(uint32(h))
	s.mu.Unlock()
}

// LookupSize reports whether the table knows the row of key, or that there is none, and how long its
// value is.
func (t *Cache) LookupSize(key []byte) (size int, known bool) {
	s, h := t.findStripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, r := s.find(h, key)
	if r == nil {
		return 0, s.isComplete
	}
	return r.valueLen(), true
}

// prefetchByHash begins to fetch the first row whose key may be the one with a hash.
func (s *stripe) prefetchByHash(hash uint32) {
	x := &s.index
	for i := x.homeSlot(hash); x.words[i] != 0; i = x.nextSlot(i) {
		if w := x.words[i]; uint32(w>>32) == hash {
			prefetchRow(&s.blocks.rowAt(uint32(w))[0])
			return
		}
	}
}

// prefetchGroup is how many keys are asked for at once: about as many misses
// as a core keeps under way.
const prefetchGroup = 16

func (x *index) prefetchSlot(hash uint32) {
	prefetch((*byte)(unsafe.Pointer(&x.words[x.homeSlot(hash)])))
}
