package store

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Estimate is how much a range is thought to have.
type Estimate struct{ Rows, Bytes uint64 }

const (
	// sampleRows is how many rows an estimate reads at most. A range with fewer
	// is counted.
	sampleRows = 1 << 10
	// maxCountedRows is how many it reads if no table has any of them.
	maxCountedRows = 1 << 16
	// maxCompression is how many times smaller than its rows a table is believed to be. More
	// is rather a sample that is in memory and not in the tables.
	maxCompression = 4
)

// Estimate returns about how many rows, and bytes of them, start <= key < end has.
// It reads a few rows, and asks Pebble how much of its tables is in the range, and how
// much those few take of it; what is in memory is taken to be spread as the tables are.
func (s *Store) Estimate(start, end []byte) (e Estimate, err error) {
	if err := s.beginCall(); err != nil {
		return e, err
	}
	defer s.endCall()
	disk, err := s.db.EstimateDiskUsage(appendEngineKey(nil, start), appendEngineKey(nil, end))
	if err != nil {
		return e, readError(err)
	}
	limit := uint64(sampleRows)
	if disk == 0 {
		limit = maxCountedRows
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
	of, err := s.db.EstimateDiskUsage(appendEngineKey(nil, start), appendEngineKey(nil, sampled))
	if err != nil {
		return e, readError(err)
	}
	size := float64(disk) * s.estimateExpansion(e.Bytes, of)
	if mean := float64(e.Bytes) / float64(e.Rows); size > float64(e.Bytes) {
		e = Estimate{Rows: uint64(size / mean), Bytes: uint64(size)}
	}
	return e, nil
}

// estimateExpansion is how many bytes of rows there are for each of the tables, by a sample of rows
// and what the tables have in its range: they are compressed, and not all rows are there.
func (s *Store) estimateExpansion(rows, disk uint64) float64 {
	least := 1.0
	if tables := s.Metrics().TableBytes; tables > 0 {
		// Not the bytes of log: with a sync for each row it is a block for each row.
		_, _, payload := s.chunks.measureBacklog()
		least += float64(payload+s.applier.unflushedRowBytes.Load()) / float64(tables)
	}
	return min(max(least, float64(rows)/float64(max(disk, 1))), maxCompression*least)
}

// maxBisections bounds how often a middle is halved: keys of 16 bytes that have nothing
// in common take fewer.
const maxBisections = 256

// FindSplitKey returns the key of a row before which about half of the bytes of
// start <= key < end lie, and nil if there are not two rows. Rows that are few, or mostly
// in memory, are counted; otherwise Pebble is asked how much of its tables lies before
// keys that come ever nearer to the middle.
func (s *Store) FindSplitKey(start, end []byte) ([]byte, error) {
	if err := s.beginCall(); err != nil {
		return nil, err
	}
	defer s.endCall()
	first, err := s.findEdgeKey(start, end, false)
	if err != nil || first == nil {
		return nil, err
	}
	rows, sum, err := s.countRows(start, end, maxCountedRows)
	if err != nil {
		return nil, err
	}
	at := first
	disk, err := s.estimateTableBytes(start, end)
	switch {
	case err != nil:
		return nil, err
	case rows > maxCountedRows && disk > 2*sum:
		at, err = s.bisectTables(first, start, end, disk/2)
	case rows > maxCountedRows: // the rest of them is in memory, too
		if _, sum, err = s.countRows(start, end, math.MaxInt); err == nil {
			at, err = s.findKeyAtBytes(start, end, sum/2)
		}
	default:
		at, err = s.findKeyAtBytes(start, end, sum/2)
	}
	if err != nil {
		return nil, err
	}
	if bytes.Compare(at, first) <= 0 { // then the second row is as near as can be
		at = append(first, 0)
	}
	return s.findEdgeKey(at, end, false)
}

// findEdgeKey returns the key of the first row, or the last one.
func (s *Store) findEdgeKey(start, end []byte, last bool) (found []byte, err error) {
	err = s.Scan(start, end, last, func(key, _ []byte) bool {
		found = bytes.Clone(key)
		return false
	})
	return found, err
}

// estimateTableBytes returns how much of Pebble's tables is in a range.
func (s *Store) estimateTableBytes(start, end []byte) (uint64, error) {
	n, err := s.db.EstimateDiskUsage(appendEngineKey(nil, start), appendEngineKey(nil, end))
	return n, readError(err)
}

// countRows returns how many rows there are, one more than limit if they are more, and
// their bytes.
func (s *Store) countRows(start, end []byte, limit int) (rows int, sum uint64, err error) {
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		rows++
		sum += uint64(len(key) + len(value))
		return rows <= limit
	})
	return rows, sum, err
}

// findKeyAtBytes returns the key of the row at which so many bytes are exceeded.
func (s *Store) findKeyAtBytes(start, end []byte, half uint64) (at []byte, err error) {
	before := uint64(0)
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		at = append(at[:0], key...)
		before += uint64(len(key) + len(value))
		return before <= half
	})
	return at, err
}

// bisectTables returns a key, of a row or not, before which tables have so many bytes.
func (s *Store) bisectTables(first, start, end []byte, half uint64) ([]byte, error) {
	last, err := s.findEdgeKey(start, end, true)
	if err != nil {
		return nil, err
	}
	lo, hi := first, last
	for range maxBisections {
		at := middleKey(lo, hi)
		if bytes.Compare(lo, at) >= 0 || bytes.Compare(at, hi) >= 0 {
			break
		}
		before, err := s.estimateTableBytes(start, at)
		if err != nil {
			return nil, err
		}
		if before < half {
			lo = at
		} else {
			hi = at
		}
	}
	return hi, nil
}

// middleKey returns a key in the middle of two, as numbers of eight bytes behind what they
// have in common.
func middleKey(a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	x, y := readUint64(a, n), readUint64(b, n)
	if y-x < 2 { // there is none of eight bytes: go on behind a
		n += 8
		x, y = readUint64(a, n), math.MaxUint64
	}
	mid := append(make([]byte, 0, n+8), a[:min(n, len(a))]...)
	mid = append(mid, make([]byte, n-len(mid))...)
	return binary.BigEndian.AppendUint64(mid, x+(y-x)/2)
}

// readUint64 reads eight bytes of a key as a number; there are zeros behind its end.
func readUint64(key []byte, from int) uint64 {
	var b [8]byte
	copy(b[:], key[min(from, len(key)):])
	return binary.BigEndian.Uint64(b[:])
}
