package rows

import "github.com/cleavekv/cleave/internal/plant"

// Whole says that there is nothing behind the log that the table does not know. Call it
// when there is nothing at all, before the first publication. Until rows have to go for
// lack of room, a key without a row is known to be absent.
func (t *Table) Whole() {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		s.whole = true
		s.mu.Unlock()
	}
}

// part is for the rows of a stripe that go without being replaced: from then on it does
// not know everything.
func (s *stripe) part(r row) {
	if !r.has(flagAbsent) && !plant.Bug("rows-whole-after-eviction") {
		s.whole = false
		s.parted++
	}
}
