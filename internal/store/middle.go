package store

import (
	"bytes"
	"encoding/binary"
	"math"
)

// middleSteps bounds how often a middle is halved: keys of 16 bytes that have nothing
// in common take fewer.
const middleSteps = 256

// Middle returns the key of a row before which about half of the bytes of
// start <= key < end lie, and nil if there are not two rows. Rows that are few, or mostly
// in memory, are counted; otherwise Pebble is asked how much of its tables lies before
// keys that come ever nearer to the middle.
func (s *Store) Middle(start, end []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	first, err := s.firstKey(start, end, false)
	if err != nil || first == nil {
		return nil, err
	}
	rows, sum, err := s.count(start, end, memoryRows)
	if err != nil {
		return nil, err
	}
	at := first
	disk, err := s.usage(start, end)
	switch {
	case err != nil:
		return nil, err
	case rows > memoryRows && disk > 2*sum:
		at, err = s.approach(first, start, end, disk/2)
	case rows > memoryRows: // the rest of them is in memory, too
		if _, sum, err = s.count(start, end, math.MaxInt); err == nil {
			at, err = s.walk(start, end, sum/2)
		}
	default:
		at, err = s.walk(start, end, sum/2)
	}
	if err != nil {
		return nil, err
	}
	if bytes.Compare(at, first) <= 0 { // then the second row is as near as can be
		at = append(first, 0)
	}
	return s.firstKey(at, end, false)
}

// firstKey returns the key of the first row, or the last one.
func (s *Store) firstKey(start, end []byte, last bool) (found []byte, err error) {
	err = s.Scan(start, end, last, func(key, _ []byte) bool {
		found = bytes.Clone(key)
		return false
	})
	return found, err
}

// usage returns how much of Pebble's tables is in a range.
func (s *Store) usage(start, end []byte) (uint64, error) {
	n, err := s.db.EstimateDiskUsage(appendKey(nil, start), appendKey(nil, end))
	return n, readError(err)
}

// count returns how many rows there are, one more than limit if they are more, and
// their bytes.
func (s *Store) count(start, end []byte, limit int) (rows int, sum uint64, err error) {
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		rows++
		sum += uint64(len(key) + len(value))
		return rows <= limit
	})
	return rows, sum, err
}

// walk returns the key of the row at which so many bytes are exceeded.
func (s *Store) walk(start, end []byte, half uint64) (at []byte, err error) {
	before := uint64(0)
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		at = append(at[:0], key...)
		before += uint64(len(key) + len(value))
		return before <= half
	})
	return at, err
}

// approach returns a key, of a row or not, before which tables have so many bytes.
func (s *Store) approach(first, start, end []byte, half uint64) ([]byte, error) {
	last, err := s.firstKey(start, end, true)
	if err != nil {
		return nil, err
	}
	lo, hi := first, last
	for range middleSteps {
		at := between(lo, hi)
		if bytes.Compare(lo, at) >= 0 || bytes.Compare(at, hi) >= 0 {
			break
		}
		before, err := s.usage(start, at)
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

// between returns a key in the middle of two, as numbers of eight bytes behind what they
// have in common.
func between(a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	x, y := eight(a, n), eight(b, n)
	if y-x < 2 { // there is none of eight bytes: go on behind a
		n += 8
		x, y = eight(a, n), math.MaxUint64
	}
	mid := append(make([]byte, 0, n+8), a[:min(n, len(a))]...)
	mid = append(mid, make([]byte, n-len(mid))...)
	return binary.BigEndian.AppendUint64(mid, x+(y-x)/2)
}

// eight reads eight bytes of a key as a number; there are zeros behind its end.
func eight(key []byte, from int) uint64 {
	var b [8]byte
	copy(b[:], key[min(from, len(key)):])
	return binary.BigEndian.Uint64(b[:])
}
