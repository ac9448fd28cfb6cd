package node

import (
	"bytes"
	"context"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// maxFoldedShards is how many shards are folded at once: the most that two keyspaces have, and
// then some.
const maxFoldedShards = 4 * maxGroups * shardsPerGroup

// vacantSpans returns the positions of keyspaces that were dropped and cleared, and of ids that
// were used up for none: nothing is there and no request asks for it, as ids are not used again.
// changeMu is held.
func (n *Node) vacantSpans() (gone []partition.Span, err error) {
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
