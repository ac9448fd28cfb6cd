// Package hash answers one question: may this hash value be written down?
//
// The type of the value is the answer:
//
//   - [Stable]: computed by a published function with no secret. It agrees
//     across processes, machines and versions, so it may be persisted and
//     routed on. Package route accepts nothing else.
//   - [Local]: computed with a seed that only this process knows. It resists
//     an attacker who picks keys to collide, and it means nothing tomorrow.
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
)

// Stable is a 64-bit hash value that every process computes alike. The zero
// value is an ordinary hash value, not a marker for "none".
type Stable struct{ bits uint64 }

// Uint64 returns the value, for instance to write it to disk.
func (s Stable) Uint64() uint64 { return s.bits }

// String returns the value as 16 hexadecimal digits.
func (s Stable) String() string { return digits(s.bits) }

// Restore turns a value that [Stable.Uint64] once returned back into a
// Stable. It is the one door from a bare number into routing: whoever calls
// it vouches that every process computes the same number for the same key.
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
func (l Local) String() string { return digits(l.local) }

// Weak is a 64-bit value of a function too poor to place data with.
type Weak struct{ weak uint64 }

// Uint64 returns the value.
func (w Weak) Uint64() uint64 { return w.weak }

// String returns the value as 16 hexadecimal digits.
func (w Weak) String() string { return digits(w.weak) }

// digits returns u in hexadecimal, the highest digit first and none left out,
// so that the texts line up and sort as the values do.
func digits(u uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, u))
}
