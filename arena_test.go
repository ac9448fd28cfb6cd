package cleave

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// sizesOfPieces are short ones, and those around every border.
var sizesOfPieces = []int{0, 1, 12, 100, arenaPiece - 1, arenaPiece, arenaPiece + 1, arenaBlock, 3 * arenaBlock}

func TestCopiesOfAnArenaDoNotTouchEachOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	var a arena
	var copies, want [][]byte
	for i := range 2000 {
		b := bytes.Repeat([]byte{byte(i)}, sizesOfPieces[rng.IntN(len(sizesOfPieces))])
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
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	var a arena
	var from, to uintptr // the newest block
	for range 2000 {
		room := cap(a.free)
		c := a.clone(make([]byte, sizesOfPieces[rng.IntN(len(sizesOfPieces))]))
		at := uintptr(unsafe.Pointer(unsafe.SliceData(c)))
		if len(c) > arenaPiece {
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

func TestItemsOfAScanAreTheCallersOwn(t *testing.T) {
	db := small(t, 1)
	k := rangeSpace(t, db, "own")
	const rows = 200
	value := func(i int) []byte {
		return bytes.Repeat([]byte{byte(i)}, sizesOfPieces[i%len(sizesOfPieces)])
	}
	for i := range rows {
		must(t, k.Set(ctx, number(i), value(i)))
	}
	var items []Item
	for item, err := range k.All(ctx, ScanOptions{}) {
		must(t, err)
		items = append(items, item)
	}
	for i := 0; i < len(items); i += 2 { // every other one is spoiled
		_ = append(items[i].Key, "more"...)
		clear(items[i].Key)
		_ = append(items[i].Value, "more"...)
		clear(items[i].Value)
	}
	page, err := k.Scan(ctx, ScanOptions{})
	must(t, err)
	if len(items) != rows || len(page.Items) != rows {
		t.Fatalf("%d and %d rows, want %d", len(items), len(page.Items), rows)
	}
	for i, item := range page.Items {
		if i%2 != 0 && (!bytes.Equal(items[i].Key, item.Key) || !bytes.Equal(items[i].Value, item.Value)) {
			t.Errorf("item %d changed with its neighbours", i)
		}
		if !bytes.Equal(item.Key, number(i)) || item.Value == nil || !bytes.Equal(item.Value, value(i)) {
			t.Errorf("row %d is %q with %d bytes", i, item.Key, len(item.Value))
		}
	}
}
