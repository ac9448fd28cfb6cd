package group

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// publishedGuard is what readers past the queue see of the guard: the ownership table and the
// locks as of the last batch that is durable.
//
// It follows the publication of the batch's rows and precedes its answers. So a reader may meet
// a lock whose transaction is already resolved, and then finds the row as it left it; but no
// answer reports that a key is changed, or is another group's, while a reader still sees the key
// without the lock, or the range.
type publishedGuard struct {
	table atomic.Pointer[ownership.Table]
	// tableChanges is not 0 while the groups of a batch publish ownership tables that belong
	// together.
	tableChanges atomic.Int64
	// lockCount is how many locks there are. Mostly none, and no reader takes mu.
	lockCount atomic.Int64
	// rangeLockCount is how many of them are of ranges.
	rangeLockCount atomic.Int64
	// lockChanges counts the batches that have changed one.
	lockChanges atomic.Uint64
	mu          sync.RWMutex
	locks       *txn.Locks
	// changed is closed when a table or lock has changed, for those that wait.
	changed chan struct{}
	// hasWaiters reports whether one has begun to wait, and was not noticed yet.
	hasWaiters atomic.Bool
	// traces hold where locks were.
	traces lockTraces
}

func (v *publishedGuard) init(g *guard) {
	v.locks, v.changed = txn.NewLocks(), make(chan struct{})
	v.table.Store(g.ownerSite.Table)
	for _, l := range g.locks.ListAll() {
		v.locks.Add(*l)
	}
	v.traces.epoch.Store(1) // nothing was ever removed, at 0
	v.traces.beginBatch(v.locks.ListChanges())
	v.locks.BeginBatch()
	v.lockCount.Store(int64(v.locks.Len()))
	v.rangeLockCount.Store(int64(v.locks.RangeCount()))
}

// publishGuard publishes what g has, and wakes those that wait for a change. The locks of g
// still know what the batch has changed.
func (v *publishedGuard) publishGuard(g *guard, locks bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if locks {
		v.lockCount.Add(1) // a reader of a range that has come asks for its locks, and waits until they are here
		if v.table.Load() != g.ownerSite.Table {
			v.rangeLockCount.Add(1) // they may be of ranges
		}
	}
	v.table.Store(g.ownerSite.Table) // a reader that sees a lock gone with its range sees this table
	if locks {
		v.locks.ApplyChanges(g.locks)
		v.lockCount.Store(int64(v.locks.Len()))
		v.rangeLockCount.Store(int64(v.locks.RangeCount()))
		v.lockChanges.Add(1)
	}
	v.wakeWaitersLocked()
}

// wakeWaiters wakes those that wait for a change: a reservation was granted.
func (v *publishedGuard) wakeWaiters() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wakeWaitersLocked()
}

func (v *publishedGuard) wakeWaitersLocked() {
	v.hasWaiters.Store(false)
	close(v.changed)
	v.changed = make(chan struct{})
}

// changedChan returns a channel that is closed at the next change.
func (v *publishedGuard) changedChan() <-chan struct{} {
	v.mu.RLock()
	defer v.mu.RUnlock()
	v.hasWaiters.Store(true)
	return v.changed
}

// findWriteLock returns a copy of the lock of a transaction that writes the key at p, or nil.
func (v *publishedGuard) findWriteLock(p partition.Position) *txn.Lock {
	if v.lockCount.Load() == 0 {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	lock := v.locks.FindKeyConflict(txn.ID{}, p, false)
	if lock == nil {
		return nil
	}
	found := *lock // it belongs to the locks, and they change
	return &found
}

// expiryCheckMS is [command.Guard]'s ExpiryCheckMS for readers.
func (v *publishedGuard) expiryCheckMS(p partition.Position, nowMS int64) int64 {
	if v.lockCount.Load() == 0 {
		return nowMS
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.locks.ExpiryCheckMS(p, nowMS)
}

// LockStatus reports whether transactions hold locks, for readers that then ask the deciders,
// and returns the number of batches that have changed a lock. A reader that finds no lock, and
// the same number before and after it reads the state, has read it without locks, except for
// those that were not acknowledged to any caller.
func (g *Group) LockStatus() (locked bool, changes uint64) {
	changes = g.published.lockChanges.Load()
	return g.published.lockCount.Load() > 0, changes
}

// IsChangingOwnership reports whether the group is changing its table together with others, and
// perhaps not all of them have published theirs. A caller that gets false, and then the tables
// that it has read before, has read tables that belong together.
func (g *Group) IsChangingOwnership() bool { return g.published.tableChanges.Load() > 0 }

// HasRangeLocks reports whether a range is locked.
func (g *Group) HasRangeLocks() bool { return g.published.rangeLockCount.Load() > 0 }

// ListLocks returns the locks that there are.
func (g *Group) ListLocks() (locks []txn.Lock) {
	if g.published.lockCount.Load() == 0 {
		return nil
	}
	g.published.mu.RLock()
	defer g.published.mu.RUnlock()
	for _, l := range g.published.locks.ListAll() {
		locks = append(locks, *l)
	}
	return locks
}

// ListOverdueLocks returns a lock of each transaction whose deadline has passed.
func (g *Group) ListOverdueLocks() (locks []txn.Lock) {
	if g.published.lockCount.Load() == 0 {
		return nil
	}
	g.published.mu.RLock()
	defer g.published.mu.RUnlock()
	for _, l := range g.published.locks.ListOverdue(g.clock.now()) {
		locks = append(locks, *l)
	}
	return locks
}

// Changed returns a channel that is closed when a lock or a range changes after the call, or a
// reservation that others wait behind is released. Piggybacked requests are executed at once.
func (g *Group) Changed() <-chan struct{} {
	changed := g.published.changedChan()
	if g.piggyback.hasCalls() {
		go g.flushPiggyback()
	}
	return changed
}

// HasWaiters reports whether a caller has begun to wait for a lock or a range to change, since a
// queued request was last hurried for that.
func (g *Group) HasWaiters() bool { return g.published.hasWaiters.Load() }

// lockTraces is for readers of a snapshot: it has which keys were not locked in it, without a
// search of its locks. Keys share slots, so a key that was not locked may count as locked.
//
// A batch that changes locks has an epoch, one more than the last, which it takes
// before it is committed. A reader takes the epoch of then before it takes the
// snapshot. Invariants: a lock is counted before any snapshot has it; it is counted
// until none that is taken later has it; and by then its slot has the epoch of the
// batch that removes it. If that is before the epoch of a reader, the batch was
// visible before the snapshot was taken, because batches of a group come one by one.
type lockTraces struct {
	epoch atomic.Uint64
	slots [traceSlots]lockTrace
}

type lockTrace struct {
	locks        atomic.Int32  // on keys of the slot, in memory, or on their way
	removedEpoch atomic.Uint64 // epoch of the last batch that has removed one
}

var traceSeed = maphash.MakeSeed()

func (t *lockTraces) slotOf(p partition.Position) *lockTrace {
	return &t.slots[maphash.Bytes(traceSeed, p)%traceSlots]
}

// beginBatch notes what a batch changes, before it is committed.
func (t *lockTraces) beginBatch(changes []txn.LockChange) {
	if len(changes) == 0 {
		return
	}
	epoch := t.epoch.Add(1)
	for _, c := range changes {
		switch slot := t.slotOf(c.Lock.Start); {
		case c.Lock.Range: // a reader that meets one searches all locks
		case c.Added:
			slot.locks.Add(1)
		default:
			slot.removedEpoch.Store(epoch)
		}
	}
}

// endBatch notes what became of it: what was removed is so when the batch is visible, and
// what was added never was if it has failed.
func (t *lockTraces) endBatch(changes []txn.LockChange, committed bool) {
	for _, c := range changes {
		if !c.Lock.Range && c.Added != committed {
			t.slotOf(c.Lock.Start).locks.Add(-1)
		}
	}
}

// LockEpoch is for MayHaveLock. Take it before the snapshot.
func (g *Group) LockEpoch() uint64 { return g.published.traces.epoch.Load() }

// MayHaveLock reports whether a key of the group may have been locked in a snapshot that was
// taken after an epoch. Locks of ranges do not count.
func (g *Group) MayHaveLock(key partition.Position, epoch uint64) bool {
	slot := g.published.traces.slotOf(key)
	return slot.locks.Load() > 0 || slot.removedEpoch.Load() >= epoch
}
