package rows

// TouchMost is how many rows are best asked for at once: about as many misses as a
// processor keeps under way.
const TouchMost = prefetchGroup

// Hint is what is known of a key's place in the table.
type Hint uint64

// Seek begins to fetch what says where the row of key lies, and waits for nothing. Who
// looks at one row after the other waits for memory each time; who seeks some of them,
// nears them, and looks then, waits once. It tells nothing and changes nothing.
func (t *Table) Seek(key []byte) Hint {
	s, h := t.stripe(key)
	s.mu.Lock()
	s.index.prefetch(uint32(h))
	s.mu.Unlock()
	return Hint(h)
}

// Near begins to fetch the row of a key that was sought.
func (t *Table) Near(h Hint) {
	s := &t.stripes[h>>t.shift]
	s.mu.Lock()
	s.near(uint32(h))
	s.mu.Unlock()
}

// Knows tells whether the table knows the row of key, or that there is none, and how long its
// value is.
func (t *Table) Knows(key []byte) (size int, known bool) {
	s, h := t.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, r := s.find(h, key)
	if r == nil {
		return 0, s.whole
	}
	return r.valueLen(), true
}

// near begins to fetch the first row whose key may be the one with a hash.
func (s *stripe) near(hash uint32) {
	x := &s.index
	mask := len(x.words) - 1
	for i := x.home(hash); x.words[i] != 0; i = (i + 1) & mask {
		if w := x.words[i]; uint32(w>>32) == hash {
			prefetchRow(&s.blocks.row(uint32(w))[0])
			return
		}
	}
}
