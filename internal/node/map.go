package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// shardsPerGroup is how many shards of a hash keyspace a group begins with: a few,
// so that there is something to give away before anything is split.
const shardsPerGroup = 4

// firstGroup owns the catalog, for ever.
const firstGroup partition.GroupID = 1

// firstVersion is that of the first map: no group has anything before it, and only
// jobs and placings make later ones.
const firstVersion = 2

// openGroups reads the map, or makes the first one, and opens its groups.
func (n *Node) openGroups(ctx context.Context) error {
	m, err := n.loadMap()
	if err != nil {
		return err
	}
	if m == nil {
		if m, err = n.firstMap(ctx); err != nil {
			return err
		}
	}
	if have := len(m.Groups()); n.opts.Groups != 0 && n.opts.Groups != have {
		found := fmt.Sprintf("there are %d groups, not %d", have, n.opts.Groups)
		return &OptionError{Option: "Groups", Value: n.opts.Groups, Have: have, Found: found}
	}
	for _, g := range m.Groups() {
		if err := n.openGroup(g); err != nil {
			return err
		}
	}
	n.offer(m)
	return n.giveFirst(ctx, m)
}

// offer publishes a map to those who route by it.
func (n *Node) offer(m *partition.Map) {
	if n.published.Offer(m) {
		n.remapped.ring()
	}
}

// loadMap reads the map past the groups, which it names. It is nil if there is none.
func (n *Node) loadMap() (*partition.Map, error) {
	value, ok, err := n.hosts[0].Store.Get(effect.Rows.AppendKey(nil, meta.Map()), nil)
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

// firstMap makes the first map. It is durable together with the ranges of the first
// group, which has the catalog: so how many groups there are is decided once. The
// catalog is a shard of its own, which stays where it is.
func (n *Node) firstMap(ctx context.Context) (*partition.Map, error) {
	count := n.opts.Groups
	if count == 0 {
		count = len(n.hosts)
	}
	groups := make([]partition.Group, count)
	for i := range groups {
		labels, err := partition.ParseLabels(fmt.Sprintf("%s=%d", storeLabel, i*len(n.hosts)/count))
		if err != nil {
			return nil, err
		}
		groups[i] = partition.Group{ID: firstGroup + partition.GroupID(i), Labels: labels}
	}
	first := partition.Keyspace{ID: defaultID, Name: DefaultName, Kind: partition.Hash}
	at, err := first.EvenSlots(count * shardsPerGroup)
	if err != nil {
		return nil, err
	}
	m, err := partition.First(groups, &first, at...)
	if err != nil {
		return nil, err
	}
	home := m.Find(system.Span().Start)
	if m, err = m.Apply(partition.Split{Shard: home.ID, At: []partition.Position{system.Span().End}}); err != nil {
		return nil, err
	}
	if err := n.openGroup(groups[0]); err != nil {
		return nil, err
	}
	c := group.Steps{
		&own.Reown{Become: rangesOf(m, firstGroup)},
		meta.FirstMap(m),
	}
	return m, n.settle(ctx, n.part(firstGroup), c)
}

// giveFirst gives every group what the map says that has nothing yet: a new node was
// interrupted, or is being made. A later map may say what a job has decided and not
// done yet: that is the job's.
func (n *Node) giveFirst(ctx context.Context, m *partition.Map) error {
	if m.Version() > firstVersion && !plant.Bug("node-later-map-given") {
		return nil
	}
	for _, g := range m.Groups() {
		p := n.part(g.ID)
		become := rangesOf(m, g.ID)
		if p.Group.List().Len() > 0 || len(become) == 0 {
			continue
		}
		if err := n.settle(ctx, p, &own.Reown{Become: become}); err != nil {
			return err
		}
	}
	return nil
}

// rangesOf returns what a map gives to a group.
func rangesOf(m *partition.Map, id partition.GroupID) (ranges []own.Range) {
	for s := range m.Owned(id) {
		ranges = append(ranges, own.Range{Span: s.Span, Version: s.Changed, State: own.Serving})
	}
	return ranges
}

// Map returns the newest map.
func (n *Node) Map() *partition.Map { return n.published.Load() }

// PartOf returns the group that serves a position, as far as the map knows.
func (n *Node) PartOf(p partition.Position) *Part {
	for {
		if part := n.part(n.published.Load().GroupOf(p)); part != nil {
			return part
		}
		// It was removed after the map was loaded. The next one, which does not have
		// it, is published before a group goes.
		runtime.Gosched()
	}
}

// Piece is a stretch of positions of one group.
type Piece struct {
	Part *Part
	Span partition.Span
}

// Pieces returns the stretches of a span by group, in order.
func (n *Node) Pieces(s partition.Span) (pieces []Piece) {
	if s.Empty() {
		return nil
	}
	for stretch := range n.published.Load().Stretches(s) {
		p := n.part(stretch.Group)
		if p == nil {
			runtime.Gosched()
			return n.Pieces(s) // as in PartOf
		}
		pieces = append(pieces, Piece{p, stretch.Span})
	}
	pieces[0].Span.Start, pieces[len(pieces)-1].Span.End = s.Start, s.End
	return pieces
}

// Run is a stretch of positions on one store.
type Run struct {
	Host *Host
	Span partition.Span
}

// Runs returns the stretches of a span by store, in order.
func (n *Node) Runs(s partition.Span) (runs []Run) {
	for _, p := range n.Pieces(s) {
		if k := len(runs) - 1; k >= 0 && runs[k].Host == p.Part.Host {
			runs[k].Span.End = p.Span.End
			continue
		}
		runs = append(runs, Run{p.Part.Host, p.Span})
	}
	return runs
}

// The wait of a router whose map is old. The groups answer at once, so without it
// those who are lost would keep everybody busy.
const (
	rerouteDelay = 10 * time.Millisecond
	rerouteMost  = 1280 * time.Millisecond
)

// Reroute waits before a request that met own.ErrWrongGroup is sent again: until
// the map is another than the one that was used, or for a while.
func (n *Node) Reroute(ctx context.Context, used partition.Version, attempt int) error {
	remapped := n.remapped.listen()
	if n.published.Load().Version() > used {
		return ctx.Err()
	}
	wait := min(rerouteDelay<<min(attempt, 10), rerouteMost)
	return await(ctx, remapped, wait/2+rand.N(wait/2))
}
