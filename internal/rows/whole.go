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

// Gathering is an attempt to make a table whole that was not from the beginning: who makes it
// reads everything behind the log once, as it was at some moment after Gather, and fills in
// what the table does not know. It belongs to one goroutine.
type Gathering struct {
	table *Table
	// parted is that of each stripe at the beginning, and missed tells which have not got
	// all of their rows.
	parted []uint64
	missed []bool
}

// Gather begins to make the table whole.
func (t *Table) Gather() *Gathering {
	g := &Gathering{table: t, parted: make([]uint64, len(t.stripes)), missed: make([]bool, len(t.stripes))}
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		g.parted[i] = s.parted
		s.mu.Unlock()
	}
	return g
}

// Gathered is what became of a row.
type Gathered uint8

const (
	// Known means: the table knows the key.
	Known Gathered = iota
	// Overtaken means: something was published meanwhile, perhaps for the key. Read it again.
	Overtaken
	// NoRoom means: the row would drive out others. The table does not get whole.
	NoRoom
)

// Fill caches what the state behind the log said about a key that exists, after the ticket was
// taken, if there is room.
func (g *Gathering) Fill(tk Ticket, key, value []byte) Gathered {
	if !tk.valid {
		return Known
	}
	i := tk.hash >> g.table.shift
	s := &g.table.stripes[i]
	if len(key) > maxKey || len(value) > maxValue || extentOf(len(key), len(value)) > s.share/4 {
		g.missed[i] = true
		return NoRoom
	}
	return g.add(s, tk, key, value)
}

func (g *Gathering) add(s *stripe, tk Ticket, key, value []byte) Gathered {
	lone := s.buildLone(0, 0, key, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, r := s.find(tk.hash, key); r != nil {
		return Known
	}
	switch {
	case tk.sequence != s.sequence[lane(tk.hash)]:
		return Overtaken
	case !s.roomy():
		g.missed[tk.hash>>g.table.shift] = true
		return NoRoom
	}
	s.insert(tk.hash, 0, 0, key, value, lone)
	return Known
}

// Miss says that a key was not filled in.
func (g *Gathering) Miss(key []byte) {
	_, h := g.table.stripe(key)
	g.missed[h>>g.table.shift] = true
}

// End says that everything was read, and reports whether the table is whole. Stripes that
// have lost nothing since the beginning are.
func (g *Gathering) End() (whole bool) {
	whole = true
	for i := range g.table.stripes {
		s := &g.table.stripes[i]
		s.mu.Lock()
		s.whole = s.whole || !g.missed[i] && (s.parted == g.parted[i] || plant.Bug("rows-gathered-in-part"))
		whole = whole && s.whole
		s.mu.Unlock()
	}
	return whole
}
