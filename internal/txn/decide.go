package txn

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Decide decides a transaction, in the group that all its locks name. To commit
// it, all other parts are prepared; its own part is validated and done in the
// same step that records the decision. A decision never changes: the reply is
// the outcome that is recorded, whatever was asked for (see [OutcomeOf]); past
// the deadline it is Aborted without a record. If the part cannot be done now,
// the reply is an error and nothing is decided.
type Decide struct {
	bound
	ID         ID
	Commit     bool
	Part       Part
	Decider    partition.GroupID
	DeadlineMS int64
	// Others are the spans of the other parts.
	Others []partition.Span
}

// Eval decides.
func (c *Decide) Eval(e *command.Env) command.Reply {
	if c.Decider != c.site.group {
		return failed(fmt.Errorf("%w: %v decides, this is %v", ErrDecider, c.Decider, c.site.group))
	}
	d, decided, err := c.lookUp(e)
	switch {
	case err != nil:
		return failed(err)
	case decided:
		return say(d.Outcome)
	case c.Commit:
		return c.commit(e)
	}
	if e.NowMS() > c.DeadlineMS {
		// Nobody can commit it any more: no record says the same.
		return c.late(e)
	}
	c.record(e, Aborted)
	return say(Aborted)
}

// Urgent tells that it ends what found room before, unless it is to commit.
func (c *Decide) Urgent() bool { return !c.Commit }

// late is the answer about a transaction without a record past its deadline.
func (c *Decide) late(e *command.Env) command.Reply {
	if e.NowMS() > c.DeadlineMS+KeepMS {
		return failed(ErrForgotten)
	}
	return say(Aborted)
}

func (c *Decide) commit(e *command.Env) command.Reply {
	if e.NowMS() > c.DeadlineMS && !plant.Bug("txn-decide-past-deadline") {
		return c.late(e)
	}
	if err := c.site.owns(c.Part.Span); err != nil {
		return failed(err)
	}
	t, err := c.site.try(e, c.ID, &c.Part)
	if err != nil {
		return failed(err)
	}
	for i := range t.locks {
		if err := t.locks[i].redo(e); err != nil {
			return failed(err)
		}
	}
	c.record(e, Committed)
	return say(Committed)
}

// lookUp returns the decision if there is one.
func (c *Decide) lookUp(e *command.Env) (Decision, bool, error) {
	s := c.site
	if !s.loaded && !plant.Bug("txn-decisions-not-loaded") {
		err := Decisions(e, s.group, func(d Decision) bool {
			s.decided.add(d.ID, d.DeadlineMS, e.NowMS())
			return true
		})
		if err != nil {
			return Decision{}, false, err
		}
		s.loaded = true
	}
	if s.decided.unknown(c.ID, c.DeadlineMS, e.NowMS()) {
		return Decision{}, false, nil
	}
	return LookUp(e, s.group, c.ID)
}

func (c *Decide) record(e *command.Env, o Outcome) {
	c.site.decided.add(c.ID, c.DeadlineMS, e.NowMS())
	d := Decision{ID: c.ID, Outcome: o, DeadlineMS: c.DeadlineMS, Spans: c.Others}
	e.Put(decisionKey(nil, c.site.group, c.ID), d.append(nil))
}

// Inquire asks a group for its decision. The reply is an outcome: without a
// record, the transaction is Aborted from its deadline on, as no decision to
// commit is made after it, and Undecided before.
//
// An answer is about locks that are still there when it has come: once all are
// resolved the decision is forgotten. So whoever hears Aborted looks at the lock
// again, and if it is gone at the key.
type Inquire struct {
	bound
	ID         ID
	Decider    partition.GroupID
	DeadlineMS int64
}

// Eval looks the decision up.
func (c *Inquire) Eval(e *command.Env) command.Reply {
	if c.Decider != c.site.group {
		return failed(fmt.Errorf("%w: %v decides, this is %v", ErrDecider, c.Decider, c.site.group))
	}
	d, decided, err := LookUp(e, c.site.group, c.ID)
	switch {
	case err != nil:
		return failed(err)
	case plant.Bug("txn-inquiry-overrules") && e.NowMS() > c.DeadlineMS:
		return say(Aborted)
	case decided:
		return say(d.Outcome)
	case e.NowMS() > c.DeadlineMS:
		return say(Aborted)
	}
	return say(Undecided)
}
