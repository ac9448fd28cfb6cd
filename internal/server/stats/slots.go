package stats

import (
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/hash"
)

// SlotCounters are what is asked of each slot of the default keyspace, for CLUSTER SLOT-STATS. All workers count in one
// table of 384 KiB: keys are spread over slots, so that two seldom write to the same line. It costs about 15 ns for each
// key, so that it is there only if it is asked for.
type SlotCounters struct{ slots [hash.Slots]slotCounter }

type slotCounter struct {
	busyNS            atomic.Int64
	bytesIn, bytesOut atomic.Uint64
}

// SlotStats is what was asked of a slot.
type SlotStats struct {
	Busy              time.Duration
	BytesIn, BytesOut uint64
}

// Record counts an operation on a key of a slot.
func (c *SlotCounters) Record(slot uint16, busy time.Duration, bytesIn, bytesOut int) {
	s := &c.slots[slot%hash.Slots]
	s.busyNS.Add(int64(busy))
	s.bytesIn.Add(uint64(max(0, bytesIn)))
	s.bytesOut.Add(uint64(max(0, bytesOut)))
}

// Of returns what was asked of a slot.
func (c *SlotCounters) Of(slot uint16) SlotStats {
	s := &c.slots[slot%hash.Slots]
	return SlotStats{time.Duration(s.busyNS.Load()), s.bytesIn.Load(), s.bytesOut.Load()}
}
