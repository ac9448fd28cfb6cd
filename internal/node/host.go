package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// StoreHost is a store with the groups that live on it.
type StoreHost struct {
	Store      *store.Store
	groupHosts atomic.Pointer[[]*GroupHost]
	index      int
	syncer     sharedSyncer
	// joints are the batches of several of its groups.
	joints      *group.JointQueue
	compactions compactionQueue
}

// GroupHosts returns the current groups, in the order of their ids. A caller that needs them
// twice for one thing keeps what it got: there may be more of them by then, or fewer.
func (h *StoreHost) GroupHosts() []*GroupHost { return *h.groupHosts.Load() }

// GroupHost is a group with its store. It owns a part of the keys.
type GroupHost struct {
	ID               partition.GroupID
	Host             *StoreHost
	Store            *store.Store
	Group            *group.Group
	stopHousekeeping context.CancelFunc // of its housekeeping
}

// storeLabel is the label of a group with the store on which it lives.
const storeLabel = "store"

// NoStore is the store of a group that a map does not have: no store has the number.
const NoStore = math.MaxInt32

// StoreOf returns the store of a group of a map, or Nowhere.
func StoreOf(m *partition.Map, id partition.GroupID) int {
	g, _ := m.Group(id)
	return parseStoreLabel(g)
}

func parseStoreLabel(g partition.Group) int {
	text, _ := g.Labels.Value(storeLabel)
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i > NoStore {
		return NoStore
	}
	return i
}

// openStore opens a store.
func (n *Node) openStore(i int, dir string) error {
	so := n.opts.Store
	so.Dir, so.Durability = dir, n.opts.Durability
	if n.opts.Log != nil {
		so.Events = storeEvents{n.events, i}
	}
	switch {
	case n.opts.FS != nil:
		so.FS = n.opts.FS(i)
	case n.opts.Dir == "":
		so.FS = store.NewMemFS()
	}
	s, err := store.Open(so)
	if err != nil {
		return err
	}
	h := &StoreHost{Store: s, index: i, joints: group.NewJointQueue()}
	h.groupHosts.Store(new([]*GroupHost))
	n.storeHosts = append(n.storeHosts, h)
	return nil
}

// openGroup opens a group of the map on its store.
func (n *Node) openGroup(g partition.Group) error {
	i := parseStoreLabel(g)
	if i >= len(n.storeHosts) {
		return fmt.Errorf("%w: the map has %v of %q on none of %d stores: restore a backup", store.ErrCorrupt, g.ID, g.Labels, len(n.storeHosts))
	}
	h := n.storeHosts[i]
	if n.lookupGroup(g.ID) != nil {
		return nil // the first one is opened before there is a map
	}
	log := &protocol.LocalLog{Store: h.Store, Group: g.ID, OnCommit: n.committed.notify}
	opened, err := group.Open(log, h.Store, group.Options{
		ID: g.ID, Wall: n.opts.Wall, WaitForClock: n.opts.waitForClock, Queue: n.opts.Queue, Refuse: n.opts.Refuse, Remember: n.opts.Remember, JointQueue: h.joints,
		LookupOutcome: func(_ context.Context, l txn.Lock) (txn.Outcome, error) { return n.readOutcome(l, newLiveReader) }, ResolveLock: n.resolveIfDecided, StoreErr: h.failureCause, Reserve: n.Reserve,
		OnSwept:       func(start, end []byte) { n.enqueueCompaction(h, start, end) },
		RecordsEvents: n.RecordsEvents,
	})
	if err != nil {
		return fmt.Errorf("open %v: %w", g.ID, err)
	}
	// Where the machine's clock was set back those of other groups stand still, and this one
	// is not to be hours behind: ids of requests, and entries of rows, go from group to group.
	if floor := n.NowMS(); floor > opened.NowMS() {
		_, _ = opened.Execute(n.ctx, group.Request{NoWait: true, Command: &ownership.ChangeOwnership{ClockFloorMS: floor}}) // on a full disk it stays behind
	}
	p := &GroupHost{ID: g.ID, Host: h, Store: h.Store, Group: opened}
	n.registerGroup(p)
	return nil
}

// registerGroup adds a group to those that are known.
func (n *Node) registerGroup(p *GroupHost) {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	host := append(slices.Clone(p.Host.GroupHosts()), p)
	slices.SortFunc(host, func(a, b *GroupHost) int { return cmp.Compare(a.ID, b.ID) })
	p.Host.groupHosts.Store(&host)
	all := slices.Clone(*n.groupHosts.Load())
	for len(all) <= int(p.ID) {
		all = append(all, nil)
	}
	all[p.ID] = p
	n.groupHosts.Store(&all)
}

// unregisterGroup takes a group from those that are known.
func (n *Node) unregisterGroup(p *GroupHost) {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	n.retiring = append(n.retiring, p)
	all := slices.Clone(*n.groupHosts.Load())
	all[p.ID] = nil
	n.groupHosts.Store(&all)
	host := slices.DeleteFunc(slices.Clone(p.Host.GroupHosts()), func(x *GroupHost) bool { return x == p })
	p.Host.groupHosts.Store(&host)
}

// lookupGroup returns the group of an id, nil if there is none.
func (n *Node) lookupGroup(id partition.GroupID) *GroupHost {
	all := *n.groupHosts.Load()
	if id >= partition.GroupID(len(all)) {
		return nil
	}
	return all[id]
}

// StoreHosts returns the stores.
func (n *Node) StoreHosts() []*StoreHost { return n.storeHosts }

// openNewGroups opens groups that the map has and the node has not.
func (n *Node) openNewGroups(ctx context.Context, ids []partition.GroupID) error {
	m, err := n.loadNewestMap(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		g, ok := m.Group(id)
		if !ok || n.lookupGroup(id) != nil {
			continue // it is there, or was removed since
		}
		if err := n.openGroup(g); err != nil {
			return err
		}
		n.startHousekeeping(n.lookupGroup(id))
	}
	return nil
}

// startHousekeeping begins the housekeeping of a group.
func (n *Node) startHousekeeping(p *GroupHost) {
	ctx, stop := context.WithCancel(n.ctx)
	p.stopHousekeeping = stop
	if n.opts.HousekeepInterval > 0 {
		n.runBackground(func() { n.housekeepGroup(ctx, p) })
	}
}

// removeGroups forgets groups that the map does not have any more. They own nothing, so a caller
// that still has one is sent elsewhere. They are closed in the background, and not opened again.
func (n *Node) removeGroups(ids []partition.GroupID) {
	for _, id := range ids {
		p := n.lookupGroup(id)
		if p == nil {
			continue
		}
		p.stopHousekeeping()
		n.unregisterGroup(p)
		n.runBackground(func() { n.retireGroup(p) })
	}
}

// retireGroup closes a group that was dismissed. If the node is closed first, that goes on
// with it.
func (n *Node) retireGroup(p *GroupHost) {
	if err := p.Group.Retire(n.ctx); err != nil {
		return
	}
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	n.retiring = slices.DeleteFunc(n.retiring, func(x *GroupHost) bool { return x == p })
}

// housekeepGroup does a group's housekeeping until ctx ends. Errors are not lost: what failed
// here fails for the next command too, and housekeeping is tried again.
func (n *Node) housekeepGroup(ctx context.Context, p *GroupHost) {
	ticker := time.NewTicker(n.opts.HousekeepInterval)
	defer ticker.Stop()
	g := p.Group
	nudged := g.HousekeepingNeeded()
	for {
		select {
		case <-ctx.Done():
			return
		case <-nudged:
		case <-ticker.C:
			nudged = g.HousekeepingNeeded()
		}
		if p.hasFailed() {
			n.committed.notify() // no commit will come: waiters for one get the reason
		}
		n.resolveOverdue(ctx, p)
		for {
			more, err := g.Housekeep(ctx)
			if err != nil {
				nudged = nil // not before the next tick: it would fail again
			}
			if err != nil || !more || ctx.Err() != nil {
				break
			}
		}
	}
}

// housekeepDropped clears dropped keyspaces until the node is closed. One of many rows takes
// long: no group waits for that with its housekeeping.
func (n *Node) housekeepDropped() {
	ticker := time.NewTicker(n.opts.HousekeepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
			_ = n.clearDropped(n.ctx) // what failed is tried again
		}
	}
}

// hasFailed reports whether the store has stopped, which it may do by itself.
func (p *GroupHost) hasFailed() bool { return p.Host.hasFailed() }

func (h *StoreHost) hasFailed() bool { return h.failureCause() != nil }

// failureCause is why the store has failed, nil if it has not.
func (h *StoreHost) failureCause() error {
	if _, _, err := h.Store.Get([]byte{byte(effect.State)}, nil); errors.Is(err, store.ErrFailed) {
		return err
	}
	return nil // there may be too many open files, which passes
}

// compactionQueue is the spans of a store that scans should not step over any longer. One at a time is
// compacted, in the background.
type compactionQueue struct {
	mu      sync.Mutex
	spans   [][2][]byte
	running bool
}

// maxPendingCompactions is how many spans wait: those that come then are left to the compactions
// that writes cause.
const maxPendingCompactions = 64

// enqueueCompaction has the deletions of a span of store keys removed from a store. It does not wait.
func (n *Node) enqueueCompaction(h *StoreHost, start, end []byte) {
	t := &h.compactions
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) == maxPendingCompactions {
		return
	}
	t.spans = append(t.spans, [2][]byte{start, end})
	if !t.running {
		t.running = true
		n.runBackground(func() { n.runCompactions(h) })
	}
}

// runCompactions compacts the spans of a store until there are none.
func (n *Node) runCompactions(h *StoreHost) {
	t := &h.compactions
	for {
		t.mu.Lock()
		if len(t.spans) == 0 || n.ctx.Err() != nil {
			t.running = false
			t.mu.Unlock()
			return
		}
		span := t.spans[0]
		t.spans = t.spans[1:]
		t.mu.Unlock()
		_ = h.Store.CompactRange(n.ctx, span[0], span[1]) // nothing but time depends on it
	}
}
