package rowcache

import (
	"bytes"
	"fmt"
	"testing"
)

// Blocks go from one stripe to another through the slab, and none is in two hands: rows stay
// what they are, and the memory does not grow with what is written.
func TestBlocksComeFromPiecesAndGoBack(t *testing.T) {
	const size, count = 2000, 30_000
	table := New(Options{Bytes: 40 << 20, Stripes: 4})
	if table.slab.pieceBytes != minPieceBytes {
		t.Fatalf("pieces of %d bytes", table.slab.pieceBytes)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	value := func(i int, gen uint64) []byte { return bytes.Repeat(fmt.Appendf(nil, "%d/%d ", i, gen), size/10) }
	pieces := 0
	for gen := uint64(1); gen <= 3; gen++ {
		for i := range count {
			table.Publish(gen, key(i), value(i, gen), false)
			if i%500 == 0 {
				table.SetApplied(gen)
			}
		}
		table.SetApplied(gen)
		known := 0
		for i := range count {
			got, state := table.Get(key(i), nil)
			if state == Unknown {
				continue
			}
			if known++; !bytes.Equal(got, value(i, gen)) {
				t.Fatalf("key %d is %.30q", i, got)
			}
		}
		if known < 1000 {
			t.Errorf("only %d rows are known", known)
		}
		table.DropRange(key(3), nil) // some blocks become free
		made := countPieces(t, table)
		if gen > 1 && made > pieces+1 {
			t.Errorf("%d pieces of memory, %d before", made, pieces)
		}
		pieces = made
	}
}

// countPieces returns how many pieces of memory there are, and fails if a block is somewhere
// twice.
func countPieces(t *testing.T, table *Cache) (pieces int) {
	t.Helper()
	seen := map[*byte]bool{}
	bytes := len(table.slab.unused)
	add := func(b []byte) {
		if len(b) == 0 {
			return
		}
		if seen[&b[0]] {
			t.Error("a block is in two hands")
		}
		seen[&b[0]] = true
		bytes += len(b)
	}
	for _, b := range table.slab.free {
		add(b)
	}
	for i := range table.stripes {
		s := &table.stripes[i]
		if err := s.auditStripe(); err != nil {
			t.Error(err)
		}
		add(s.blocks.spare)
		for n := s.blocks.entries[0].newer; n != 0; n = s.blocks.entries[n].newer {
			if !s.blocks.entries[n].isDedicated {
				add(s.blocks.entries[n].data)
			}
		}
	}
	if bytes%table.slab.pieceBytes != 0 {
		t.Errorf("%d bytes of blocks are not pieces of %d", bytes, table.slab.pieceBytes)
	}
	return bytes / table.slab.pieceBytes
}
