package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// shardsPerGroup is how many shards of a hash keyspace a group begins with: a few,
// so that there is something to give away before anything is split.
const shardsPerGroup = 4

// firstGroup owns the catalog, for ever.
const firstGroup partition.GroupID = 1

// firstMapVersion is that of the first map: no group has anything before it, and only
// jobs and placings make later ones.
const firstMapVersion = 2

// openGroups reads the map, or makes the first one, and opens its groups.
func (n *Node) openGroups(ctx context.Context) error {
	m, err := n.readStoredMap()
	if err != nil {
		return err
	}
	if m == nil {
		if m, err = n.makeFirstMap(ctx); err != nil {
			return err
		}
	}
	for _, g := range m.Groups() {
		if err := n.openGroup(g); err != nil {
			return err
		}
	}
	n.publishMap(m)
	return n.assignFirstRanges(ctx, m)
}

// publishMap publishes a map to the routers.
func (n *Node) publishMap(m *partition.Map) {
	if n.published.Offer(m) {
		n.mapChanged.notify()
	}
}

// readStoredMap reads the map past the groups, which it names. It is nil if there is none.
func (n *Node) readStoredMap() (*partition.Map, error) {
	value, ok, err := n.storeHosts[0].Store.Get(effect.Rows.AppendKey(nil, catalogKeys.MapKey()), nil)
	if err != nil || !ok {
		return nil, err
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		return nil, err
	}
	m, err := partition.Decode(row.Payload)
	if err != nil {
		return nil, fmt.Errorf("%w: the map: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

// makeFirstMap makes the first map. It is durable together with the ranges of the first
// group, which has the catalog: so how many groups there are is decided once. The
// catalog is a shard of its own, which stays where it is.
func (n *Node) makeFirstMap(ctx context.Context) (*partition.Map, error) {
	count := n.opts.Groups
	if count == 0 {
		count = len(n.storeHosts)
	}
	groups := make([]partition.Group, count)
	for i := range groups {
		labels, err := partition.ParseLabels(fmt.Sprintf("%s=%d", storeLabel, i*len(n.storeHosts)/count))
		if err != nil {
			return nil, err
		}
		groups[i] = partition.Group{ID: firstGroup + partition.GroupID(i), Labels: labels}
	}
	first := partition.Keyspace{ID: defaultKeyspaceID, Name: DefaultKeyspace, Kind: partition.Hash}
	at, err := first.EvenSlots(count * shardsPerGroup)
	if err != nil {
		return nil, err
	}
	m, err := partition.NewMap(groups, &first, at...)
	if err != nil {
		return nil, err
	}
	home := m.Find(systemKeyspace.Span().Start)
	if m, err = m.Apply(partition.Split{Shard: home.ID, At: []partition.Position{systemKeyspace.Span().End}}); err != nil {
		return nil, err
	}
	if err := n.openGroup(groups[0]); err != nil {
		return nil, err
	}
	c := group.Steps{
		&ownership.ChangeOwnership{Become: rangesInMap(m, firstGroup)},
		catalogKeys.InsertFirstMap(m),
	}
	return m, n.doDurably(ctx, n.lookupGroup(firstGroup), c)
}

// assignFirstRanges gives every group that has nothing yet its ranges by the map: a new node was
// interrupted, or is being made. A later map may have what a job has decided and not done yet:
// that is the job's.
func (n *Node) assignFirstRanges(ctx context.Context, m *partition.Map) error {
	if m.Version() > firstMapVersion {
		return nil
	}
	for _, g := range m.Groups() {
		p := n.lookupGroup(g.ID)
		become := rangesInMap(m, g.ID)
		if p.Group.OwnershipTable().Len() > 0 || len(become) == 0 {
			continue
		}
		if err := n.doDurably(ctx, p, &ownership.ChangeOwnership{Become: become}); err != nil {
			return err
		}
	}
	return nil
}

// rangesInMap returns what a map gives to a group.
func rangesInMap(m *partition.Map, id partition.GroupID) (ranges []ownership.Range) {
	for s := range m.Owned(id) {
		ranges = append(ranges, ownership.Range{Span: s.Span, Version: s.Changed, State: ownership.Serving})
	}
	return ranges
}

// Map returns the newest map.
func (n *Node) Map() *partition.Map { return n.published.Load() }

// GroupHostAt returns the group that serves a position, as far as the map knows.
func (n *Node) GroupHostAt(p partition.Position) *GroupHost {
	for {
		if part := n.lookupGroup(n.published.Load().GroupOf(p)); part != nil {
			return part
		}
		// It was removed after the map was loaded. The next one, which does not have
		// it, is published before a group goes.
		runtime.Gosched()
	}
}

// GroupSpan is a stretch of positions of one group.
type GroupSpan struct {
	Owner *GroupHost
	Span  partition.Span
}

// SplitByGroup returns the stretches of a span by group, in order.
func (n *Node) SplitByGroup(s partition.Span) (pieces []GroupSpan) {
	if s.Empty() {
		return nil
	}
	for stretch := range n.published.Load().Stretches(s) {
		p := n.lookupGroup(stretch.Group)
		if p == nil {
			runtime.Gosched()
			return n.SplitByGroup(s) // as in GroupHostAt
		}
		pieces = append(pieces, GroupSpan{p, stretch.Span})
	}
	pieces[0].Span.Start, pieces[len(pieces)-1].Span.End = s.Start, s.End
	return pieces
}

// StoreSpan is a stretch of positions on one store.
type StoreSpan struct {
	Host *StoreHost
	Span partition.Span
}

// SplitByStore returns the stretches of a span by store, in order.
func (n *Node) SplitByStore(s partition.Span) (runs []StoreSpan) {
	for _, p := range n.SplitByGroup(s) {
		if k := len(runs) - 1; k >= 0 && runs[k].Host == p.Owner.Host {
			runs[k].Span.End = p.Span.End
			continue
		}
		runs = append(runs, StoreSpan{p.Owner.Host, p.Span})
	}
	return runs
}

// The wait of a router whose map is old. The groups answer at once, so without it such routers
// would keep all groups busy.
const (
	minRerouteDelay = 10 * time.Millisecond
	maxRerouteDelay = 1280 * time.Millisecond
)

// WaitForNewMap waits before a request that met ownership.ErrWrongGroup is sent again: until the
// map is another than the one that was used, or for a while.
func (n *Node) WaitForNewMap(ctx context.Context, used partition.Version, attempt int) error {
	remapped := n.mapChanged.subscribe()
	if n.published.Load().Version() > used {
		return ctx.Err()
	}
	wait := min(minRerouteDelay<<min(attempt, 10), maxRerouteDelay)
	return waitContext(ctx, remapped, wait/2+rand.N(wait/2))
}
