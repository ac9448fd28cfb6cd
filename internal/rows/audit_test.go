package rows

import (
	"fmt"
	"hash/maphash"
)

// audit compares a stripe's counters, lists and index with what lies in its
// blocks: the invariants of DESIGN.md.
func (s *stripe) audit() error {
	live, pinned, total := 0, 0, len(s.blocks.spare)
	sawHead := s.blocks.head == 0
	previous := uint32(0)
	for n := s.blocks.all[0].newer; n != 0; n = s.blocks.all[n].newer {
		b := &s.blocks.all[n]
		if b.older != previous {
			return fmt.Errorf("block %d: older is %d, want %d", n, b.older, previous)
		}
		previous, sawHead = n, sawHead || n == s.blocks.head
		total += len(b.data)
		rows, held, weights, err := s.auditBlock(n)
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
	return nil
}

func (s *stripe) auditBlock(n uint32) (rows, live, pinned int, err error) {
	b := &s.blocks.all[n]
	at := 0
	for at < b.used {
		r := row(b.data[at:])
		if !r.has(flagDead) {
			rows++
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
