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
	known  []known
	locked bool
	// spanned tells that a range was locked, and not only keys.
	spanned bool
}

// known is what one group knew.
type known struct {
	group    *group.Group
	clockMS  int64
	list     *own.List
	lockings uint64
	epoch    uint64 // of its locks
}

// Moment returns what the groups know now.
func (h *Host) Moment() Moment {
	parts := h.Parts()
	m := Moment{known: make([]known, len(parts))}
	for i, p := range parts {
		k := &m.known[i]
		k.group, k.clockMS, k.list, k.epoch = p.Group, p.Group.NowMS(), p.Group.List(), p.Group.LockEpoch()
		locked, changes := p.Group.Locking()
		k.lockings, m.locked = changes, m.locked || locked
		m.spanned = m.spanned || locked && p.Group.SpanLocked()
	}
	return m
}

// Locked tells whether there were locks of transactions: what they are about to
// write may have happened.
func (m *Moment) Locked() bool { return m.locked }

// Still tells whether the groups know what they knew at the moment, and no more.
func (m *Moment) Still() bool {
	for i := range m.known {
		if _, changes := m.known[i].group.Locking(); changes != m.known[i].lockings {
			return false
		}
	}
	return m.stands()
}

// stands is Still for one who has seen the locks for himself.
func (m *Moment) stands() bool {
	for i := range m.known {
		k := &m.known[i]
		if k.group.Reowning() || k.group.NowMS() != k.clockMS || k.group.List() != k.list {
			return false
		}
	}
	return true
}

// NowMS returns the time by which a key was judged at the moment: that of the group
// that served it.
func (m *Moment) NowMS(p partition.Position) (int64, error) {
	k := m.find(p)
	if k == nil {
		return 0, own.ErrWrongGroup
	}
	return k.clockMS, nil
}

// find returns the group that served a position, nil if none did.
func (m *Moment) find(p partition.Position) *known {
	for i := range m.known {
		if k := &m.known[i]; k.list.Reads(p) {
			return k
		}
	}
	return nil
}

// upto returns up to where a group served everything, from a position on.
func (m *Moment) upto(p partition.Position) (end partition.Position, ok bool) {
	for i := range m.known {
		if end, ok = m.known[i].list.ReadsUpto(p); ok {
			return end, true
		}
	}
	return nil, false
}

// Serves returns nil if groups of the host served all of a span at the moment.
func (m *Moment) Serves(s partition.Span) error {
	for at := s.Start; ; {
		end, ok := m.upto(at)
		if !ok {
			return own.ErrWrongGroup
		}
		if at = end; reaches(end, s.End) {
			return nil
		}
	}
}

// reaches tells whether an end is not before another. An empty one is that of the
// space.
func reaches(end, other partition.Position) bool {
	return len(end) == 0 || len(other) > 0 && bytes.Compare(end, other) >= 0
}
