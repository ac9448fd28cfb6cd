package group

import (
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// visible is what readers past the queue see of the guard: the list and the locks
// as of the last batch that is durable.
//
// It follows the publication of the batch's rows and precedes its answers. So a
// reader may meet a lock whose transaction is already resolved, and then finds
// the row as it left it; but no answer says that a key is changed, or is another
// group's, while a reader still sees the key without the lock, or the range.
type visible struct {
	list atomic.Pointer[own.List]
	// reowning is not 0 while the groups of a batch show lists that belong together.
	reowning atomic.Int64
	// locked is how many locks there are. Mostly none, and nobody takes mu.
	locked atomic.Int64
	// spanned is how many of them are of ranges.
	spanned atomic.Int64
	// lockings counts the batches that have changed one.
	lockings atomic.Uint64
	mu       sync.RWMutex
	locks    *txn.Locks
	// changed is closed when a list or lock has changed, for those who wait.
	changed chan struct{}
	// awaited tells that somebody does, and has not been noticed.
	awaited atomic.Bool
	// traces tell where locks were.
	traces traces
}

func (v *visible) init(g *guard) {
	v.locks, v.changed = txn.NewLocks(), make(chan struct{})
	v.list.Store(g.owner.List)
	for _, l := range g.locks.All() {
		v.locks.Add(*l)
	}
	v.traces.epoch.Store(1) // nothing was ever removed, at 0
	v.traces.began(v.locks.Changes())
	v.locks.Begin()
	v.locked.Store(int64(v.locks.Len()))
	v.spanned.Store(int64(v.locks.Spans()))
}

// follow shows what g has now, and wakes those who wait for a change. The locks of g
// still know what the batch has changed.
func (v *visible) follow(g *guard, locks bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if locks {
		v.locked.Add(1) // who sees a range that has come asks for its locks, and waits until they are here
		if v.list.Load() != g.owner.List {
			v.spanned.Add(1) // they may be of ranges
		}
	}
	v.list.Store(g.owner.List) // who sees a lock gone with its range sees that this is
	if locks {
		v.locks.Follow(g.locks)
		v.locked.Store(int64(v.locks.Len()))
		v.spanned.Store(int64(v.locks.Spans()))
		v.lockings.Add(1)
	}
	v.wakeAll()
}

// wake wakes those who wait for a change: the turn of one has come.
func (v *visible) wake() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wakeAll()
}

func (v *visible) wakeAll() {
	v.awaited.Store(false)
	close(v.changed)
	v.changed = make(chan struct{})
}

// wait returns a channel that is closed at the next change.
func (v *visible) wait() <-chan struct{} {
	v.mu.RLock()
	defer v.mu.RUnlock()
	v.awaited.Store(true)
	return v.changed
}

// writer returns a copy of the lock of a transaction that writes the key at p, or nil.
func (v *visible) writer(p partition.Position) *txn.Lock {
	if v.locked.Load() == 0 {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	lock := v.locks.Key(txn.ID{}, p, false)
	if lock == nil {
		return nil
	}
	found := *lock // it belongs to the locks, and they change
	return &found
}

// judgeMS is [command.Guard]'s JudgeMS for readers.
func (v *visible) judgeMS(p partition.Position, nowMS int64) int64 {
	if v.locked.Load() == 0 {
		return nowMS
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.locks.JudgeMS(p, nowMS)
}

// Locking tells whether there are locks of transactions, for readers who then ask
// their deciders, and counts the batches that have changed one. Who finds none and
// the same count before and after a look at the state has seen it without any, but
// for such as nobody was told of.
func (g *Group) Locking() (locked bool, changes uint64) {
	changes = g.visible.lockings.Load()
	return g.visible.locked.Load() > 0, changes
}

// Reowning tells whether the group is changing its list together with others, and
// perhaps not all of them have shown theirs. Who finds that it is not, and then the
// lists that he has seen before, has seen lists that belong together.
func (g *Group) Reowning() bool { return g.visible.reowning.Load() > 0 }

// SpanLocked tells whether a range is locked.
func (g *Group) SpanLocked() bool { return g.visible.spanned.Load() > 0 }

// Locks returns the locks that there are.
func (g *Group) Locks() (locks []txn.Lock) {
	if g.visible.locked.Load() == 0 {
		return nil
	}
	g.visible.mu.RLock()
	defer g.visible.mu.RUnlock()
	for _, l := range g.visible.locks.All() {
		locks = append(locks, *l)
	}
	return locks
}

// Overdue returns a lock of each transaction whose deadline has passed.
func (g *Group) Overdue() (locks []txn.Lock) {
	if g.visible.locked.Load() == 0 {
		return nil
	}
	g.visible.mu.RLock()
	defer g.visible.mu.RUnlock()
	for _, l := range g.visible.locks.Due(g.clock.now()) {
		locks = append(locks, *l)
	}
	return locks
}

// Changed returns a channel that is closed when a lock or a range changes after the
// call, or a transaction that others wait behind has had its turn. What is late is so
// no more.
func (g *Group) Changed() <-chan struct{} {
	changed := g.visible.wait()
	if g.late.some() {
		go g.flush()
	}
	return changed
}

// Awaited tells whether somebody has begun to wait for a lock or a range to change,
// since a late request was last hurried for that.
func (g *Group) Awaited() bool { return g.visible.awaited.Load() }
