package group

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// traceSlots is how many keys are told from each other: many times those that are
// locked at once.
const traceSlots = 1024

// traces tells readers of a snapshot which keys were not locked in it, without a look
// at its locks. Keys share slots, so it may name one that was not locked either.
//
// A batch that changes locks has an epoch, one more than the last, which it takes
// before it is committed. A reader takes the epoch of then before it takes the
// snapshot. Invariants: a lock is counted before any snapshot has it; it is counted
// until none that is taken later has it; and by then its slot has the epoch of the
// batch that removes it. If that is before the epoch of a reader, the batch was
// visible before the snapshot was taken, because batches of a group come one by one.
type traces struct {
	epoch atomic.Uint64
	slots [traceSlots]trace
}

type trace struct {
	locks atomic.Int32  // on keys of the slot, in memory, or on their way
	gone  atomic.Uint64 // epoch of the last batch that has removed one
}

var traceSeed = maphash.MakeSeed()

func (t *traces) of(p partition.Position) *trace {
	return &t.slots[maphash.Bytes(traceSeed, p)%traceSlots]
}

// began notes what a batch changes, before it is committed.
func (t *traces) began(changes []txn.Change) {
	if len(changes) == 0 {
		return
	}
	epoch := t.epoch.Add(1)
	for _, c := range changes {
		switch slot := t.of(c.Lock.Start); {
		case c.Lock.Range: // whoever meets one looks at all locks
		case c.Added:
			slot.locks.Add(1)
		case !plant.Bug("group-trace-lost"):
			slot.gone.Store(epoch)
		}
	}
}

// ended notes what became of it: what was removed is so when the batch is visible, and
// what was added never was if it has failed.
func (t *traces) ended(changes []txn.Change, committed bool) {
	for _, c := range changes {
		if !c.Lock.Range && c.Added != committed {
			t.of(c.Lock.Start).locks.Add(-1)
		}
	}
}

// LockEpoch is for MayLock. Take it before the snapshot.
func (g *Group) LockEpoch() uint64 { return g.visible.traces.epoch.Load() }

// MayLock tells whether a key of the group may have been locked in a snapshot that was
// taken after an epoch. Locks of ranges do not count.
func (g *Group) MayLock(key partition.Position, epoch uint64) bool {
	slot := g.visible.traces.of(key)
	return slot.locks.Load() > 0 || slot.gone.Load() >= epoch
}
