package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// Host is a store with the groups that live on it.
type Host struct {
	Store *store.Store
	parts atomic.Pointer[[]*Part]
	index int
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
}

// storeLabel is the label of a group that says on which store it lives.
const storeLabel = "store"

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
	h := &Host{Store: s, index: i}
	h.parts.Store(new([]*Part))
	n.hosts = append(n.hosts, h)
	return nil
}

// openGroup opens a group of the map on its store.
func (n *Node) openGroup(g partition.Group) error {
	text, _ := g.Labels.Value(storeLabel)
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(n.hosts) {
		return fmt.Errorf("%w: the map has %v on store %q of %d: restore a backup", store.ErrCorrupt, g.ID, text, len(n.hosts))
	}
	h := n.hosts[i]
	if n.part(g.ID) != nil {
		return nil // the first one is opened before there is a map
	}
	log := &drive.Log{Store: h.Store, Group: g.ID, Committed: n.feeds.ring}
	opened, err := group.Open(log, h.Store, group.Options{
		ID: g.ID, Wall: n.opts.Wall, Queue: n.opts.Queue, Refuse: n.opts.Refuse, Remember: n.opts.Remember,
	})
	if err != nil {
		return fmt.Errorf("open %v: %w", g.ID, err)
	}
	p := &Part{ID: g.ID, Host: h, Store: h.Store, Group: opened}
	n.admit(p)
	return nil
}

// admit adds a group to those that are known. Calls are made one after the other.
func (n *Node) admit(p *Part) {
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

// View is the state of a host at one moment. Close it.
type View struct {
	*store.Snapshot
	host *Host
	Moment
}

// Moment is what the groups of a host knew at one.
type Moment struct {
	parts  []*Part
	clocks []int64
	lists  []*own.List
}

// patience is how often a host is looked at before its groups are held.
const patience = 3

// View returns the state of now.
func (h *Host) View(ctx context.Context) (*View, error) {
	v := &View{host: h}
	if err := h.Ready(ctx); err != nil {
		return nil, err
	}
	for range patience {
		v.Moment = h.Moment()
		snap, err := h.Store.Snapshot()
		if err != nil {
			return nil, err
		}
		if h.Still(&v.Moment) {
			v.Snapshot = snap
			return v, nil
		}
		snap.Close() // a batch may have followed the clock
	}
	var failed error
	err := group.Still(ctx, h.groups(), func() {
		v.Moment = h.Moment()
		v.Snapshot, failed = h.Store.Snapshot()
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return v, nil
}

// Ready returns when a read that begins now sees all that was acknowledged.
func (h *Host) Ready(ctx context.Context) error {
	for _, p := range h.Parts() {
		if err := p.Group.Ready(ctx); err != nil {
			return err
		}
		p.Group.Timely(ctx)
	}
	return nil
}

func (h *Host) groups() []*group.Group {
	parts := h.Parts()
	groups := make([]*group.Group, len(parts))
	for i, p := range parts {
		groups[i] = p.Group
	}
	return groups
}

// Moment returns what the groups know now.
func (h *Host) Moment() Moment {
	parts := h.Parts()
	m := Moment{parts, make([]int64, len(parts)), make([]*own.List, len(parts))}
	for i, p := range parts {
		m.clocks[i], m.lists[i] = p.Group.NowMS(), p.Group.List()
	}
	return m
}

// Still tells whether the groups know what they knew at m, and no more.
func (h *Host) Still(m *Moment) bool {
	for i, p := range m.parts {
		if p.Group.NowMS() != m.clocks[i] || p.Group.List() != m.lists[i] {
			return false
		}
	}
	return true
}

// NowMS returns the time by which a key was judged at the moment: that of the group
// that served it.
func (m *Moment) NowMS(p partition.Position) (int64, error) {
	for i, l := range m.lists {
		if r, ok := l.Find(p); ok && r.Reads() {
			return m.clocks[i], nil
		}
	}
	return 0, own.ErrWrongGroup
}

// Serves returns nil if groups of the host served all of a span at the moment.
func (m *Moment) Serves(s partition.Span) error {
	for _, l := range m.lists {
		if l.Covers(s) {
			return nil
		}
	}
	at := s.Start
	for next := true; next; {
		next = false
		for _, l := range m.lists {
			r, ok := l.Find(at)
			if !ok || !r.Reads() {
				continue
			}
			if at = r.Span.End; len(at) == 0 || len(s.End) > 0 && bytes.Compare(at, s.End) >= 0 {
				return nil
			}
			next = true
		}
	}
	return own.ErrWrongGroup
}

// LatestMS returns the latest time that a group had at the moment.
func (m *Moment) LatestMS() int64 { return slices.Max(m.clocks) }
