package index

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Digest stands for a set of entries. Two equal ones are taken for the same set. It does
// not depend on the order in which entries were added, so that rows in their order and
// entries in theirs make the same. The zero value is that of no entries.
type Digest struct {
	hi, lo uint64 // sum of the entries' 128-bit hashes
	n      uint64
	room   []byte
}

// Add adds an entry that expires with its row, 0 for never.
func (d *Digest) Add(e Entry, expiryMS int64) {
	d.room = binary.AppendUvarint(d.room[:0], uint64(len(e.Key)))
	d.room = append(append(d.room, e.Key...), e.Value...)
	h := xxh3.Hash128Seed(d.room, uint64(expiryMS))
	var carry uint64
	d.lo, carry = bits.Add64(d.lo, h.Lo, 0)
	d.hi, _ = bits.Add64(d.hi, h.Hi, carry)
	d.n++
}

// Entries returns how many entries were added.
func (d *Digest) Entries() uint64 { return d.n }

// Equal tells whether two digests are of the same set.
func (d *Digest) Equal(o *Digest) bool { return d.hi == o.hi && d.lo == o.lo && d.n == o.n }
