package key

import (
	"fmt"
	"math/bits"
)

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
