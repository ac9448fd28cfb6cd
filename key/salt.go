package key

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/cleavekv/cleave/hash"
)

// ErrSalt means that a salt was set up with something unusable; the message
// says what is allowed.
var ErrSalt = errors.New("key: bad salt")

// MaxSalts bounds the number of salts. A reader opens one range per salt, so
// counts anywhere near it are for tests, not for use.
const MaxSalts = 1 << 16

// A Salter picks the salt, a number in [0, Salts), that goes in front of a key
// whose natural order is time, so that consecutive writes land in Salts
// places. The price is paid by readers: an ordered read opens one range per
// salt and merges them ([NewMerger]).
//
// [RoundRobin] spreads most evenly and [RandomSalt] needs no shared state;
// with either, a reader must ask every salt. [DerivedSalt] computes the salt
// from a column, so a reader that knows the column asks one.
type Salter interface {
	// Salts returns how many salts there are.
	Salts() int
	// Salt returns the salt for a record with the given column. Only
	// DerivedSalt looks at the column; others accept nil.
	Salt(column []byte) int
}

// checkSalts reports whether n is a usable number of salts: 1 to [MaxSalts].
func checkSalts(n int) error {
	if n < 1 || n > MaxSalts {
		return fmt.Errorf("%w: %d salts; want 1 to %d", ErrSalt, n, MaxSalts)
	}
	return nil
}

// RoundRobin hands out 0, 1, 2, … n-1, 0, … and is safe for concurrent use.
// [NewRoundRobin] makes one; the zero value has a single salt.
type RoundRobin struct {
	last uint64 // the number of salts less one
	next atomic.Uint64
}

// NewRoundRobin returns a chooser over n salts that begins at start modulo n.
// Give each writer its own start, for instance its number: writers that all
// begin at 0 march over the salts in step.
func NewRoundRobin(n int, start uint64) (*RoundRobin, error) {
	if err := checkSalts(n); err != nil {
		return nil, err
	}
	r := &RoundRobin{last: uint64(n) - 1}
	// Reduced here so that the counter's own wrap is 2^64 calls away.
	r.next.Store(start % uint64(n))
	return r, nil
}

// Salts returns how many salts there are.
func (r *RoundRobin) Salts() int { return int(r.last) + 1 }

// Salt returns the next salt in turn; the column is not looked at.
func (r *RoundRobin) Salt([]byte) int {
	return int((r.next.Add(1) - 1) % (r.last + 1))
}

// RandomSalt picks salts by random numbers that the caller supplies. It is
// safe for concurrent use if the source is. [NewRandomSalt] makes one; the
// zero value has a single salt.
type RandomSalt struct {
	last   uint64
	source func() uint64
}

// NewRandomSalt returns a chooser over n salts. The source returns uniform
// 64-bit numbers: rand.Uint64, or the Uint64 method of a seeded generator.
func NewRandomSalt(n int, source func() uint64) (RandomSalt, error) {
	var errs []error
	if source == nil {
		errs = append(errs, fmt.Errorf("%w: no random source; pass for instance rand.Uint64", ErrSalt))
	}
	if err := errors.Join(append(errs, checkSalts(n))...); err != nil {
		return RandomSalt{}, err
	}
	return RandomSalt{uint64(n) - 1, source}, nil
}

// Salts returns how many salts there are.
func (r RandomSalt) Salts() int { return int(r.last) + 1 }

// Salt returns a salt drawn at random; the column is not looked at.
func (r RandomSalt) Salt([]byte) int {
	if r.source == nil {
		return 0
	}
	return scaleToRange(r.source(), r.last+1)
}

// DerivedSalt computes the salt from a column's bytes, the same in every
// process and version. All records of one column value share a salt: a column
// with a heavy value is not spread by it. [NewDerivedSalt] makes one; the zero
// value has a single salt.
type DerivedSalt struct{ last uint64 }

// NewDerivedSalt returns a chooser over n salts.
func NewDerivedSalt(n int) (DerivedSalt, error) {
	if err := checkSalts(n); err != nil {
		return DerivedSalt{}, err
	}
	return DerivedSalt{uint64(n) - 1}, nil
}

// Salts returns how many salts there are.
func (d DerivedSalt) Salts() int { return int(d.last) + 1 }

// Salt returns the column's salt: its XXH3 hash, scaled to the number of
// salts. Doubling the number sends salt s to 2s or 2s+1 and nowhere else.
func (d DerivedSalt) Salt(column []byte) int {
	return scaleToRange(hash.XXH3(column).Uint64(), d.last+1)
}

// ColumnHash is what the hash of a layout, such as hash(id), is of the encoding of
// its column: the upper half of the XXH3 hash. It is the [DerivedSalt] of 2^32
// salts, so it sorts as any smaller number of derived salts does.
func ColumnHash(column []byte) uint32 { return uint32(hash.XXH3(column).Uint64() >> 32) }

// scaleToRange maps a uniform 64-bit number to [0, n) by multiplication, which
// keeps the high bits; the bias is below n/2^64.
func scaleToRange(x, n uint64) int {
	hi, _ := bits.Mul64(x, n)
	return int(hi)
}

// SaltAdvice is the answer of [SaltCount].
type SaltAdvice struct {
	// Salts is the advised number of salts, and of ranges that an ordered
	// read then opens and merges.
	Salts int
	// Price says in words what readers pay.
	Price string
}

// SaltCount advises how many salts to use for a number of nodes that can
// accept writes: as many, rounded up to a power of two. Fewer leave nodes
// without writes, and more make reads dearer without helping writes. A power
// of two can be doubled later while every old range splits in two
// ([DerivedSalt]).
func SaltCount(writableNodes int) (SaltAdvice, error) {
	if writableNodes < 1 || writableNodes > MaxSalts {
		return SaltAdvice{}, fmt.Errorf("%w: %d nodes accept writes; want 1 to %d", ErrSalt, writableNodes, MaxSalts)
	}
	n := ceilPowerOfTwo(writableNodes)
	a := SaltAdvice{Salts: n}
	a.Price = "a read opens one range, as it would without salt"
	if n > 1 {
		a.Price = fmt.Sprintf("an ordered read opens %d ranges, waits for the slowest, and makes about %d comparisons a record",
			n, bits.Len(uint(n-1)))
	}
	return a, nil
}
