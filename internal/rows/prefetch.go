package rows

import "unsafe"

// prefetchGroup is how many keys are asked for at once: about as many misses
// as a core keeps under way.
const prefetchGroup = 16

// Prefetch asks the processor for the memory of these keys. In a table larger
// than the caches a lookup waits for memory twice, for the index and for the row;
// who is about to call [Table.Get] or [Table.Publish] for several keys lets
// those waits overlap. It changes nothing.
func (t *Table) Prefetch(keys [][]byte) {
	var hashes [prefetchGroup]uint64
	for len(keys) > 0 {
		group := keys[:min(len(keys), prefetchGroup)]
		keys = keys[len(group):]
		for i, key := range group {
			var s *stripe
			s, hashes[i] = t.stripe(key)
			s.prefetchIndex(hashes[i])
		}
		for i := range group {
			t.stripes[hashes[i]>>t.shift].prefetchRow(hashes[i])
		}
	}
}

func (x *index) prefetch(hash uint32) {
	prefetch((*byte)(unsafe.Pointer(&x.words[x.home(hash)])))
}

func (s *stripe) prefetchIndex(hash uint64) {
	s.mu.Lock()
	s.index.prefetch(uint32(hash))
	s.mu.Unlock()
}

// prefetchRow looks for the row by its hash alone.
func (s *stripe) prefetchRow(hash uint64) {
	s.mu.Lock()
	x := &s.index
	mask := len(x.words) - 1
	for i := x.home(uint32(hash)); x.words[i] != 0; i = (i + 1) & mask {
		if w := x.words[i]; uint32(w>>32) == uint32(hash) {
			prefetchRow(&s.blocks.row(uint32(w))[0])
			break
		}
	}
	s.mu.Unlock()
}
