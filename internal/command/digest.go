package command

import (
	"math/bits"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
	"github.com/zeebo/xxh3"
)

// Digest stands for a set of live keys with their versions. Two equal ones are
// taken for the same set. It does not depend on the order in which the keys
// were added, so a scan in either direction makes it as it goes. The zero value
// is that of no keys.
type Digest struct {
	hi, lo uint64 // sum of the keys' 128-bit hashes
	keys   uint64
}

// Add adds a key that is alive. A version is never used twice, so its hash is
// seeded with it.
func (d *Digest) Add(p partition.Position, version uint64) {
	h := xxh3.Hash128Seed(p, version)
	var carry uint64
	d.lo, carry = bits.Add64(d.lo, h.Lo, 0)
	d.hi, _ = bits.Add64(d.hi, h.Hi, carry)
	d.keys++
}

// Keys returns how many keys were added.
func (d Digest) Keys() uint64 { return d.keys }

// DigestRange returns the digest of the keys with start <= position < end that
// are alive. An empty end is the end of the space.
func DigestRange(r Reader, start, end partition.Position, alive func(partition.Position, *Row) bool) (Digest, error) {
	return digestRange(r.Scan, start, end, alive)
}

// AliveAt judges all keys by one time.
func AliveAt(nowMS int64) func(partition.Position, *Row) bool {
	return func(_ partition.Position, row *Row) bool { return row.Alive(nowMS) }
}

type scanFunc func(start, end []byte, reverse bool, visit func(key, value []byte) bool) error

func digestRange(scan scanFunc, start, end partition.Position, alive func(partition.Position, *Row) bool) (d Digest, err error) {
	var bad error
	from, to := effect.Rows.Between(start, end)
	err = scan(from, to, false, func(key, value []byte) bool {
		var row Row
		if row, bad = DecodeRow(value); bad != nil {
			return false
		}
		if row.Kind != Element && alive(key[1:], &row) {
			d.Add(key[1:], row.Version)
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return d, err
}
