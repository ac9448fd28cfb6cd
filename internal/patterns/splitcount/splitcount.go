// Package splitcount answers one question: how does a split counter change its number of
// parts without losing or counting twice what is added meanwhile?
//
// A counter is the sum of its parts, which are rows that hold numbers. Part 0 is always
// open. The others are open if their rows exist, and an add to one of them demands
// that: one that comes too late is refused, and goes elsewhere. A row, the manifest, says
// how many are open. It is changed in one transaction with the rows of the parts, so
// that at every moment the open parts hold all that was added.
//
// The package only computes: what a resize makes of the parts ([Resize]), what they sum
// to ([Total]), and whether to resize at all ([Sizer]). Package counter carries it out
// on a store, and the simulator on groups.
package splitcount

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// MaxParts is the most parts that a counter can have.
const MaxParts = 256

// ErrBadManifest means that the row of a manifest holds something else.
var ErrBadManifest = errors.New("splitcount: not a manifest")

// IsValidCount reports whether a counter can have so many parts.
func IsValidCount(parts int) bool {
	return parts >= 1 && parts <= MaxParts && bits.OnesCount(uint(parts)) == 1
}

// AppendManifest appends the value of the row of a counter with so many parts: that
// number, in decimal. A counter of one part has no such row.
func AppendManifest(b []byte, parts int) []byte { return strconv.AppendInt(b, int64(parts), 10) }

// ParseManifest reads the value of a row, nil for an absent one, which stands for one
// part. It accepts what AppendManifest makes, and nothing else.
func ParseManifest(b []byte) (parts int, err error) {
	if b == nil {
		return 1, nil
	}
	parts, err = strconv.Atoi(string(b))
	if err != nil || !IsValidCount(parts) || string(AppendManifest(nil, parts)) != string(b) {
		return 0, fmt.Errorf("%w: %.40q", ErrBadManifest, b)
	}
	return parts, nil
}

// ErrOverflow means that a sum does not fit into 64 bits.
var ErrOverflow = errors.New("splitcount: overflow")

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
	if !IsValidCount(to) {
		return nil, fmt.Errorf("splitcount: %d parts: use a power of two up to %d", to, MaxParts)
	}
	out := make([]int64, to)
	copy(out, parts)
	for i := to; i < len(parts); i++ {
		sum, err := Total([]int64{out[i%to], parts[i]})
		if err != nil {
			return nil, err
		}
		out[i%to] = sum
	}
	return out, nil
}

// MoveToFirst returns parts whose sum is greater by delta, with all of it in part 0, so that
// each other part has room again, both ways.
func MoveToFirst(parts []int64, delta int64) ([]int64, error) {
	sum, err := Total(append(append([]int64{}, parts...), delta))
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(parts))
	out[0] = sum
	return out, nil
}
