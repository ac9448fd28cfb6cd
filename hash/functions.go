package hash

import (
	"encoding/binary"
	"fmt"
)

// Kind is what a function's values may be used for.
type Kind uint8

// The kinds of function, one for each value type.
const (
	KindStable Kind = iota // returns Stable: may be persisted
	KindSeeded             // returns Local: resists flooding, valid in one process
	KindWeak               // returns Weak: kept to be shown bad
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindStable:
		return "stable"
	case KindSeeded:
		return "seeded"
	case KindWeak:
		return "weak"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText writes the kind's name, so that reports read well as JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Function describes a hash function to [Measure]: one of [Functions] or
// the caller's own.
type Function struct {
	Name string
	Kind Kind
	// Bits is how many low bits of Sum's result are the hash. 0 means 64.
	Bits int
	// KeyBytes is the only key length that Sum takes. 0 means any.
	KeyBytes int
	// Sum hashes a key. It must not keep the slice.
	Sum func(key []byte) uint64
}

// bits returns Bits with the default filled in.
func (f Function) bits() int {
	if f.Bits == 0 {
		return 64
	}
	return f.Bits
}

// referenceKey is the key of SipHash's published vectors. The table of
// functions uses it so that a report is the same in every process.
var referenceKey = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// Functions lists every function of this package. SipHash comes with a fixed,
// public key; Maphash with this process's secret seed, so its figures differ
// a little from run to run.
func Functions() []Function {
	var m Maphash
	sip := NewSipHash(referenceKey)
	return []Function{
		{Name: "xxh3", Kind: KindStable, Sum: func(b []byte) uint64 { return XXH3(b).Uint64() }},
		{Name: "xxhash64", Kind: KindStable, Sum: func(b []byte) uint64 { return XXHash64(b).Uint64() }},
		{Name: "murmur3", Kind: KindStable, Sum: func(b []byte) uint64 { return Murmur3(b).Uint64() }},
		{Name: "uint64", Kind: KindStable, KeyBytes: 8, Sum: func(b []byte) uint64 { return Uint64(binary.BigEndian.Uint64(b)).Uint64() }},
		{Name: "crc16-slot", Kind: KindStable, Bits: 14, Sum: func(b []byte) uint64 { return uint64(SlotOf(b)) }},
		{Name: "maphash", Kind: KindSeeded, Sum: func(b []byte) uint64 { return m.Sum(b).Uint64() }},
		{Name: "siphash", Kind: KindSeeded, Sum: func(b []byte) uint64 { return sip.Sum(b).Uint64() }},
		{Name: "fnv1a", Kind: KindWeak, Sum: func(b []byte) uint64 { return FNV1a(b).Uint64() }},
		{Name: "fx", Kind: KindWeak, Sum: func(b []byte) uint64 { return Fx(b).Uint64() }},
	}
}
