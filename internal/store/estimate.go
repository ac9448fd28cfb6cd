package store

// Estimate is how much a range is thought to have.
type Estimate struct{ Rows, Bytes uint64 }

const (
	// sampleRows is how many rows an estimate reads at most. A range with fewer
	// is counted.
	sampleRows = 1 << 10
	// memoryRows is how many it reads if no table has any of them.
	memoryRows = 1 << 16
)

// Estimate returns about how many rows, and bytes of them, start <= key < end has.
// It reads a few rows, and asks Pebble how much of its tables is in the range; what
// is in memory is taken to be spread as the tables are.
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
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		if more = e.Rows >= limit; more {
			return false
		}
		e.Rows++
		e.Bytes += uint64(len(key) + len(value))
		return true
	})
	if err != nil || !more {
		return e, err
	}
	m := s.Metrics()
	bytes := float64(disk)
	if m.TableBytes > 0 {
		bytes *= 1 + float64(m.UnappliedBytes+m.UnflushedBytes)/float64(m.TableBytes)
	}
	if mean := float64(e.Bytes) / float64(e.Rows); bytes > float64(e.Bytes) {
		e = Estimate{Rows: uint64(bytes / mean), Bytes: uint64(bytes)}
	}
	return e, nil
}
