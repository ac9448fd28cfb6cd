package engine

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// copySizes are short ones, and those around every border.
var copySizes = []int{0, 1, 12, 100, maxArenaCopyBytes - 1, maxArenaCopyBytes, maxArenaCopyBytes + 1, maxArenaBlockBytes, 3 * maxArenaBlockBytes}

func TestCopiesOfAnArenaDoNotTouchEachOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(tally.Seed(t, "internal/engine"), 0))
	var a arena
	var copies, want [][]byte
	for i := range 2000 {
		b := bytes.Repeat([]byte{byte(i)}, copySizes[rng.IntN(len(copySizes))])
		c := a.clone(b)
		if c == nil || !bytes.Equal(c, b) {
			t.Fatalf("the copy of %d bytes is %d bytes, nil: %v", len(b), len(c), c == nil)
		}
		copies, want = append(copies, c), append(want, slices.Clone(b))
		clear(b) // it is a copy
	}
	for i, c := range copies {
		_ = append(c, "more"...)
		for j := range c {
			c[j] ^= 0xff
		}
		if i+1 < len(copies) && !bytes.Equal(copies[i+1], want[i+1]) {
			t.Fatalf("copy %d changed with the one before", i+1)
		}
		for j := range c {
			c[j] ^= 0xff
		}
	}
	for i, c := range copies {
		if !bytes.Equal(c, want[i]) {
			t.Fatalf("copy %d changed", i)
		}
	}
}

func TestACopyOfAnArenaKeepsOneBlockAtMost(t *testing.T) {
	rng := rand.New(rand.NewPCG(tally.Seed(t, "internal/engine"), 0))
	var a arena
	var from, to uintptr // the newest block
	for range 2000 {
		room := cap(a.free)
		c := a.clone(make([]byte, copySizes[rng.IntN(len(copySizes))]))
		at := uintptr(unsafe.Pointer(unsafe.SliceData(c)))
		if len(c) > maxArenaCopyBytes {
			if at >= from && at < to || cap(a.free) != room {
				t.Fatalf("a copy of %d bytes is in a block", len(c))
			}
			continue
		}
		if at < from || at+uintptr(len(c)) > to {
			from, to = at, at+uintptr(len(c)+cap(a.free))
		}
		if to-from > 4<<10 || cap(c) != len(c) {
			t.Fatalf("a copy of %d bytes with room for %d keeps %d", len(c), cap(c), to-from)
		}
	}
}
