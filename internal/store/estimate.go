package store

import "bytes"

// Estimate is how much a range is thought to have.
type Estimate struct{ Rows, Bytes uint64 }

const (
	// sampleRows is how many rows an estimate reads at most. A range with fewer
	// is counted.
	sampleRows = 1 << 10
	// memoryRows is how many it reads if no table has any of them.
	memoryRows = 1 << 16
	// mostShrunk is how many times smaller than its rows a table is believed to be. More
	// is rather a sample that is in memory and not in the tables.
	mostShrunk = 4
)

// Estimate returns about how many rows, and bytes of them, start <= key < end has.
// It reads a few rows, and asks Pebble how much of its tables is in the range, and how
// much those few take of it; what is in memory is taken to be spread as the tables are.
func (s *Store) Estimate(start, end []byte) (e Estimate, err error) {
	if err := s.enter(); err != nil {
		return e, err
	}
	defer s.leave()
	disk, err := s.db.EstimateDiskUsage(appendKey(nil, start), appendKey(nil, end))
	if err != nil {
		return e, readError(err)
	}
	limit := uint64(sampleRows)
	if disk == 0 {
		limit = memoryRows
	}
	more := false
	var sampled []byte // where the sample ends
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		if more = e.Rows >= limit; more {
			sampled = bytes.Clone(key)
			return false
		}
		e.Rows++
		e.Bytes += uint64(len(key) + len(value))
		return true
	})
	if err != nil || !more {
		return e, err
	}
	of, err := s.db.EstimateDiskUsage(appendKey(nil, start), appendKey(nil, sampled))
	if err != nil {
		return e, readError(err)
	}
	size := float64(disk) * s.swell(e.Bytes, of)
	if mean := float64(e.Bytes) / float64(e.Rows); size > float64(e.Bytes) {
		e = Estimate{Rows: uint64(size / mean), Bytes: uint64(size)}
	}
	return e, nil
}

// swell is how many bytes of rows there are for each of the tables, by a sample of rows
// and what the tables have in its range: they are compressed, and not all rows are there.
func (s *Store) swell(rows, disk uint64) float64 {
	least := 1.0
	if tables := s.Metrics().TableBytes; tables > 0 {
		// Not the bytes of log: with a sync for each row it is a block for each row.
		_, _, payload := s.chunks.size()
		least += float64(payload+s.applier.unflushedRows.Load()) / float64(tables)
	}
	return min(max(least, float64(rows)/float64(max(disk, 1))), mostShrunk*least)
}
