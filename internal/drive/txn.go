package drive

import (
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Call is a command for a group, on behalf of a coordinator.
type Call struct {
	Group partition.GroupID
	// Command makes the command anew, as each evaluation binds its own.
	Command func() command.Command
	// Event says what a reply means to the coordinator; nil for nothing: it
	// hears a Timeout later, and asks again.
	Event func(command.Reply) txn.Event
	// Gone is what it means to the coordinator that the group was removed (see
	// [Removed]); nil if that only means that the map is old.
	Gone txn.Event
}

// Calls returns what an effect of a coordinator takes, if the map is right. It is
// nothing for an Answer.
func Calls(c *txn.Coordinator, e txn.Effect, m *partition.Map) (calls []Call) {
	switch e := e.(type) {
	case txn.SendPrepare:
		return []Call{prepare(c, e, m)}
	case txn.SendDecide:
		return []Call{decide(c, e)}
	case txn.SendResolve:
		for _, p := range Pieces(m, e.Span) {
			calls = append(calls, resolve(c, e, p))
		}
	case txn.SendCollect:
		calls = append(calls, Call{
			Group:   c.Collect().Decider,
			Command: func() command.Command { return c.Collect() },
			Event: func(r command.Reply) txn.Event {
				if r.Err != nil {
					return nil
				}
				return txn.Collected{}
			},
			Gone: txn.Collected{},
		})
	}
	return calls
}

func prepare(c *txn.Coordinator, e txn.SendPrepare, m *partition.Map) Call {
	return Call{
		Group:   m.Owner(c.Prepare(e).Part.Span.Start).Group,
		Command: func() command.Command { return c.Prepare(e) },
		Event: func(r command.Reply) txn.Event {
			switch {
			case r.Err == nil:
				return txn.Prepared(e)
			case errors.Is(r.Err, own.ErrFrozen):
				return nil // soon it is thawed, or another group's
			}
			return txn.Refused{Part: e.Part, Err: r.Err}
		},
	}
}

func decide(c *txn.Coordinator, e txn.SendDecide) Call {
	return Call{
		Group:   c.Decide(e).Decider,
		Command: func() command.Command { return c.Decide(e) },
		Event: func(r command.Reply) txn.Event {
			switch {
			case r.Err == nil:
				return txn.Decided{Outcome: txn.OutcomeOf(r)}
			case errors.Is(r.Err, own.ErrFrozen):
				return nil
			}
			return txn.DecideRefused{Err: r.Err}
		},
		// It may have committed, and forgotten it when everybody had heard of it.
		Gone: txn.DecideRefused{Err: txn.ErrForgotten},
	}
}

func resolve(c *txn.Coordinator, e txn.SendResolve, p Piece) Call {
	return Call{
		Group:   p.Group,
		Command: func() command.Command { return c.Resolve(e, p.Span) },
		Event: func(r command.Reply) txn.Event {
			if r.Err != nil {
				return nil // whoever owns it is asked with a newer map
			}
			return txn.Resolved{Span: p.Span}
		},
	}
}

// Removed tells whether a map says that there was such a group, and is no more.
// Ids are not used again, so any map that says so is new enough.
//
// A group is removed when it keeps no decision. One to commit is kept until no lock
// of its transaction is left, so a lock whose decider was removed is one of a
// transaction that was not committed, and nobody is there to commit it: it is
// aborted.
func Removed(m *partition.Map, g partition.GroupID) bool {
	if g == 0 || g >= m.NextGroup() || plant.Bug("drive-removed-decider-awaited") {
		return false
	}
	_, ok := m.Group(g)
	return !ok
}

// Inquire makes the command that asks the decider of a lock.
func Inquire(l txn.Lock) *txn.Inquire {
	return &txn.Inquire{ID: l.Txn, Decider: l.Decider, DeadlineMS: l.DeadlineMS}
}

// Settle makes the command that ends a transaction in the shard of one of its
// locks, and says whose it is. The reply to an Inquire said what became of it.
func Settle(l txn.Lock, o txn.Outcome, m *partition.Map) (partition.GroupID, *txn.Resolve) {
	s := m.Find(l.At())
	return s.Group, &txn.Resolve{ID: l.Txn, Span: s.Span, Commit: o == txn.Committed, DeadlineMS: l.DeadlineMS}
}

// Due returns the locks of a span whose deadline has passed by a group's clock:
// nobody looks after them any more, and whoever owns them asks the decider.
func Due(r command.Reader, s partition.Span, nowMS int64) (due []txn.Lock, err error) {
	err = EachLock(r, s, func(l txn.Lock) bool {
		if nowMS > l.DeadlineMS {
			due = append(due, l)
		}
		return true
	})
	return due, err
}

// EachLock visits the locks of a span, those for reading too, until visit returns
// false.
func EachLock(r command.Reader, s partition.Span, visit func(txn.Lock) bool) error {
	from, to := effect.Intents.Between(s.Start, s.End)
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
