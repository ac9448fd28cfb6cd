package store

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Digest sums up the rows of a range. Two ranges with the same rows have the
// same digest; two with the same digest have the same rows but for a chance of
// about one in 2^128, if nobody chose the rows to that end.
type Digest struct {
	Rows  uint64
	Bytes uint64 // of keys and values
	Hash  [16]byte
}

// Digest reads the rows of start <= key < end and sums them up.
func (p *Snapshot) Digest(start, end []byte) (Digest, error) {
	var d Digest
	h := xxh3.New()
	var head [2 * binary.MaxVarintLen64]byte
	err := p.Scan(start, end, false, func(key, value []byte) bool {
		d.Rows++
		d.Bytes += uint64(len(key) + len(value))
		// With both lengths no other split into rows has the same bytes.
		n := binary.PutUvarint(head[:], uint64(len(key)))
		n += binary.PutUvarint(head[n:], uint64(len(value)))
		h.Write(head[:n])
		h.Write(key)
		h.Write(value)
		return true
	})
	d.Hash = h.Sum128().Bytes()
	return d, err
}
