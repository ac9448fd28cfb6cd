package rowcache

// MarkComplete records that there is nothing behind the log that the table does not know. Call it
// when there is nothing at all, before the first publication. Until rows have to go for
// lack of room, a key without a row is known to be absent.
func (t *Cache) MarkComplete() {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		s.isComplete = true
		s.mu.Unlock()
	}
}

// recordLoss is for the rows of a stripe that go without being replaced: from then on it does
// not know everything.
func (s *stripe) recordLoss(r row) {
	if !r.hasFlag(flagAbsent) {
		s.isComplete = false
		s.lostRows++
	}
}

// Preload is an attempt to make a table whole that was not from the beginning: its caller
// reads everything behind the log once, as it was at some moment after Gather, and fills in
// what the table does not know. It belongs to one goroutine.
type Preload struct {
	cache *Cache
	// lostBefore is that of each stripe at the beginning, and missed marks those that have not got
	// all of their rows.
	lostBefore []uint64
	incomplete []bool
}

// BeginPreload begins to make the table whole.
func (t *Cache) BeginPreload() *Preload {
	g := &Preload{cache: t, lostBefore: make([]uint64, len(t.stripes)), incomplete: make([]bool, len(t.stripes))}
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		g.lostBefore[i] = s.lostRows
		s.mu.Unlock()
	}
	return g
}

// PreloadResult is what became of a row.
type PreloadResult uint8

const (
	// Known means: the table knows the key.
	Known PreloadResult = iota
	// Superseded means: something was published meanwhile, perhaps for the key. Read it again.
	Superseded
	// NoRoom means: the row would drive out others. The table does not get whole.
	NoRoom
)

// Fill caches what the state behind the log had for a key that exists, after the ticket was
// taken, if there is room.
func (g *Preload) Fill(tk Ticket, key, value []byte) PreloadResult {
	if !tk.valid {
		return Known
	}
	i := tk.hash >> g.cache.shift
	s := &g.cache.stripes[i]
	if len(key) > maxKeyBytes || len(value) > maxValueBytes || rowBytes(len(key), len(value)) > s.shareBytes/4 {
		g.incomplete[i] = true
		return NoRoom
	}
	return g.insertRow(s, tk, key, value)
}

func (g *Preload) insertRow(s *stripe, tk Ticket, key, value []byte) PreloadResult {
	lone := s.buildDedicatedRow(0, 0, key, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, r := s.find(tk.hash, key); r != nil {
		return Known
	}
	switch {
	case tk.sequence != s.sequence[findLane(tk.hash)]:
		return Superseded
	case !s.hasRoom():
		g.incomplete[tk.hash>>g.cache.shift] = true
		return NoRoom
	}
	s.insertRow(tk.hash, 0, 0, key, value, lone)
	return Known
}

// MarkIncomplete records that a key was not filled in.
func (g *Preload) MarkIncomplete(key []byte) {
	_, h := g.cache.findStripe(key)
	g.incomplete[h>>g.cache.shift] = true
}

// End records that everything was read, and reports whether the table is whole. Stripes that
// have lost nothing since the beginning are.
func (g *Preload) End() (whole bool) {
	whole = true
	for i := range g.cache.stripes {
		s := &g.cache.stripes[i]
		s.mu.Lock()
		s.isComplete = s.isComplete || !g.incomplete[i] && s.lostRows == g.lostBefore[i]
		whole = whole && s.isComplete
		s.mu.Unlock()
	}
	return whole
}
