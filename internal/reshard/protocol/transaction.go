package protocol

import (
	"bytes"
	"errors"
	"slices"
	"sort"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// Call is a command for a group, on behalf of a coordinator.
type Call struct {
	Group partition.GroupID
	// Command makes the command anew, as each evaluation binds its own.
	Command func() command.Command
	// Event returns what a reply means to the coordinator; nil for nothing: it
	// gets a Timeout later, and asks again.
	Event func(command.Reply) txn.Event
	// RemovedEvent is what it means to the coordinator that the group was removed (see
	// [IsGroupRemoved]); nil if that only means that the map is old.
	RemovedEvent txn.Event
}

// CallsFor returns what an effect of a coordinator takes, if the map is right. It is
// nothing for an Answer.
func CallsFor(c *txn.Coordinator, e txn.Effect, m *partition.Map) (calls []Call) {
	switch e := e.(type) {
	case txn.SendPrepare:
		return []Call{prepareCall(c, e, m)}
	case txn.SendDecide:
		return []Call{decideCall(c, e)}
	case txn.SendResolve:
		for _, p := range SplitByGroup(m, e.Span) {
			calls = append(calls, resolveCall(c, e, p))
		}
	case txn.SendCollect:
		calls = append(calls, Call{
			Group:   c.MakeCollect().CoordinatorGroup,
			Command: func() command.Command { return c.MakeCollect() },
			Event: func(r command.Reply) txn.Event {
				if r.Err != nil {
					return nil
				}
				return txn.Collected{}
			},
			RemovedEvent: txn.Collected{},
		})
	}
	return calls
}

func prepareCall(c *txn.Coordinator, e txn.SendPrepare, m *partition.Map) Call {
	return Call{
		Group:   m.Owner(c.MakePrepare(e).Participant.Span.Start).Group,
		Command: func() command.Command { return c.MakePrepare(e) },
		Event: func(r command.Reply) txn.Event {
			switch {
			case r.Err == nil:
				return txn.Prepared(e)
			case errors.Is(r.Err, ownership.ErrFrozen):
				return nil // soon it is thawed, or another group's
			}
			return txn.Refused{Participant: e.Participant, Err: r.Err}
		},
	}
}

func decideCall(c *txn.Coordinator, e txn.SendDecide) Call {
	return Call{
		Group:   c.MakeDecide(e).CoordinatorGroup,
		Command: func() command.Command { return c.MakeDecide(e) },
		Event: func(r command.Reply) txn.Event {
			switch {
			case r.Err == nil:
				return txn.Decided{Outcome: txn.ParseOutcome(r)}
			case errors.Is(r.Err, ownership.ErrFrozen):
				return nil
			}
			return txn.DecideRefused{Err: r.Err}
		},
		// It may have committed, and forgotten it when every participant had received it.
		RemovedEvent: txn.DecideRefused{Err: txn.ErrForgotten},
	}
}

func resolveCall(c *txn.Coordinator, e txn.SendResolve, p GroupSpan) Call {
	return Call{
		Group:   p.Group,
		Command: func() command.Command { return c.MakeResolve(e, p.Span) },
		Event: func(r command.Reply) txn.Event {
			if r.Err != nil {
				return nil // the owner is asked with a newer map
			}
			return txn.Resolved{Span: p.Span}
		},
	}
}

// IsGroupRemoved reports whether a map shows that there was such a group, and is no more. Ids are
// not used again, so any map that shows so is new enough.
//
// A group is removed when it keeps no decision. A decision to commit is kept until no lock of
// its transaction is left. So a lock whose coordinator group was removed is one of a transaction that was
// not committed, and that no coordinator can commit: it is aborted.
func IsGroupRemoved(m *partition.Map, g partition.GroupID) bool {
	if g == 0 || g >= m.NextGroup() {
		return false
	}
	_, ok := m.Group(g)
	return !ok
}

// NewOutcomeQuery makes the command that asks the coordinator group of a lock.
func NewOutcomeQuery(l txn.Lock) *txn.Inquire {
	return &txn.Inquire{ID: l.Txn, CoordinatorGroup: l.CoordinatorGroup, DeadlineMS: l.DeadlineMS}
}

// NewResolve makes the command that ends a transaction in the shard of one of its locks, and
// returns the group that has it. The reply to an Inquire was what became of it.
func NewResolve(l txn.Lock, o txn.Outcome, m *partition.Map) (partition.GroupID, *txn.Resolve) {
	s := m.Find(l.RecordPosition())
	return s.Group, &txn.Resolve{ID: l.Txn, Span: s.Span, Commit: o == txn.Committed, DeadlineMS: l.DeadlineMS}
}

// OverdueLocks returns the locks of a span whose deadline has passed by a group's clock: their
// coordinator has given up, and the group that owns them asks the coordinator group.
func OverdueLocks(r command.Reader, s partition.Span, nowMS int64) (due []txn.Lock, err error) {
	err = ScanLocks(r, s, func(l txn.Lock) bool {
		if nowMS > l.DeadlineMS {
			due = append(due, l)
		}
		return true
	})
	return due, err
}

// ScanLocks visits the locks of a span, those for reading too, until visit returns
// false.
func ScanLocks(r command.Reader, s partition.Span, visit func(txn.Lock) bool) error {
	from, to := effect.Intents.SpanBetween(s.Start, s.End)
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var x txn.Intent
		if x, bad = txn.DecodeIntent(key, value); bad != nil {
			return false
		}
		return visit(x.Lock)
	})
	if err == nil {
		err = bad
	}
	return err
}

// Participants divides what a transaction does, by a map. Each shard is a part, so that none
// waits for a shard that has nothing to do with it. But a range that was read across
// shards of one group is in one part with all of them: there may be more shards than
// a transaction may have parts, and it waits for each of them in any case.
type Participants struct {
	m *partition.Map
	// wideSpans are the spans of ranges across shards, in order; they do not overlap.
	wideSpans []partition.Span
	byStart   map[string]*txn.Participant // by their starts
}

// NewParticipants begins with the ranges that were read, each of which has one owner.
func NewParticipants(m *partition.Map, ranges []command.RangeRead) *Participants {
	d := &Participants{m: m, byStart: map[string]*txn.Participant{}}
	for _, r := range ranges {
		if s := d.expandToShards(partition.Span{Start: r.Start, End: r.End}); !s.Equal(m.Find(r.Start).Span) {
			d.wideSpans = append(d.wideSpans, s)
		}
	}
	d.wideSpans = mergeSpans(d.wideSpans)
	for _, r := range ranges {
		part := d.ParticipantAt(r.Start)
		part.Ranges = append(part.Ranges, r)
	}
	return d
}

// expandToShards returns the span of all shards that a span meets.
func (d *Participants) expandToShards(s partition.Span) partition.Span {
	s.Start = d.m.Find(s.Start).Span.Start
	if len(s.End) == 0 {
		return s
	}
	if last := d.m.Find(s.End).Span; !bytes.Equal(last.Start, s.End) { // else it ends before that one
		s.End = last.End
	}
	return s
}

// mergeSpans makes one of spans that overlap. In order, those that only touch stay two.
func mergeSpans(spans []partition.Span) (list []partition.Span) {
	slices.SortFunc(spans, func(a, b partition.Span) int { return bytes.Compare(a.Start, b.Start) })
	for _, s := range spans {
		n := len(list) - 1
		switch {
		case n < 0 || !list[n].Overlaps(s):
			list = append(list, s)
		case len(list[n].End) > 0 && (len(s.End) == 0 || bytes.Compare(s.End, list[n].End) > 0):
			list[n].End = s.End
		}
	}
	return list
}

// ParticipantAt returns the part that a position is in.
func (d *Participants) ParticipantAt(p partition.Position) *txn.Participant {
	s := d.participantSpan(p)
	part := d.byStart[string(s.Start)]
	if part == nil {
		part = &txn.Participant{Span: s}
		d.byStart[string(s.Start)] = part
	}
	return part
}

func (d *Participants) participantSpan(p partition.Position) partition.Span {
	behind := sort.Search(len(d.wideSpans), func(i int) bool { return bytes.Compare(d.wideSpans[i].Start, p) > 0 })
	if behind > 0 && d.wideSpans[behind-1].Contains(p) {
		return d.wideSpans[behind-1]
	}
	return d.m.Find(p).Span
}

// Sorted returns the parts in the order of their spans.
func (d *Participants) Sorted() []txn.Participant {
	parts := make([]txn.Participant, 0, len(d.byStart))
	for _, part := range d.byStart {
		parts = append(parts, *part)
	}
	slices.SortFunc(parts, func(a, b txn.Participant) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	return parts
}

// GroupSpan is as much of a span as one group has of it without a gap.
type GroupSpan struct {
	Group partition.GroupID
	Span  partition.Span
}

// SplitByGroup cuts a span where its owners change, and nowhere else.
func SplitByGroup(m *partition.Map, s partition.Span) (pieces []GroupSpan) {
	for stretch := range m.Stretches(s) {
		pieces = append(pieces, GroupSpan{stretch.Group, stretch.Span.Intersect(s)})
	}
	return pieces
}
