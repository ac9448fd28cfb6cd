package rows

// Metrics is a snapshot of a table, stripe by stripe, not of one moment.
type Metrics struct {
	Rows        int   // present and absent ones
	Bytes       int64 // of all blocks and indexes
	PinnedBytes int64 // of rows that are not yet applied, 32 for the index included
	Hits        uint64
	Misses      uint64
	Evictions   uint64 // rows forgotten to make room or by Drop
}

// Metrics adds up the stripes.
func (t *Table) Metrics() Metrics {
	var m Metrics
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		s.pins.settle(t.applied.Load())
		m.Rows += s.index.count
		m.Bytes += int64(s.bytes())
		m.PinnedBytes += int64(s.pins.total)
		m.Hits += s.hits
		m.Misses += s.misses
		m.Evictions += s.evictions
		s.mu.Unlock()
	}
	return m
}
