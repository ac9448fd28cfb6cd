package rows

import "bytes"

// Drop forgets the unpinned rows with start <= key < end, and voids all tickets.
// A nil end is the end of all keys. It looks at every row. Held ones go too,
// and the table is not whole any more.
func (t *Table) Drop(start, end []byte) {
	for i := range t.stripes {
		t.stripes[i].drop(start, end)
	}
}

func (s *stripe) drop(start, end []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sequence {
		s.sequence[i]++ // a fill under way may carry what is being dropped
	}
	s.whole = false
	s.parted++
	s.pins.settle(s.table.applied.Load())
	for n := s.blocks.all[0].newer; n != 0; {
		newer := s.blocks.all[n].newer // n may go
		s.dropFrom(n, start, end)
		n = newer
	}
}

// dropFrom forgets the unpinned rows of a range in one block.
func (s *stripe) dropFrom(n uint32, start, end []byte) {
	b := &s.blocks.all[n]
	var out victims
	for at := 0; at < b.used; {
		r := row(b.data[at:])
		at += r.extent()
		if r.has(flagDead) || r.generation() > s.pins.settled {
			continue
		}
		k := r.key()
		if bytes.Compare(k, start) >= 0 && (end == nil || bytes.Compare(k, end) < 0) {
			if r.has(flagHeld) {
				s.letGo(k, r.extent())
			}
			out.add(s, s.blocks.placeOf(n, at-r.extent()), r)
		}
	}
	out.evict(s)
	if b.live == 0 && n != s.blocks.head {
		s.blocks.drop(n)
	}
}
