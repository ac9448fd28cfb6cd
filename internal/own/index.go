package own

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cleavekv/cleave/partition"
)

// index finds a position among starts that are in order. Of each start it keeps the
// eight bytes behind what all of them have in common, side by side: so a search reads
// a few lines of memory, and the starts themselves only where those bytes are equal.
type index struct {
	prefix partition.Position
	words  []uint64
}

// newIndex makes the index of n starts.
func newIndex(n int, start func(int) partition.Position) (x index) {
	if n == 0 {
		return x
	}
	x.prefix = common(start(0), start(n-1))
	x.words = make([]uint64, n)
	for i := range x.words {
		x.words[i] = word(start(i), len(x.prefix))
	}
	return x
}

// word is the first eight bytes behind what is common, in an order that is that of
// the bytes. A shorter start has zeros there, so different ones may have equal words.
func word(p partition.Position, skip int) uint64 {
	p = p[skip:]
	if len(p) >= 8 {
		return binary.BigEndian.Uint64(p)
	}
	var b [8]byte
	copy(b[:], p)
	return binary.BigEndian.Uint64(b[:])
}

// common returns what two positions begin with.
func common(a, b partition.Position) partition.Position {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return a[:i]
		}
	}
	return a[:n]
}

// upto returns how many of the starts are at or before p.
func (x *index) upto(p partition.Position, start func(int) partition.Position) int {
	skip := len(x.prefix)
	if len(p) < skip || !bytes.Equal(p[:skip], x.prefix) {
		if bytes.Compare(p, x.prefix) < 0 {
			return 0
		}
		return len(x.words)
	}
	if len(x.words) == 0 {
		return 0
	}
	// It does not branch on what it reads: of random positions every second branch
	// would be predicted wrong.
	w := word(p, skip)
	first, size := 0, len(x.words)
	for size > 1 {
		half := size / 2
		_, less := bits.Sub64(x.words[first+half-1], w, 0)
		first += half & -int(less)
		size -= half
	}
	_, less := bits.Sub64(x.words[first], w, 0)
	first += int(less)
	last := first // those before first are less than w, those from last on greater
	for last < len(x.words) && x.words[last] == w {
		last++
	}
	for first < last { // which are equal in that, and mostly one at most
		if m := int(uint(first+last) / 2); bytes.Compare(start(m), p) <= 0 {
			first = m + 1
		} else {
			last = m
		}
	}
	return first
}
