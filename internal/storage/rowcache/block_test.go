package rowcache

import (
	"bytes"
	"fmt"
	"sync"
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

// A table that is closed while others use it gives its memory back, and knows nothing that could be wrong.
func TestCache_Closed_KnowsNothingAndDoesNoHarm(t *testing.T) {
	table := New(Options{Bytes: 40 << 20, Stripes: 4})
	table.MarkComplete()
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	value := bytes.Repeat([]byte("value"), 200)
	const count = 10_000
	for i := range count {
		table.Publish(1, key(i), value, false)
	}
	if table.slab.sizeBytes() < count*int64(len(value)) {
		t.Fatalf("the slab has %d bytes", table.slab.sizeBytes())
	}
	ticket := table.NewTicket(key(count))
	var users sync.WaitGroup
	for g := range 3 {
		users.Go(func() {
			for i := range count {
				if got, state := table.Get(key(i), nil); state == Absent || state == Present && !bytes.Equal(got, value) {
					t.Errorf("key %d is %v, %.20q", i, state, got)
					return
				}
				if g == 0 {
					table.Publish(2, key(i), value, false)
				}
				table.PrefetchRow(table.PrefetchIndex(key(i)))
			}
		})
	}
	table.Close()
	users.Wait()
	table.Close()
	if n := table.slab.sizeBytes(); n != 0 {
		t.Errorf("the slab has %d bytes", n)
	}
	if table.Fill(ticket, key(count), value, true) {
		t.Error("what was read before is cached")
	}
	if _, state := table.Get(key(0), nil); state != Unknown {
		t.Errorf("a row that was forgotten is %v", state)
	}
}

func TestReclaimFree_KeepsTheRowsThatAreLeft(t *testing.T) {
	table := New(Options{Bytes: 40 << 20, Stripes: 4})
	defer table.Close()
	key := func(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }
	value := func(i int) []byte { return bytes.Repeat(key(i), 100) }
	const count, left = 10_000, 1000
	for i := range count {
		table.Publish(1, key(i), value(i), false)
	}
	table.SetApplied(1)
	table.DropRange(key(left), nil)
	table.ReclaimFree()
	for i := range left {
		if got, state := table.Get(key(i), nil); state != Present || !bytes.Equal(got, value(i)) {
			t.Fatalf("key %d is %v, %.20q", i, state, got)
		}
	}
	for i := range count { // in blocks that were given back
		table.Publish(2, key(i), value(i), false)
	}
	for i := range count {
		if got, state := table.Get(key(i), nil); state != Present || !bytes.Equal(got, value(i)) {
			t.Fatalf("key %d is %v, %.20q", i, state, got)
		}
	}
}
