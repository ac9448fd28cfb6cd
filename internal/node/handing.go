package node

import (
	"context"
	"sync/atomic"
	"time"
)

// handing counts ranges that are changing stores: the one that had them has given
// them up, and the other does not serve them yet. Then a look at several stores
// finds a range that is nobody's.
type handing struct {
	ranges  atomic.Int64
	changes atomic.Uint64
	none    bell // rings when the last of them is served again
}

// handingMost is how long a look waits for that to be over, which takes two commands,
// before it finds out whether the stores are there at all.
const handingMost = 100 * time.Millisecond

// begin notes that a range is about to be given up. Call what it returns when it is
// served again.
func (h *handing) begin() (end func()) {
	h.ranges.Add(1)
	h.changes.Add(1)
	return func() {
		h.changes.Add(1)
		if h.ranges.Add(-1) == 0 {
			h.none.ring()
		}
	}
}

// wait waits until no range is changing stores, but not for long.
func (h *handing) wait(ctx context.Context) error {
	if !h.now() {
		return nil
	}
	none := h.none.listen()
	if !h.now() {
		return nil
	}
	return await(ctx, none, handingMost)
}

func (h *handing) now() bool { return h.ranges.Load() > 0 }

func (h *handing) mark() uint64 { return h.changes.Load() }

// same tells whether nothing was being handed over since mark.
func (h *handing) same(mark uint64) bool { return !h.now() && h.changes.Load() == mark }
