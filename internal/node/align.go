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

// align gives every group what the map says of some spans, and leaves nothing where they
// were.
func (n *Node) align(ctx context.Context, m *partition.Map, spans ...partition.Span) error {
	if err := n.alignBy(ctx, m, spans, realign); err != nil {
		return err
	}
	return n.tidy(ctx, m, spans)
}

// mayAlign returns why align cannot be done now: a group that would have to change its list
// is on a store that has failed. What is noted is in the way of all that come after it until
// it is done, so it is asked before.
func (n *Node) mayAlign(m *partition.Map, spans []partition.Span) error {
	for _, h := range n.hosts {
		why := h.why()
		if why == nil {
			continue
		}
		for _, p := range h.partsIn(m) {
			if realign(p, m, spans) != nil {
				return fmt.Errorf("%v of store %d would have to give positions away: %w", p.ID, h.index, why)
			}
		}
	}
	return nil
}

// aligning returns a command that makes the list of a group say what the map says of some
// spans, which are in order, or nil if it does.
type aligning func(*Part, *partition.Map, []partition.Span) command.Command

// maxAligns is how often lists are looked at again: jobs elsewhere in the same groups
// join ranges that were given away, and those may reach into the span.
const maxAligns = 100

func (n *Node) alignBy(ctx context.Context, m *partition.Map, spans []partition.Span, by aligning) error {
	for _, h := range n.hosts {
		err := own.ErrStale
		for i := 0; i < maxAligns && errors.Is(err, own.ErrStale); i++ {
			err = h.align(ctx, m, spans, by)
		}
		if err != nil {
			return fmt.Errorf("give the groups of store %d their ranges: %w", h.index, err)
		}
	}
	return nil
}

// align gives the groups of a store what the map says, all or none. If the error is
// own.ErrStale, their lists have changed meanwhile.
func (h *Host) align(ctx context.Context, m *partition.Map, spans []partition.Span, by aligning) error {
	var pieces []group.Piece
	for _, p := range h.partsIn(m) {
		if c := by(p, m, spans); c != nil {
			pieces = append(pieces, group.Piece{Group: p.Group, Request: group.Request{Command: c}})
		}
	}
	if len(pieces) == 0 {
		return nil
	}
	replies, err := group.Joint(context.WithoutCancel(ctx), pieces)
	for i := range replies {
		err = errors.Join(err, replies[i].Err)
	}
	if err != nil {
		return err
	}
	return h.Store.Sync()
}

// partsIn returns the groups of the store that a map has. One that it does not have owns
// nothing, and is about to be closed.
func (h *Host) partsIn(m *partition.Map) (parts []*Part) {
	for _, p := range h.Parts() {
		if _, ok := m.Group(p.ID); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

// realign is what align goes by.
func realign(p *Part, m *partition.Map, spans []partition.Span) command.Command {
	var c own.Reown
	list := p.Group.List()
	for _, span := range spans {
		for s := range m.Shards(span) {
			is := slices.Collect(list.Over(s.Span))
			want := own.Range{Span: s.Span, Version: s.Changed, State: own.Serving, Job: lastJob(is)}
			switch {
			case s.Group == p.ID && len(is) == 1 && is[0].Span.Equal(want.Span) && is[0].State == own.Serving:
				continue
			case s.Group != p.ID && (len(is) < 2 || p.failed()) && !slices.ContainsFunc(is, func(r own.Range) bool { return r.Reads() }):
				continue // what is left of several shards becomes one range as they do
			case s.Group != p.ID:
				want.State, want.Attempt = own.Foreign, own.Dropped // nothing is there, so nothing is to be removed
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
	c.Become = append(c.Become, rest(c.Expect, c.Become)...)
	return &c
}

// lastJob is the last one that left something in a place, which ranges that are made without
// a job keep: otherwise a command of one before that, however late, would find that it may
// begin there once they are lost. No job that has not ended has left anything: see
// [drive.Note].
func lastJob(was []own.Range) (last own.Job) {
	for _, r := range was {
		last = max(last, r.Job)
	}
	return last
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
