package sums

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cleavekv/cleave/internal/plant"
)

// ErrOverflow means that a sum does not fit into 64 bits.
var ErrOverflow = errors.New("sums: overflow")

// Total is the sum of parts. It overflows only if the sum itself does, whatever the
// order of the parts.
func Total(parts []int64) (int64, error) {
	var high, low uint64 // of 128 bits
	for _, p := range parts {
		sum, carry := bits.Add64(low, uint64(p), 0)
		high, low = high+uint64(p>>63)+carry, sum
	}
	if total := int64(low); uint64(total>>63) == high {
		return total, nil
	}
	return 0, ErrOverflow
}

// Resize returns what parts are to hold when there are so many of them. New ones are
// empty, and one that goes is folded into the part that adds find in its place: that
// of its number modulo the new count. The sum stays the same.
func Resize(parts []int64, to int) ([]int64, error) {
	if !Valid(to) {
		return nil, fmt.Errorf("sums: %d parts: use a power of two up to %d", to, MaxParts)
	}
	out := make([]int64, to)
	copy(out, parts)
	for i := to; i < len(parts); i++ {
		if plant.Bug("counter-fold-drops-a-part") && i == len(parts)-1 {
			break
		}
		sum, err := Total([]int64{out[i%to], parts[i]})
		if err != nil {
			return nil, err
		}
		out[i%to] = sum
	}
	return out, nil
}

// Level returns parts whose sum is greater by delta, with all of it in part 0, so that
// each other part has room again, both ways.
func Level(parts []int64, delta int64) ([]int64, error) {
	sum, err := Total(append(append([]int64{}, parts...), delta))
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(parts))
	out[0] = sum
	return out, nil
}
