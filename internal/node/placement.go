package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// retryWhileBusy calls try until no job is in its way: it waits for those, unless they
// are paused.
func (n *Node) retryWhileBusy(ctx context.Context, try func() error) error {
	for {
		ended := n.jobs.changed.subscribe()
		err := try()
		var busy *mover.BusyError
		if !errors.As(err, &busy) {
			return err
		}
		if busy.Paused {
			return err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-n.ctx.Done(): // then the job does not end either
			return group.ErrClosed
		}
	}
}

// placeKeyspace spreads the positions of a keyspace that is being made over the groups: the
// slots of a hash keyspace evenly, those of a range keyspace to one. There is nothing
// in them, so nothing is moved. If a job is at work there, the error is a
// mover.BusyError and nothing has changed. Shards of keyspaces that are gone are folded
// in the same step, see [foldShards].
//
// The catalog notes the map that is to be, and uses up the id. From then on the groups are
// brought in line with it, over a restart too. No other caller can use these positions, as the
// keyspace is not known before made, its own row, is written, after that. No other map is made
// meanwhile, and no backup: jobs.backupLock is shared, or the node is not in use yet. If it
// frees space it is done on a full disk too.
//
// Groups of stores that have failed are given nothing, and if one would have to give
// something the keyspace is refused. A store that fails after that was asked leaves the
// placing half way: no map is made any more until the node is opened again.
func (n *Node) placeKeyspace(ctx context.Context, k *partition.Keyspace, gone []partition.Span, frees bool, use command.Command, made ...command.Command) error {
	n.mapMu.Lock()
	defer n.mapMu.Unlock()
	old, err := n.loadStableMap(ctx)
	if err != nil {
		return err
	}
	// A group that a job has added is open a moment later: until then it cannot get its ranges.
	// Nor can a group whose store has failed.
	takes := func(g partition.Group) bool {
		p := n.lookupGroup(g.ID)
		return !g.Draining && p != nil && !p.hasFailed()
	}
	next, err := mapWithKeyspace(old, k, takes)
	if err != nil {
		return err
	}
	if next != old {
		jobs, err := n.loadJobs(ctx)
		if err != nil {
			return err
		}
		note := &protocol.BeginPlacing{Catalog: catalogKeys, BaseVersion: old.Version(), Commands: dropNil(use), ReclaimsSpace: frees}
		busy := func(s partition.Shard) bool { return mover.CheckBusy(jobs, s.Span) != nil }
		if slices.ContainsFunc(n.storeHosts, (*StoreHost).hasFailed) {
			gone = nil // it may have its share of what is gone, and that cannot be taken
		}
		note.Map = foldShards(next, gone, busy, takes)
		note.Spans = changedSpans(note.Map, old.Version())
		if err := n.checkAlign(note.Map, note.Spans); err != nil {
			return err
		}
		if err := n.writeCatalog(ctx, note); err != nil {
			return err
		}
		n.hasPendingPlacing, next = true, note.Map
		if err := n.alignGroups(ctx, next, note.Spans...); err != nil {
			return err
		}
	}
	return n.finishPlacing(ctx, next, dropNil(append([]command.Command{use}, made...)...))
}

// dropNil leaves out commands that are nil.
func dropNil(commands ...command.Command) []command.Command {
	return slices.DeleteFunc(commands, func(c command.Command) bool { return c == nil })
}

// finishPlacing makes a map the one that all groups and routers use, with changes of the catalog
// that belong to it.
func (n *Node) finishPlacing(ctx context.Context, m *partition.Map, with []command.Command) error {
	if err := n.writeCatalog(ctx, &protocol.FinishPlacing{Catalog: catalogKeys, Map: m, Commands: with}); err != nil {
		return err
	}
	n.hasPendingPlacing = false
	n.publishMap(m)
	return nil
}

// finishPendingPlacing completes a placing that failed half way. mapMu is held.
func (n *Node) finishPendingPlacing(ctx context.Context) error {
	if !n.hasPendingPlacing {
		return nil
	}
	return n.resumePlacing(ctx)
}

// loadStableMap returns the newest map, when no placing is pending. mapMu is held.
func (n *Node) loadStableMap(ctx context.Context) (*partition.Map, error) {
	if err := n.finishPendingPlacing(ctx); err != nil {
		return nil, err
	}
	return n.loadNewestMap(ctx)
}

// mapWithKeyspace returns the map in which a keyspace has its shards, in groups that take any.
func mapWithKeyspace(m *partition.Map, k *partition.Keyspace, takes func(partition.Group) bool) (*partition.Map, error) {
	groups := slices.DeleteFunc(slices.Clone(m.Groups()), func(g partition.Group) bool { return !takes(g) })
	if len(groups) == 0 { // the first never drains
		return nil, fmt.Errorf("no group takes shards: %w", store.ErrFailed)
	}
	starts := []partition.Position{k.Span().Start}
	if k.Kind == partition.Hash {
		at, err := k.EvenSlots(min(len(groups)*shardsPerGroup, k.SlotCount()))
		if err != nil {
			return nil, err
		}
		starts = append(starts, at...)
	}
	home := m.Find(k.Span().Start)
	cuts := slices.DeleteFunc(append(slices.Clone(starts), k.Span().End), func(p partition.Position) bool {
		return bytes.Equal(p, home.Span.Start) || bytes.Equal(p, systemKeyspace.Span().Start) || !home.Span.Contains(p)
	})
	next := m
	var err error
	if len(cuts) > 0 {
		if next, err = m.Apply(partition.Split{Shard: home.ID, In: k, At: cuts}); err != nil {
			return nil, err
		}
	}
	var edits []partition.Edit
	for i, p := range starts {
		to := groups[i*len(groups)/len(starts)].ID
		if k.Kind == partition.Range {
			to = groups[int(k.ID)%len(groups)].ID
		}
		if s := next.Find(p); s.Group != to {
			edits = append(edits, partition.Assign{Shard: s.ID, To: to})
		}
	}
	if len(edits) == 0 {
		return next, nil
	}
	return next.Apply(edits...)
}

// resumePlacing ends a placing that was interrupted. The keyspace is not made; its
// positions have their groups all the same, and its id was used up.
func (n *Node) resumePlacing(ctx context.Context) error {
	reply, err := n.readCatalog(ctx, &command.Get{Key: catalogKeys.PlacingKey()})
	if err != nil || reply.Kind == command.Nil {
		n.hasPendingPlacing = n.hasPendingPlacing && err != nil
		return err
	}
	m, err := partition.Decode(reply.Bytes)
	if err != nil {
		return fmt.Errorf("%w: the map that is being placed: %w", store.ErrCorrupt, err)
	}
	old, err := n.loadNewestMap(ctx)
	if err != nil {
		return err
	}
	if err := n.alignGroups(ctx, m, changedSpans(m, old.Version())...); err != nil {
		return err
	}
	return n.finishPlacing(ctx, m, nil)
}

// changedSpans returns what the shards span that have changed since a version, those that lie
// side by side as one. All around them may be at work for jobs, and is theirs.
func changedSpans(m *partition.Map, since partition.Version) (spans []partition.Span) {
	for s := range m.Shards(partition.Whole) {
		switch last := len(spans) - 1; {
		case s.Changed <= since:
		case last >= 0 && bytes.Equal(spans[last].End, s.Span.Start):
			spans[last].End = s.Span.End
		default:
			spans = append(spans, s.Span)
		}
	}
	return spans
}

// separateCatalog makes the catalog a shard of its own, in a directory that was
// made when it was not.
func (n *Node) separateCatalog(ctx context.Context) error {
	home := n.published.Load().Find(systemKeyspace.Span().Start)
	if bytes.Equal(home.Span.End, systemKeyspace.Span().End) {
		return nil
	}
	return n.placeKeyspace(ctx, &systemKeyspace, nil, false, nil)
}

// alignGroups gives every group what the map has for some spans, and leaves nothing where they
// were.
func (n *Node) alignGroups(ctx context.Context, m *partition.Map, spans ...partition.Span) error {
	if err := n.alignGroupsBy(ctx, m, spans, alignCommand); err != nil {
		return err
	}
	return n.removeStrayRows(ctx, m, spans)
}

// checkAlign returns why align cannot be done now: a group that would have to change its table
// is on a store that has failed. A placing that is noted is in the way of all that come after it
// until it is done, so this is checked before.
func (n *Node) checkAlign(m *partition.Map, spans []partition.Span) error {
	for _, h := range n.storeHosts {
		why := h.failureCause()
		if why == nil {
			continue
		}
		for _, p := range h.groupsInMap(m) {
			if alignCommand(p, m, spans) != nil {
				return fmt.Errorf("%v of store %d would have to give positions away: %w", p.ID, h.index, why)
			}
		}
	}
	return nil
}

// alignFunc returns a command that makes the table of a group what the map has for some
// spans, which are in order, or nil if it does.
type alignFunc func(*GroupHost, *partition.Map, []partition.Span) command.Command

// maxAlignTries is how often tables are read again: jobs elsewhere in the same groups
// join ranges that were given away, and those may reach into the span.
const maxAlignTries = 100

func (n *Node) alignGroupsBy(ctx context.Context, m *partition.Map, spans []partition.Span, by alignFunc) error {
	for _, h := range n.storeHosts {
		err := ownership.ErrStale
		for i := 0; i < maxAlignTries && errors.Is(err, ownership.ErrStale); i++ {
			err = h.alignGroups(ctx, m, spans, by)
		}
		if err != nil {
			return fmt.Errorf("give the groups of store %d their ranges: %w", h.index, err)
		}
	}
	return nil
}

// alignGroups gives the groups of a store what the map has, all or none. If the error is
// ownership.ErrStale, their tables have changed meanwhile.
func (h *StoreHost) alignGroups(ctx context.Context, m *partition.Map, spans []partition.Span, by alignFunc) error {
	var pieces []group.SubRequest
	for _, p := range h.groupsInMap(m) {
		if c := by(p, m, spans); c != nil {
			pieces = append(pieces, group.SubRequest{Group: p.Group, Request: group.Request{Command: c}})
		}
	}
	if len(pieces) == 0 {
		return nil
	}
	replies, err := group.ExecuteJoint(context.WithoutCancel(ctx), pieces)
	for i := range replies {
		err = errors.Join(err, replies[i].Err)
	}
	if err != nil {
		return err
	}
	return h.Store.Sync()
}

// groupsInMap returns the groups of the store that a map has. One that it does not have owns
// nothing, and is about to be closed.
func (h *StoreHost) groupsInMap(m *partition.Map) (parts []*GroupHost) {
	for _, p := range h.GroupHosts() {
		if _, ok := m.Group(p.ID); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

// alignCommand is what align goes by.
func alignCommand(p *GroupHost, m *partition.Map, spans []partition.Span) command.Command {
	var c ownership.ChangeOwnership
	list := p.Group.OwnershipTable()
	for _, span := range spans {
		for s := range m.Shards(span) {
			is := slices.Collect(list.ScanOverlapping(s.Span))
			want := ownership.Range{Span: s.Span, Version: s.Changed, State: ownership.Serving, Job: lastJobOf(is)}
			switch {
			case s.Group == p.ID && len(is) == 1 && is[0].Span.Equal(want.Span) && is[0].State == ownership.Serving:
				continue
			case s.Group != p.ID && (len(is) < 2 || p.hasFailed()) && !slices.ContainsFunc(is, func(r ownership.Range) bool { return r.IsReadable() }):
				continue // what is left of several shards becomes one range as they do
			case s.Group != p.ID:
				want.State, want.Attempt = ownership.Foreign, ownership.AttemptDropped // nothing is there, so nothing is to be removed
			}
			for _, r := range is {
				if last := len(c.Expect) - 1; last < 0 || !bytes.Equal(c.Expect[last].Span.Start, r.Span.Start) {
					c.Expect = append(c.Expect, r)
				}
			}
			c.Become = append(c.Become, want)
		}
	}
	if len(c.Become) == 0 {
		return nil
	}
	c.Become = append(c.Become, remainingRanges(c.Expect, c.Become)...)
	return &c
}

// lastJobOf is the last job that left something in a place. Ranges that are made without a job
// keep it: otherwise a command of a job before that one, however late, would find that it may
// begin there once they are lost. No job that has not ended has left anything: see
// [protocol.BeginPlacing].
func lastJobOf(was []ownership.Range) (last ownership.JobID) {
	for _, r := range was {
		last = max(last, r.Job)
	}
	return last
}

// remainingRanges returns what is left of ranges that others take a piece of.
func remainingRanges(expect, become []ownership.Range) (left []ownership.Range) {
	for _, r := range expect {
		at := r.Span.Start
		over := slices.Clone(become)
		slices.SortFunc(over, func(a, b ownership.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
		for _, b := range over {
			if !r.Span.Contains(b.Span.Start) && !b.Span.Contains(r.Span.Start) {
				continue
			}
			if bytes.Compare(at, b.Span.Start) < 0 {
				piece := r
				piece.Span = partition.Span{Start: at, End: b.Span.Start}
				left = append(left, piece)
			}
			at = b.Span.End
			if len(at) == 0 {
				break
			}
		}
		if len(at) > 0 && r.Span.Contains(at) {
			piece := r
			piece.Span = partition.Span{Start: at, End: r.Span.End}
			left = append(left, piece)
		}
	}
	return left
}
