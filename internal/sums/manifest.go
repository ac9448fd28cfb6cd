package sums

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// MaxParts is the most parts that a counter can have.
const MaxParts = 256

// ErrManifest means that the row of a manifest holds something else.
var ErrManifest = errors.New("sums: not a manifest")

// Valid tells whether a counter can have so many parts.
func Valid(parts int) bool {
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
	if err != nil || !Valid(parts) || string(AppendManifest(nil, parts)) != string(b) {
		return 0, fmt.Errorf("%w: %.40q", ErrManifest, b)
	}
	return parts, nil
}
