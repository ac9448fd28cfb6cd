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
// start <= key < end lie, and nil if there are not two rows. What an [Store.Estimate]
// would count is counted; otherwise Pebble is asked how much of its tables lies before
// keys that come ever nearer to the middle.
func (s *Store) Middle(start, end []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	e, err := s.Estimate(start, end)
	if err != nil || e.Rows < 2 {
		return nil, err
	}
	first, err := s.firstKey(start, end, false)
	if err != nil || first == nil {
		return nil, err
	}
	at, err := s.halfway(first, start, end)
	if err != nil {
		return nil, err
	}
	if bytes.Compare(at, first) <= 0 { // then the second row is as near as can be
		at = append(bytes.Clone(first), 0)
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

// halfway returns a key, of a row or not, with about half of the bytes before it.
func (s *Store) halfway(first, start, end []byte) ([]byte, error) {
	usage := func(to []byte) (uint64, error) {
		n, err := s.db.EstimateDiskUsage(appendKey(nil, start), appendKey(nil, to))
		return n, readError(err)
	}
	disk, err := usage(end)
	if err != nil {
		return nil, err
	}
	limit := sampleRows
	if disk == 0 {
		limit = memoryRows
	}
	if at, err := s.counted(start, end, limit); at != nil || err != nil {
		return at, err
	}
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
		before, err := usage(at)
		if err != nil {
			return nil, err
		}
		if before < disk/2 {
			lo = at
		} else {
			hi = at
		}
	}
	return hi, nil
}

// counted returns the key in the middle of a range of few rows, nil if they are many.
func (s *Store) counted(start, end []byte, limit int) (at []byte, err error) {
	rows, sum := 0, 0
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		rows++
		sum += len(key) + len(value)
		return rows <= limit
	})
	if err != nil || rows > limit {
		return nil, err
	}
	before := 0
	err = s.Scan(start, end, false, func(key, value []byte) bool {
		at = append(at[:0], key...)
		before += len(key) + len(value)
		return 2*before <= sum
	})
	return at, err
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
