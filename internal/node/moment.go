package node

import (
	"bytes"
	"context"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

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

func ready(ctx context.Context, hosts []*Host) error {
	for _, h := range hosts {
		if err := h.Ready(ctx); err != nil {
			return err
		}
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

// Moment is what the groups of a host knew at one.
type Moment struct {
	parts    []*Part
	clocks   []int64
	lists    []*own.List
	lockings []uint64
	locked   bool
	// spanned tells that a range was locked, and not only keys.
	spanned bool
}

// Moment returns what the groups know now.
func (h *Host) Moment() Moment {
	parts := h.Parts()
	m := Moment{parts: parts, clocks: make([]int64, len(parts)), lists: make([]*own.List, len(parts)), lockings: make([]uint64, len(parts))}
	for i, p := range parts {
		m.clocks[i], m.lists[i] = p.Group.NowMS(), p.Group.List()
		locked, changes := p.Group.Locking()
		m.lockings[i], m.locked = changes, m.locked || locked
		m.spanned = m.spanned || locked && p.Group.SpanLocked()
	}
	return m
}

// Locked tells whether there were locks of transactions: what they are about to
// write may have happened.
func (m *Moment) Locked() bool { return m.locked }

// Still tells whether the groups know what they knew at the moment, and no more.
func (m *Moment) Still() bool {
	for i, p := range m.parts {
		if _, changes := p.Group.Locking(); changes != m.lockings[i] {
			return false
		}
	}
	return m.stands()
}

// stands is Still for one who has seen the locks for himself.
func (m *Moment) stands() bool {
	for i, p := range m.parts {
		if p.Group.Reowning() || p.Group.NowMS() != m.clocks[i] || p.Group.List() != m.lists[i] {
			return false
		}
	}
	return true
}

// NowMS returns the time by which a key was judged at the moment: that of the group
// that served it.
func (m *Moment) NowMS(p partition.Position) (int64, error) {
	i, _, err := m.find(p)
	if err != nil {
		return 0, err
	}
	return m.clocks[i], nil
}

// find returns which group served a position, and the range that it was in.
func (m *Moment) find(p partition.Position) (int, own.Range, error) {
	for i, l := range m.lists {
		if r, ok := l.Find(p); ok && r.Reads() {
			return i, r, nil
		}
	}
	return 0, own.Range{}, own.ErrWrongGroup
}

// Serves returns nil if groups of the host served all of a span at the moment.
func (m *Moment) Serves(s partition.Span) error {
	for _, l := range m.lists {
		if l.Covers(s) {
			return nil
		}
	}
	for at := s.Start; ; {
		_, r, err := m.find(at)
		if err != nil {
			return err
		}
		if at = r.Span.End; reaches(at, s.End) {
			return nil
		}
	}
}

// reaches tells whether an end is not before another. An empty one is that of the
// space.
func reaches(end, other partition.Position) bool {
	return len(end) == 0 || len(other) > 0 && bytes.Compare(end, other) >= 0
}
