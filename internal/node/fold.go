package node

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// foldLimit is how many shards are folded at once. Each costs a copy of the map.
const foldLimit = 256

// foldDropped makes one shard of those that lie side by side and belong to keyspaces that
// are no more. Otherwise the map would grow with every keyspace that is dropped or emptied.
//
// Nothing is in them and nobody asks for them, as ids are not used again: so they are given
// to one group as those of a new keyspace are, without a job. Where a job is at work it is
// left for later.
func (n *Node) foldDropped(ctx context.Context) error {
	return n.steadily(ctx, func() error {
		gone, err := n.goneSpans()
		if err != nil {
			return err
		}
		n.mapping.Lock()
		defer n.mapping.Unlock()
		for _, span := range gone {
			if bad := n.fold(ctx, span); errors.Is(bad, mover.ErrBusy) {
				n.drops.Store(true) // again next time
			} else if bad != nil {
				return bad
			}
		}
		return nil
	})
}

// goneSpans returns the positions of keyspaces that were dropped and cleared, and of ids that
// were used up for none. changing is held.
func (n *Node) goneSpans() (gone []partition.Span, err error) {
	used, err := n.notedIDs() // of these there may be rows
	if err != nil {
		return nil, err
	}
	used = append(used, system.ID, n.nextID)
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

// fold makes one shard of those within a span that nobody uses. mapping is held.
func (n *Node) fold(ctx context.Context, span partition.Span) error {
	old, err := n.settled(ctx)
	if err != nil {
		return err
	}
	var shards []partition.Shard
	for s := range old.Shards(span) {
		if within(s.Span, span) {
			shards = append(shards, s)
		}
	}
	if len(shards) > foldLimit {
		shards = shards[:foldLimit]
		n.drops.Store(true) // the others next time
	}
	next, whole, err := folded(old, shards, func(g partition.Group) bool { return !g.Draining && n.part(g.ID) != nil })
	if err != nil || next == old {
		return err
	}
	if err := n.bring(ctx, &drive.Note{Catalog: meta, Base: old.Version(), Span: whole, Map: next, Frees: true}); err != nil {
		return err
	}
	return n.adopt(ctx, next, nil)
}

// folded returns the map in which shards that lie side by side are one, and what it spans. The
// first group among theirs that takes any has it. If there is none it stays as it is: groups
// that are drained lose them by that.
func folded(m *partition.Map, shards []partition.Shard, takes func(partition.Group) bool) (*partition.Map, partition.Span, error) {
	at := slices.IndexFunc(shards, func(s partition.Shard) bool {
		g, ok := m.Group(s.Group)
		return ok && takes(g)
	})
	if len(shards) < 2 || at < 0 {
		return m, partition.Span{}, nil
	}
	var edits []partition.Edit
	for _, s := range shards {
		if s.Group != shards[at].Group {
			edits = append(edits, partition.Assign{Shard: s.ID, To: shards[at].Group})
		}
	}
	for _, s := range shards[1:] {
		edits = append(edits, partition.Merge{Left: shards[0].ID, Right: s.ID})
	}
	next, err := m.Apply(edits...)
	return next, partition.Span{Start: shards[0].Span.Start, End: shards[len(shards)-1].Span.End}, err
}

// within tells whether a span is inside of another one, which has an end.
func within(s, of partition.Span) bool {
	return bytes.Compare(s.Start, of.Start) >= 0 && len(s.End) > 0 && bytes.Compare(s.End, of.End) <= 0
}
