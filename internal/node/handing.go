package node

import (
	"sync/atomic"
	"time"
)

// handing counts ranges that are changing stores: the one that had them has given
// them up, and the other does not serve them yet. Then a look at several stores
// finds a range that is nobody's.
type handing struct {
	ranges  atomic.Int64
	changes atomic.Uint64
}

// handingPause is how long a look waits for that to be over: it takes two commands.
const handingPause = 200 * time.Microsecond

// begin notes that a range is about to be given up. Call what it returns when it is
// served again.
func (h *handing) begin() (end func()) {
	h.ranges.Add(1)
	h.changes.Add(1)
	return func() {
		h.changes.Add(1)
		h.ranges.Add(-1)
	}
}

func (h *handing) now() bool { return h.ranges.Load() > 0 }

func (h *handing) mark() uint64 { return h.changes.Load() }

// same tells whether nothing was being handed over since mark.
func (h *handing) same(mark uint64) bool { return !h.now() && h.changes.Load() == mark }
