// Package hash answers one question: may this hash value be written down?
//
// The type of the value is the answer:
//
//   - [Stable]: computed by a published function with no secret. It agrees
//     across processes, machines and versions, so it may be persisted and
//     routed on. Package route accepts nothing else.
//   - [Local]: computed with a seed that only this process knows. It resists
//     an attacker that picks keys to collide, and it means nothing tomorrow.
//   - [Weak]: computed by a function kept only to be shown bad.
//   - [Slot]: one of Redis Cluster's 16384 buckets. It is stable too, and too
//     short to route on by itself.
//
// So a program that would place data by a per-process hash does not compile,
// not even through a conversion: [Stable], [Local] and [Weak] share no
// representation.
//
// Which one to use: [XXH3] to place data; [Uint64] when the key is an integer;
// [SlotOf] to agree with Redis Cluster; [Maphash] or [SipHash] for a table
// whose keys a stranger chooses. [Measure] measures how well any function
// spreads, ours or yours.
//
// None of these functions is a cryptographic digest: use none of them to
// detect tampering.
package hash

import (
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/dchest/siphash"
	"github.com/twmb/murmur3"
	"github.com/zeebo/xxh3"
)

// Stable is a 64-bit hash value that every process computes alike. The zero
// value is an ordinary hash value, not a marker for "none".
type Stable struct{ bits uint64 }

// Uint64 returns the value, for instance to write it to disk.
func (s Stable) Uint64() uint64 { return s.bits }

// String returns the value as 16 hexadecimal digits.
func (s Stable) String() string { return hexDigits(s.bits) }

// Restore turns a value that [Stable.Uint64] once returned back into a
// Stable. It is the one door from a bare number into routing: the caller
// vouches that every process computes the same number for the same key.
func Restore(bits uint64) Stable { return Stable{bits} }

// Local is a 64-bit hash value that is valid in this process only.
//
// Its field is named apart from those of [Stable] and [Weak] because Go
// converts freely between structs with identical fields.
type Local struct{ local uint64 }

// Uint64 returns the value. It must not outlive the process.
func (l Local) Uint64() uint64 { return l.local }

// String returns the value as 16 hexadecimal digits, which another process
// cannot compare with its own.
func (l Local) String() string { return hexDigits(l.local) }

// Weak is a 64-bit value of a function too poor to place data with.
type Weak struct{ weak uint64 }

// Uint64 returns the value.
func (w Weak) Uint64() uint64 { return w.weak }

// String returns the value as 16 hexadecimal digits.
func (w Weak) String() string { return hexDigits(w.weak) }

// hexDigits returns u in hexadecimal, the highest digit first and none left out,
// so that the texts line up and sort as the values do.
func hexDigits(u uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, u))
}

// XXH3 returns the 64-bit XXH3 hash of b with seed 0. It is the default for
// routing: the fastest stable function here for keys of any length.
func XXH3(b []byte) Stable { return Stable{xxh3.Hash(b)} }

// XXH3String is [XXH3] of a string, without a copy.
func XXH3String(s string) Stable { return Stable{xxh3.HashString(s)} }

// XXHash64 returns the 64-bit xxHash (XXH64) of b with seed 0, for data that
// was placed with it before XXH3 existed.
func XXHash64(b []byte) Stable { return Stable{xxhash.Sum64(b)} }

// XXHash64String is [XXHash64] of a string, without a copy.
func XXHash64String(s string) Stable { return Stable{xxhash.Sum64String(s)} }

// Murmur3 returns the first 64 bits of MurmurHash3_x64_128 of b with seed 0,
// little-endian on every machine. Cassandra's variant differs from it on some
// keys with bytes above 127.
func Murmur3(b []byte) Stable { return Stable{murmur3.Sum64(b)} }

// Murmur3String is [Murmur3] of a string, without a copy.
func Murmur3String(s string) Stable { return Stable{murmur3.StringSum64(s)} }

// Uint64 hashes an integer key: it is the first output of SplitMix64 seeded
// with u (Steele, Lea and Flood 2014, with Stafford's variant 13 of the
// mixer). It is a bijection, so distinct integers never collide in 64 bits.
func Uint64(u uint64) Stable {
	z := u + 0x9e3779b97f4a7c15 // 2^64 / golden ratio, odd: 0 is not a fixed point
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return Stable{z ^ z>>31}
}

// Derive returns the i-th hash value that follows from s without a look at
// the key: for a second choice, a salt, a probe sequence. It is
// Uint64(s ^ Uint64(i)), so for one s no two i give the same value, and for
// one i no two s do. Keys that collide in s collide in every derived value.
func (s Stable) Derive(i uint64) Stable { return Uint64(s.bits ^ Uint64(i).bits) }

// processSeed serves every zero Maphash of this process.
var processSeed = maphash.MakeSeed()

// Maphash is the runtime's own hash with a seed that cannot be read, written
// or chosen: the fastest way to key a table that strangers fill. Copies agree.
// The zero value is ready, and all zero values of a process agree.
type Maphash struct{ ownSeed maphash.Seed }

// NewMaphash returns a Maphash with a new random seed.
func NewMaphash() Maphash { return Maphash{maphash.MakeSeed()} }

func (m Maphash) seedOrDefault() maphash.Seed {
	if m.ownSeed == (maphash.Seed{}) {
		return processSeed
	}
	return m.ownSeed
}

// Sum returns the hash of b under m's seed.
func (m Maphash) Sum(b []byte) Local { return Local{maphash.Bytes(m.seedOrDefault(), b)} }

// SumString is [Maphash.Sum] of a string, without a copy.
func (m Maphash) SumString(s string) Local { return Local{maphash.String(m.seedOrDefault(), s)} }

// Comparable returns the hash of any comparable value under m's seed: equal
// values hash alike, so 0.0 and -0.0 do, and a NaN hashes differently every
// time. It panics where k == k would: an interface that holds a slice, a map
// or a function.
func Comparable[K comparable](m Maphash, k K) Local {
	return Local{maphash.Comparable(m.seedOrDefault(), k)}
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

// FNV1a returns the 64-bit FNV-1a hash of b. It is simple and it is slow, one
// dependent multiplication a byte; and the last byte is multiplied only once,
// by a constant of few bits, so it leaves most of the result as it was.
func FNV1a(b []byte) Weak {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return Weak{h}
}

// Fx returns the hash that rustc used for its own tables (rustc-hash 1.x, on
// a 64-bit little-endian machine): one rotation and one multiplication a word.
// A bit of the result depends on no higher bit of the last word, so keys that
// differ only up there collide under a mask.
func Fx(b []byte) Weak {
	var h uint64
	for ; len(b) >= 8; b = b[8:] {
		h = fxWord(h, binary.LittleEndian.Uint64(b))
	}
	if len(b) >= 4 {
		h = fxWord(h, uint64(binary.LittleEndian.Uint32(b)))
		b = b[4:]
	}
	if len(b) >= 2 {
		h = fxWord(h, uint64(binary.LittleEndian.Uint16(b)))
		b = b[2:]
	}
	if len(b) == 1 {
		h = fxWord(h, uint64(b[0]))
	}
	return Weak{h}
}

func fxWord(h, word uint64) uint64 {
	return (bits.RotateLeft64(h, 5) ^ word) * 0x517cc1b727220a95
}
