package rows

import (
	"fmt"
	"hash/maphash"
)

// audit compares a stripe's counters, lists and index with what lies in its
// blocks: the invariants of DESIGN.md.
func (s *stripe) audit() error {
	live, pinned, total := 0, 0, len(s.blocks.spare)
	classes := map[uint32]*Class{}
	sawHead := s.blocks.head == 0
	previous := uint32(0)
	for n := s.blocks.all[0].newer; n != 0; n = s.blocks.all[n].newer {
		b := &s.blocks.all[n]
		if b.older != previous {
			return fmt.Errorf("block %d: older is %d, want %d", n, b.older, previous)
		}
		previous, sawHead = n, sawHead || n == s.blocks.head
		total += len(b.data)
		rows, held, weights, err := s.auditBlock(n, classes)
		if err != nil {
			return err
		}
		if held != b.live {
			return fmt.Errorf("block %d: %d bytes live, counted %d", n, held, b.live)
		}
		live += rows
		pinned += weights
	}
	switch {
	case !sawHead:
		return fmt.Errorf("head %d is not in the list", s.blocks.head)
	case total != s.blocks.bytes:
		return fmt.Errorf("%d bytes of blocks, counted %d", total, s.blocks.bytes)
	case live != s.index.count:
		return fmt.Errorf("%d rows in blocks, %d in the index", live, s.index.count)
	case pinned != s.pins.total:
		return fmt.Errorf("%d bytes pinned, counted %d", pinned, s.pins.total)
	}
	return s.auditCounts(classes)
}

// auditCounts compares what is counted by class, and held, with what there is.
func (s *stripe) auditCounts(classes map[uint32]*Class) error {
	held := 0
	for class := range uint32(len(s.counts.few)) {
		got, want := s.counts.few[class], classes[class]
		if want == nil {
			want = new(Class)
		}
		if got.Rows != want.Rows || got.RowBytes != want.RowBytes || got.Held != want.Held || got.HeldBytes != want.HeldBytes {
			return fmt.Errorf("class %d: %+v, counted %+v", class, got, *want)
		}
		held += int(got.HeldBytes)
	}
	if held != s.held {
		return fmt.Errorf("%d bytes are held, counted %d", s.held, held)
	}
	return nil
}

func (s *stripe) auditBlock(n uint32, classes map[uint32]*Class) (rows, live, pinned int, err error) {
	b := &s.blocks.all[n]
	at := 0
	for at < b.used {
		r := row(b.data[at:])
		if !r.has(flagDead) {
			rows++
			class := s.table.classOf(r.key())
			if classes[class] == nil {
				classes[class] = new(Class)
			}
			c := classes[class]
			if c.came(r.extent()); r.has(flagHeld) {
				c.Held, c.HeldBytes = c.Held+1, c.HeldBytes+int64(weight(r.extent()))
			}
			live += r.extent()
			if r.generation() > s.pins.settled {
				pinned += weight(r.extent())
			}
			hash := maphash.Bytes(s.table.seed, r.key())
			if _, place, _ := s.find(hash, r.key()); place != s.blocks.placeOf(n, at) {
				return 0, 0, 0, fmt.Errorf("row %q at %d.%d: the index says %#x", r.key(), n, at, place)
			}
		}
		at += r.extent()
	}
	if at != b.used {
		return 0, 0, 0, fmt.Errorf("block %d: rows end at %d, not %d", n, at, b.used)
	}
	return rows, live, pinned, nil
}
