package node

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
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

// Locate returns the newest map, the index of the shard that has a position among those of the map, and the group that
// serves it, as far as the map knows.
func (n *Node) Locate(p partition.Position) (m *partition.Map, shard int, part *GroupHost) {
	for {
		m = n.published.Load()
		shard = m.Index(p)
		if part = n.lookupGroup(m.OwnerAt(shard).Group); part != nil {
			return m, shard, part
		}
		runtime.Gosched() // as in GroupHostAt
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

// maxFoldedShards is how many shards are folded at once: the most that two keyspaces have, and
// then some.
const maxFoldedShards = 4 * maxGroups * shardsPerGroup

// listVacantSpans returns the positions of keyspaces that were dropped and cleared, and of ids that
// were used up for none: nothing is there and no request asks for it, as ids are not used again.
// changeMu is held.
func (n *Node) listVacantSpans() (gone []partition.Span, err error) {
	used, err := n.loadDroppedIDsLocked() // of these there may be rows
	if err != nil {
		return nil, err
	}
	used = append(used, systemKeyspace.ID, n.nextID)
	n.mu.RLock()
	for id := range n.byID {
		used = append(used, id)
	}
	n.mu.RUnlock()
	slices.Sort(used)
	for i, id := range used[1:] {
		if last := used[i]; id > last+1 {
			before, behind := partition.Keyspace{ID: last}, partition.Keyspace{ID: id}
			gone = append(gone, partition.Span{Start: before.Span().End, End: behind.Span().Start})
		}
	}
	return gone, nil
}

// foldShards returns the map in which shards of keyspaces that are gone are one: of those that lie
// side by side as many as there are anywhere. Otherwise a map would grow with every keyspace
// that is dropped or emptied. They are given to one of their groups without a job, as those of
// a new keyspace are. Where a job is at work they stay, and so they do if none of their groups
// takes any.
func foldShards(m *partition.Map, gone []partition.Span, busy func(partition.Shard) bool, takes func(partition.Group) bool) *partition.Map {
	var most []partition.Shard
	for _, span := range gone {
		var run []partition.Shard
		for s := range m.Shards(span) {
			if !isWithin(s.Span, span) || busy(s) || len(run) == maxFoldedShards {
				run = nil
				continue
			}
			if run = append(run, s); len(run) > len(most) {
				most = run
			}
		}
	}
	at := slices.IndexFunc(most, func(s partition.Shard) bool {
		g, ok := m.Group(s.Group)
		return ok && takes(g)
	})
	if len(most) < 2 || at < 0 {
		return m
	}
	var edits []partition.Edit
	for _, s := range most {
		if s.Group != most[at].Group {
			edits = append(edits, partition.Assign{Shard: s.ID, To: most[at].Group})
		}
	}
	edits = append(edits, partition.MergeSpan{Span: partition.Span{Start: most[0].Span.Start, End: most[len(most)-1].Span.End}})
	next, err := m.Apply(edits...)
	if err != nil { // they are pinned: that is no reason to refuse a keyspace
		return m
	}
	return next
}

// isWithin reports whether a span is inside of another one, which has an end.
func isWithin(s, of partition.Span) bool {
	return bytes.Compare(s.Start, of.Start) >= 0 && len(s.End) > 0 && bytes.Compare(s.End, of.End) <= 0
}

// removeStrayRows removes what groups have left in some spans on stores that have lost them. A
// resolve that comes again leaves a mark where all was cleared, and housekeeping a note of where
// it goes on; only the group that serves the position removes them again. From the call on the
// groups there refuse to write any. mapMu is held, and no job is in the spans, so nothing is in
// flight there.
func (n *Node) removeStrayRows(ctx context.Context, m *partition.Map, spans []partition.Span) error {
	for _, h := range n.storeHosts {
		if h.hasFailed() { // as it is, no group serves anything there
			continue
		}
		found := &strayRowsCommand{}
		for _, s := range spans {
			for _, table := range []effect.Table{effect.Marks, effect.Orphans} {
				from, to := table.SpanBetween(s.Start, s.End)
				err := h.Store.ScanBriefly(from, to, false, func(key, _ []byte) bool {
					if StoreOf(m, m.GroupOf(key[1:])) != h.index {
						found.keys = append(found.keys, bytes.Clone(key))
					}
					return true
				})
				if err != nil {
					return err
				}
			}
		}
		// Any group of the store will do.
		if parts := h.groupsInMap(m); len(parts) > 0 && len(found.keys) > 0 {
			if err := n.doDurably(ctx, parts[0], found); err != nil {
				return err
			}
		}
	}
	return nil
}

// strayRowsCommand is the command that removes rows of which no group of the store has the position.
type strayRowsCommand struct{ keys [][]byte }

// IsUrgent reports that it frees space.
func (c *strayRowsCommand) IsUrgent() bool { return true }

// Eval deletes the rows.
func (c *strayRowsCommand) Eval(e *command.Env) command.Reply {
	for _, key := range c.keys {
		e.Effects().Delete(key)
	}
	return command.Reply{Kind: command.OK}
}
