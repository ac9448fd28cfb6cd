package node

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// Snapshot is the state of some stores at one moment: what was committed by then,
// transactions across stores whole or not at all. It belongs to one
// goroutine: see Fork. Close it.
type Snapshot struct {
	node   *Node
	stores []storeSnapshot
	// resolver is nil if no transaction had locked anything.
	resolver *outcomeResolver
}

// storeSnapshot is one store in a view.
type storeSnapshot struct {
	host   *StoreHost
	groups GroupStates
	snap   *store.Snapshot // nil if the view is of the state itself
	// visible is the last one, or what is seen if there are no locks.
	visible visibleState
}

// maxSnapshotTries is how often stores are read before their groups are held. A read takes a
// fraction of the millisecond in which the clocks must not move.
const maxSnapshotTries = 10

// Snapshot returns the state of stores now.
//
// It reads without disturbing any writer. If the clocks and the ranges of the groups were the
// same before and after, it has seen one moment; if that does not work out, the groups stand
// still for a moment.
func (n *Node) Snapshot(ctx context.Context, hosts ...*StoreHost) (*Snapshot, error) {
	for {
		v, err := n.trySnapshot(ctx, hosts)
		// A group that was removed does not matter, unless all are.
		gone := errors.Is(err, group.ErrClosed) || errors.Is(err, ownership.ErrWrongGroup)
		if !gone || n.ctx.Err() != nil {
			return v, err
		}
	}
}

func (n *Node) trySnapshot(ctx context.Context, hosts []*StoreHost) (*Snapshot, error) {
	if err := waitReady(ctx, hosts); err != nil {
		return nil, err
	}
	apart := len(hosts) > 1
	for attempt := 0; ; attempt++ {
		if apart { // a snapshot would fail meanwhile
			if err := n.handovers.wait(ctx); err != nil {
				return nil, err
			}
		}
		var v *Snapshot
		var err error
		// A job that hands a range over waits for its turns: no group is held until it has them.
		if attempt < maxSnapshotTries || apart && n.handovers.hasOpen() {
			v, err = n.takeSnapshot(hosts, false)
		} else {
			v, err = n.takeSnapshotWhilePaused(ctx, hosts)
		}
		if err != nil || v != nil {
			return v, err
		}
		runtime.Gosched()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// takeSnapshotWhilePaused looks while the groups of the stores stand still.
func (n *Node) takeSnapshotWhilePaused(ctx context.Context, hosts []*StoreHost) (v *Snapshot, err error) {
	var groups []*group.Group
	for _, h := range hosts {
		groups = append(groups, h.listGroups()...)
	}
	var failed error
	err = group.RunBetweenBatches(ctx, groups, func() { v, failed = n.takeSnapshot(hosts, true) })
	if v != nil && !v.isOnlyOf(groups) {
		v.Close() // one was opened meanwhile, and does not stand still
		v = nil
	}
	return v, errors.Join(err, failed)
}

// isOnlyOf reports whether the view goes by what some groups knew, and by no others.
func (v *Snapshot) isOnlyOf(groups []*group.Group) bool {
	for i := range v.stores {
		for _, k := range v.stores[i].groups.states {
			if !slices.Contains(groups, k.group) {
				return false
			}
		}
	}
	return true
}

// takeSnapshot takes the state of stores, or nil if it turns out not to be of one moment. If
// their groups are held they need not be watched.
func (n *Node) takeSnapshot(hosts []*StoreHost, held bool) (*Snapshot, error) {
	handing := n.handovers.changeCount()
	v := &Snapshot{node: n, stores: make([]storeSnapshot, len(hosts))}
	locked := false
	stores := make([]*store.Store, len(hosts), len(n.storeHosts))
	for i, h := range hosts {
		v.stores[i] = storeSnapshot{host: h, groups: h.GroupStates()}
		locked = locked || v.stores[i].groups.hasLocks
		stores[i] = h.Store
	}
	if locked { // the decisions of all groups count
		for _, h := range n.storeHosts {
			if !slices.Contains(hosts, h) {
				stores = append(stores, h.Store)
			}
		}
	}
	snaps, err := store.SnapshotAll(stores...)
	if err != nil {
		return nil, err
	}
	for i := range v.stores {
		v.stores[i].snap, v.stores[i].visible.reader = snaps[i], snaps[i]
	}
	if locked {
		v.resolver = newOutcomeResolver(v.stores, snaps)
	}
	still := len(hosts) == 1 || n.handovers.isUnchangedSince(handing) // between two stores no group has a range for a moment
	for i := 0; i < len(hosts) && still && !held; i++ {
		still = v.stores[i].groups.isUnchangedButLocks() && (locked || v.stores[i].groups.IsUnchanged())
	}
	if !still {
		v.Close()
		return nil, nil
	}
	return v, nil
}

// Close gives back what the view holds.
func (v *Snapshot) Close() {
	for i := range v.stores {
		if v.stores[i].snap != nil {
			v.stores[i].snap.Close()
		}
	}
	if v.resolver != nil {
		for _, other := range v.resolver.snapshots[len(v.stores):] {
			other.Close()
		}
	}
}

// Fork returns the same state for another goroutine. It must not be closed, nor used after the
// snapshot was.
func (v *Snapshot) Fork() *Snapshot {
	f := *v
	if f.resolver == nil {
		return &f // then nothing changes what is visible
	}
	f.stores = slices.Clone(v.stores)
	for i := range f.stores {
		f.stores[i].visible = visibleState{}
	}
	f.resolver = v.resolver.fork()
	return &f
}

// HasStore reports whether the view is of a store.
func (v *Snapshot) HasStore(h *StoreHost) bool {
	return slices.ContainsFunc(v.stores, func(s storeSnapshot) bool { return s.host == h })
}

// StoreHosts returns the stores that the view is of.
func (v *Snapshot) StoreHosts() (hosts []*StoreHost) {
	for i := range v.stores {
		hosts = append(hosts, v.stores[i].host)
	}
	return hosts
}

// LogPositions returns the place in the log of each store of the node that the view shows.
// It must be of all of them.
func (v *Snapshot) LogPositions() []wal.Position {
	at := make([]wal.Position, len(v.node.storeHosts))
	for i := range v.stores {
		at[slices.Index(v.node.storeHosts, v.stores[i].host)] = v.stores[i].snap.Position()
	}
	return at
}

// WaitReady returns when a read that begins now sees all that was acknowledged.
func (h *StoreHost) WaitReady(ctx context.Context) error {
	for _, p := range h.GroupHosts() {
		if err := p.Group.ReadBarrier(ctx); err != nil {
			return err
		}
		p.Group.EnsureTime(ctx)
	}
	return nil
}

func waitReady(ctx context.Context, hosts []*StoreHost) error {
	for _, h := range hosts {
		if err := h.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (h *StoreHost) listGroups() []*group.Group {
	parts := h.GroupHosts()
	groups := make([]*group.Group, len(parts))
	for i, p := range parts {
		groups[i] = p.Group
	}
	return groups
}

// GroupStates is what the groups of a host knew at one moment.
type GroupStates struct {
	states   []groupState
	hasLocks bool
	// hasRangeLocks reports whether a range was locked, and not only keys.
	hasRangeLocks bool
}

// groupState is what one group knew.
type groupState struct {
	group       *group.Group
	clockMS     int64
	ownership   *ownership.Table
	lockChanges uint64
	lockEpoch   uint64 // of its locks
}

// GroupStates returns what the groups know now.
func (h *StoreHost) GroupStates() GroupStates {
	parts := h.GroupHosts()
	m := GroupStates{states: make([]groupState, len(parts))}
	for i, p := range parts {
		k := &m.states[i]
		k.group, k.clockMS, k.ownership, k.lockEpoch = p.Group, p.Group.NowMS(), p.Group.OwnershipTable(), p.Group.LockEpoch()
		locked, changes := p.Group.LockStatus()
		k.lockChanges, m.hasLocks = changes, m.hasLocks || locked
		m.hasRangeLocks = m.hasRangeLocks || locked && p.Group.HasRangeLocks()
	}
	return m
}

// HasLocks reports whether there were locks of transactions: what they are about to
// write may have happened.
func (m *GroupStates) HasLocks() bool { return m.hasLocks }

// IsUnchanged reports whether the groups know what they knew at the moment, and no more.
func (m *GroupStates) IsUnchanged() bool {
	for i := range m.states {
		if _, changes := m.states[i].group.LockStatus(); changes != m.states[i].lockChanges {
			return false
		}
	}
	return m.isUnchangedButLocks()
}

// isUnchangedButLocks is IsUnchanged for a caller that has checked the locks itself.
func (m *GroupStates) isUnchangedButLocks() bool {
	for i := range m.states {
		k := &m.states[i]
		if k.group.IsChangingOwnership() || k.group.NowMS() != k.clockMS || k.group.OwnershipTable() != k.ownership {
			return false
		}
	}
	return true
}

// NowMS returns the time at which the expiry of a key was checked: that of the group that served
// it.
func (m *GroupStates) NowMS(p partition.Position) (int64, error) {
	k := m.findServing(p)
	if k == nil {
		return 0, ownership.ErrWrongGroup
	}
	return k.clockMS, nil
}

// findServing returns the group that served a position, nil if none did.
func (m *GroupStates) findServing(p partition.Position) *groupState {
	for i := range m.states {
		if k := &m.states[i]; k.ownership.CanRead(p) {
			return k
		}
	}
	return nil
}

// servedUpTo returns up to where a group served everything, from a position on.
func (m *GroupStates) servedUpTo(p partition.Position) (end partition.Position, ok bool) {
	for i := range m.states {
		if end, ok = m.states[i].ownership.FindReadableEnd(p); ok {
			return end, true
		}
	}
	return nil, false
}

// CheckServed returns nil if groups of the host served all of a span at the moment.
func (m *GroupStates) CheckServed(s partition.Span) error {
	for at := s.Start; ; {
		end, ok := m.servedUpTo(at)
		if !ok {
			return ownership.ErrWrongGroup
		}
		if at = end; endReaches(end, s.End) {
			return nil
		}
	}
}

// endReaches reports whether an end is not before another. An empty one is that of the
// space.
func endReaches(end, other partition.Position) bool {
	return len(end) == 0 || len(other) > 0 && bytes.Compare(end, other) >= 0
}

// handovers counts ranges that are changing stores: the one that had them has given them up, and
// the other does not serve them yet. A snapshot of several stores then finds a range that no
// group serves.
type handovers struct {
	openCount atomic.Int64
	changes   atomic.Uint64
	noneOpen  notifier // rings when the last of them is served again
}

// maxHandoverWait is how long a snapshot waits for that to be over, which takes two commands,
// before it finds out whether the stores are there at all.
const maxHandoverWait = 100 * time.Millisecond

// begin notes that a range is about to be given up. Call what it returns when it is
// served again.
func (h *handovers) begin() (end func()) {
	h.openCount.Add(1)
	h.changes.Add(1)
	return func() {
		h.changes.Add(1)
		if h.openCount.Add(-1) == 0 {
			h.noneOpen.notify()
		}
	}
}

// wait waits until no range is changing stores, but not for long.
func (h *handovers) wait(ctx context.Context) error {
	if !h.hasOpen() {
		return nil
	}
	none := h.noneOpen.subscribe()
	if !h.hasOpen() {
		return nil
	}
	return waitContext(ctx, none, maxHandoverWait)
}

func (h *handovers) hasOpen() bool { return h.openCount.Load() > 0 }

func (h *handovers) changeCount() uint64 { return h.changes.Load() }

// isUnchangedSince reports whether nothing was being handed over since mark.
func (h *handovers) isUnchangedSince(mark uint64) bool {
	return !h.hasOpen() && h.changes.Load() == mark
}

// maxOptimisticReads is how often ReadSnapshot reads rows before it takes a snapshot.
const maxOptimisticReads = 3

// commitSequences returns how often something became visible in stores.
func commitSequences(hosts []*StoreHost) []uint64 {
	list := make([]uint64, len(hosts))
	for i, h := range hosts {
		list[i] = h.Store.Sequence()
	}
	return list
}

// ReadSnapshot calls read with the state of stores at one moment. It is for a few rows: those
// are read from memory, and if something became visible meanwhile, read again. So
// read may be called several times, and what it got in the last call counts; its
// error is returned. It must not keep the view.
func (n *Node) ReadSnapshot(ctx context.Context, hosts []*StoreHost, read func(*Snapshot) error) error {
	if err := waitReady(ctx, hosts); err != nil {
		return err
	}
	for range maxOptimisticReads {
		handing, before := n.handovers.changeCount(), commitSequences(hosts)
		v := &Snapshot{node: n, stores: make([]storeSnapshot, len(hosts))}
		locked := false
		for i, h := range hosts {
			m := h.GroupStates()
			locked = locked || m.hasLocks
			v.stores[i] = storeSnapshot{host: h, groups: m, visible: visibleState{reader: h.Store}}
		}
		if locked {
			break
		}
		err := read(v)
		still := slices.Equal(commitSequences(hosts), before) && (len(hosts) == 1 || n.handovers.isUnchangedSince(handing))
		for i := range v.stores {
			still = still && before[i]%2 == 0 && v.stores[i].groups.IsUnchanged()
		}
		if still {
			return err
		}
		runtime.Gosched()
	}
	v, err := n.Snapshot(ctx, hosts...)
	if err != nil {
		return err
	}
	defer v.Close()
	return read(v)
}
