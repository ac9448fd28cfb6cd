package node

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Host is a store with the groups that live on it.
type Host struct {
	Store *store.Store
	parts atomic.Pointer[[]*Part]
	index int
	syncs syncs
	// joints are the batches of several of its groups.
	joints *group.Joints
}

// Parts returns the groups of now, in the order of their ids. Whoever looks at them
// twice for one thing keeps what it got: there may be more of them by then, or fewer.
func (h *Host) Parts() []*Part { return *h.parts.Load() }

// Part is a group with its store. It owns a part of the keys.
type Part struct {
	ID    partition.GroupID
	Host  *Host
	Store *store.Store
	Group *group.Group
	stop  context.CancelFunc // of its housekeeping
}

// storeLabel is the label of a group that says on which store it lives.
const storeLabel = "store"

// Nowhere is the store of a group that a map does not have: no store has the number.
const Nowhere = math.MaxInt32

// StoreOf returns the store of a group of a map, or Nowhere.
func StoreOf(m *partition.Map, id partition.GroupID) int {
	g, _ := m.Group(id)
	return storeOf(g)
}

func storeOf(g partition.Group) int {
	text, _ := g.Labels.Value(storeLabel)
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i > Nowhere {
		return Nowhere
	}
	return i
}

// openHost opens a store.
func (n *Node) openHost(i int, dir string) error {
	so := n.opts.Store
	so.Dir, so.Durability = dir, n.opts.Durability
	switch {
	case n.opts.FS != nil:
		so.FS = n.opts.FS(i)
	case n.opts.Dir == "":
		so.FS = store.Memory()
	}
	s, err := store.Open(so)
	if err != nil {
		return err
	}
	h := &Host{Store: s, index: i, joints: group.NewJoints()}
	h.parts.Store(new([]*Part))
	n.hosts = append(n.hosts, h)
	return nil
}

// openGroup opens a group of the map on its store.
func (n *Node) openGroup(g partition.Group) error {
	i := storeOf(g)
	if i >= len(n.hosts) {
		return fmt.Errorf("%w: the map has %v of %q on none of %d stores: restore a backup", store.ErrCorrupt, g.ID, g.Labels, len(n.hosts))
	}
	h := n.hosts[i]
	if n.part(g.ID) != nil {
		return nil // the first one is opened before there is a map
	}
	log := &drive.Log{Store: h.Store, Group: g.ID, Committed: n.feeds.ring}
	opened, err := group.Open(log, h.Store, group.Options{
		ID: g.ID, Wall: n.opts.Wall, Queue: n.opts.Queue, Refuse: n.opts.Refuse, Remember: n.opts.Remember, Joints: h.joints,
		Decided: func(_ context.Context, l txn.Lock) (txn.Outcome, error) { return n.decided(l, newest) }, Settle: n.settleLock, Failed: h.why, Hold: n.Hold,
	})
	if err != nil {
		return fmt.Errorf("open %v: %w", g.ID, err)
	}
	// Where the machine's clock was set back those of other groups stand still, and this one
	// is not to be hours behind: ids of requests, and entries of rows, go from group to group.
	if floor := n.NowMS(); floor > opened.NowMS() {
		_, _ = opened.Try(n.ctx, group.Request{Command: &own.Reown{ClockFloorMS: floor}}) // on a full disk it stays behind
	}
	p := &Part{ID: g.ID, Host: h, Store: h.Store, Group: opened}
	n.admit(p)
	return nil
}

// admit adds a group to those that are known.
func (n *Node) admit(p *Part) {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	host := append(slices.Clone(p.Host.Parts()), p)
	slices.SortFunc(host, func(a, b *Part) int { return cmp.Compare(a.ID, b.ID) })
	p.Host.parts.Store(&host)
	all := slices.Clone(*n.parts.Load())
	for len(all) <= int(p.ID) {
		all = append(all, nil)
	}
	all[p.ID] = p
	n.parts.Store(&all)
}

// dismiss takes a group from those that are known.
func (n *Node) dismiss(p *Part) {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	n.dismissed = append(n.dismissed, p)
	all := slices.Clone(*n.parts.Load())
	all[p.ID] = nil
	n.parts.Store(&all)
	host := slices.DeleteFunc(slices.Clone(p.Host.Parts()), func(x *Part) bool { return x == p })
	p.Host.parts.Store(&host)
}

// part returns the group of an id, nil if there is none.
func (n *Node) part(id partition.GroupID) *Part {
	all := *n.parts.Load()
	if id >= partition.GroupID(len(all)) {
		return nil
	}
	return all[id]
}

// Hosts returns the stores.
func (n *Node) Hosts() []*Host { return n.hosts }
