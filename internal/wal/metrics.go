package wal

// Metrics is a snapshot of a log's figures. Counters count since Open.
type Metrics struct {
	Entries, Frames uint64 // committed
	WrittenBytes    uint64 // with headers and padding, but what a fence leaves free
	Syncs           uint64 // durable writes and syncs
	Replayed        uint64 // entries
	ChunkWaits      uint64 // Append found all chunks in use
	SegmentWaits    uint64 // Append found no segment ready

	// Segments by state; see DESIGN.md.
	Ready, Needed, Retained, Spare int
	LogBytes                       int64 // of needed and retained segments
	ChunksInUse                    int
	DiskFull                       bool
	Committed, Durable, Recycled   Position
}

// Metrics returns the log's figures.
func (l *Log) Metrics() Metrics {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.count
	for _, s := range l.segments {
		m.LogBytes += int64(s.bytes)
		if s.sealed && s.end <= l.applied {
			m.Retained++
		} else {
			m.Needed++
		}
	}
	m.Ready, m.Spare, m.ChunksInUse, m.DiskFull = len(l.ready), len(l.spare), l.chunks, l.full
	m.Committed, m.Durable, m.Recycled = l.Committed(), l.durable, l.applied
	return m
}
