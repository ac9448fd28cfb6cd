package hash

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/dchest/siphash"
)

// processSeed serves every zero Maphash of this process.
var processSeed = maphash.MakeSeed()

// Maphash is the runtime's own hash with a seed that cannot be read, written
// or chosen: the fastest way to key a table that strangers fill. Copies agree.
// The zero value is ready, and all zero values of a process agree.
type Maphash struct{ own maphash.Seed }

// NewMaphash returns a Maphash with a new random seed.
func NewMaphash() Maphash { return Maphash{maphash.MakeSeed()} }

func (m Maphash) seed() maphash.Seed {
	if m.own == (maphash.Seed{}) {
		return processSeed
	}
	return m.own
}

// Sum returns the hash of b under m's seed.
func (m Maphash) Sum(b []byte) Local { return Local{maphash.Bytes(m.seed(), b)} }

// SumString is [Maphash.Sum] of a string, without a copy.
func (m Maphash) SumString(s string) Local { return Local{maphash.String(m.seed(), s)} }

// Comparable returns the hash of any comparable value under m's seed: equal
// values hash alike, so 0.0 and -0.0 do, and a NaN hashes differently every
// time. It panics where k == k would: an interface that holds a slice, a map
// or a function.
func Comparable[K comparable](m Maphash, k K) Local {
	return Local{maphash.Comparable(m.seed(), k)}
}

// SipHash is SipHash-2-4 under a 128-bit key. It is slower than [Maphash] but
// is specified: with a key that is handed around, several processes agree on
// values that an outsider cannot predict. Its values are still Local, because
// they lose their meaning when the key changes.
type SipHash struct{ k0, k1 uint64 }

// NewSipHash returns the function with that key. Draw it from crypto/rand and
// keep it secret: a known key, such as all zeros, protects nothing.
func NewSipHash(key [16]byte) SipHash {
	return SipHash{binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])}
}

// Sum returns the hash of b under h's key.
func (h SipHash) Sum(b []byte) Local { return Local{siphash.Hash(h.k0, h.k1, b)} }

// SumString is [SipHash.Sum] of a string, without a copy.
func (h SipHash) SumString(s string) Local { return h.Sum(bytesOf(s)) }
