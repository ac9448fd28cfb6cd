package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// unhurried calls try until no job is in its way: it waits for those, unless they
// are paused.
func (n *Node) unhurried(ctx context.Context, try func() error) error {
	for {
		ended := n.jobs.changed.listen()
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

// place spreads the positions of a keyspace that is being made over the groups: the
// slots of a hash keyspace evenly, those of a range keyspace to one. There is nothing
// in them, so nothing is moved. If a job is at work there, the error is a
// mover.BusyError and nothing has changed. Shards of keyspaces that are gone are folded
// in the same step, see [fold].
//
// The catalog notes the map that is to be, and uses up the id. From then on the
// groups are brought in line with it, over a restart too; nobody else can be at these
// positions, as the keyspace is not known before made, its own row, is written, after
// that. No other map is made meanwhile, and no backup: jobs.quiet is shared, or nobody
// uses the node yet. If it frees room it is done on a full disk too.
//
// Groups of stores that have failed are given nothing, and if one would have to give
// something the keyspace is refused. A store that fails after that was asked leaves the
// placing half way: no map is made any more until the node is opened again.
func (n *Node) place(ctx context.Context, k *partition.Keyspace, gone []partition.Span, frees bool, use command.Command, made ...command.Command) error {
	n.mapping.Lock()
	defer n.mapping.Unlock()
	old, err := n.settled(ctx)
	if err != nil {
		return err
	}
	// A group that a job has added is open a moment later: until then nobody could
	// tell it what it owns. Nor could anybody one whose store has failed.
	takes := func(g partition.Group) bool {
		p := n.part(g.ID)
		return !g.Draining && p != nil && !p.failed()
	}
	next, err := placed(old, k, takes)
	if err != nil {
		return err
	}
	if next != old {
		jobs, err := n.records(ctx)
		if err != nil {
			return err
		}
		note := &drive.Note{Catalog: meta, Base: old.Version(), With: some(use), Frees: frees}
		busy := func(s partition.Shard) bool { return mover.Busy(jobs, s.Span) != nil }
		if slices.ContainsFunc(n.hosts, (*Host).failed) {
			gone = nil // it may have its share of what is gone, and nobody could take it
		}
		note.Map = fold(next, gone, busy, takes)
		note.Spans = changed(note.Map, old.Version())
		if err := n.mayAlign(note.Map, note.Spans); err != nil && !plant.Bug("node-noted-in-vain") {
			return err
		}
		if err := n.enter(ctx, note); err != nil {
			return err
		}
		n.noted, next = true, note.Map
		if err := n.align(ctx, next, note.Spans...); err != nil {
			return err
		}
	}
	return n.adopt(ctx, next, some(append([]command.Command{use}, made...)...))
}

// some leaves out commands that are nil.
func some(commands ...command.Command) []command.Command {
	return slices.DeleteFunc(commands, func(c command.Command) bool { return c == nil })
}

// adopt makes a map the one that everybody goes by, with changes of the catalog
// that belong to it.
func (n *Node) adopt(ctx context.Context, m *partition.Map, with []command.Command) error {
	if err := n.enter(ctx, &drive.Adopt{Catalog: meta, Map: m, With: with}); err != nil {
		return err
	}
	n.noted = false
	n.offer(m)
	return nil
}

// settlePlacing brings a placing that failed half way to its end. mapping is held.
func (n *Node) settlePlacing(ctx context.Context) error {
	if !n.noted {
		return nil
	}
	return n.resumePlacing(ctx)
}

// settled returns the newest map, when no placing is on its way. mapping is held.
func (n *Node) settled(ctx context.Context) (*partition.Map, error) {
	if err := n.settlePlacing(ctx); err != nil {
		return nil, err
	}
	return n.newestMap(ctx)
}

// placed returns the map in which a keyspace has its shards, in groups that take any.
func placed(m *partition.Map, k *partition.Keyspace, takes func(partition.Group) bool) (*partition.Map, error) {
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
		return bytes.Equal(p, home.Span.Start) || bytes.Equal(p, system.Span().Start) || !home.Span.Contains(p)
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
	reply, err := n.ask(ctx, &command.Get{Key: meta.Placing()})
	if err != nil || reply.Kind == command.Nil {
		n.noted = n.noted && err != nil
		return err
	}
	m, err := partition.Decode(reply.Bytes)
	if err != nil {
		return fmt.Errorf("%w: the map that is being placed: %w", store.ErrCorrupt, err)
	}
	old, err := n.newestMap(ctx)
	if err != nil {
		return err
	}
	if err := n.align(ctx, m, changed(m, old.Version())...); err != nil {
		return err
	}
	return n.adopt(ctx, m, nil)
}

// changed returns what the shards span that have changed since a version, those that lie
// side by side as one. All around them may be at work for jobs, and is theirs.
func changed(m *partition.Map, since partition.Version) (spans []partition.Span) {
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
	home := n.published.Load().Find(system.Span().Start)
	if bytes.Equal(home.Span.End, system.Span().End) {
		return nil
	}
	return n.place(ctx, &system, nil, false, nil)
}
