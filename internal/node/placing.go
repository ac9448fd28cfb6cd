package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// place spreads the positions of a keyspace that is being made over the groups: the
// slots of a hash keyspace evenly, those of a range keyspace to one. There is nothing
// in them, so nothing is moved.
//
// The catalog notes the map that is to be first. From then on the groups are brought
// in line with it, over a restart too; nobody else can be at these positions, as the
// keyspace is not known before its own row is written, after that.
func (n *Node) place(ctx context.Context, k *partition.Keyspace) (*partition.Map, error) {
	old := n.published.Load()
	next, err := placed(old, k)
	if err != nil || next == old {
		return old, err
	}
	if err := n.change(ctx, &command.Set{Key: placingRow(), Value: next.Append(nil)}); err != nil {
		return nil, err
	}
	return next, n.align(ctx, next, old.Find(k.Span().Start).Span)
}

func placingRow() partition.Position { return system.AppendPosition(nil, []byte("placing")) }

// placed returns the map in which a keyspace has its shards.
func placed(m *partition.Map, k *partition.Keyspace) (*partition.Map, error) {
	groups := m.Groups()
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
		return bytes.Equal(p, home.Span.Start) || !home.Span.Contains(p)
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

// align gives every group what the map says of a span.
func (n *Node) align(ctx context.Context, m *partition.Map, span partition.Span) error {
	// The shards around it may have been cut, so look at all of what overlaps.
	for _, h := range n.hosts {
		var pieces []group.Piece
		for _, p := range h.Parts() {
			if c := realign(p, m, span); c != nil {
				pieces = append(pieces, group.Piece{Group: p.Group, Request: group.Request{Command: c}})
			}
		}
		if len(pieces) == 0 {
			continue
		}
		replies, err := group.Joint(context.WithoutCancel(ctx), pieces)
		for i := range replies {
			err = errors.Join(err, replies[i].Err)
		}
		if err == nil {
			err = h.Store.Sync()
		}
		if err != nil {
			return fmt.Errorf("give the groups of store %d their ranges: %w", h.index, err)
		}
	}
	return nil
}

// realign returns the command that makes the list of a group say what the map says of
// a span, or nil if it does.
func realign(p *Part, m *partition.Map, span partition.Span) command.Command {
	var c own.Reown
	list := p.Group.List()
	for s := range m.Shards(span) {
		is := slices.Collect(list.Over(s.Span))
		want := own.Range{Span: s.Span, Version: s.Changed, State: own.Serving}
		switch {
		case s.Group == p.ID && len(is) == 1 && is[0].Span.Equal(want.Span) && is[0].State == own.Serving:
			continue
		case s.Group != p.ID && !slices.ContainsFunc(is, func(r own.Range) bool { return r.Reads() }):
			continue
		case s.Group != p.ID:
			want.State = own.Foreign
		}
		for _, r := range is {
			if !slices.ContainsFunc(c.Expect, func(x own.Range) bool { return bytes.Equal(x.Span.Start, r.Span.Start) }) {
				c.Expect = append(c.Expect, r)
			}
		}
		c.Become = append(c.Become, want)
	}
	if len(c.Become) == 0 {
		return nil
	}
	c.Become = append(c.Become, rest(c.Expect, c.Become)...)
	return &c
}

// rest returns what is left of ranges that others take a piece of.
func rest(expect, become []own.Range) (left []own.Range) {
	for _, r := range expect {
		at := r.Span.Start
		over := slices.Clone(become)
		slices.SortFunc(over, func(a, b own.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
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

// resumePlacing ends a placing that a crash has interrupted. The keyspace is not
// made; its positions have their groups all the same.
func (n *Node) resumePlacing(ctx context.Context) error {
	row, ok, err := n.catalog().Read(ctx, placingRow(), nil)
	if err != nil || !ok {
		return err
	}
	m, err := partition.Decode(row.Payload)
	if err != nil {
		return err
	}
	if m.Version() > n.published.Load().Version() {
		if err := n.align(ctx, m, partition.Whole); err != nil {
			return err
		}
	}
	return n.publish(ctx, m)
}

// publish makes a map the one that everybody goes by, with changes of the catalog
// that belong to it.
func (n *Node) publish(ctx context.Context, m *partition.Map, changes ...command.Command) error {
	if m.Version() > n.published.Load().Version() {
		changes = append(changes, &command.Set{Key: mapRow(), Value: m.Append(nil)})
	}
	changes = append(changes, &command.Delete{Keys: []partition.Position{placingRow()}})
	if err := n.change(ctx, changes...); err != nil {
		return err
	}
	n.published.Offer(m)
	return nil
}
