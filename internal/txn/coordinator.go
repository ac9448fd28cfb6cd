package txn

import (
	"errors"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Plan is a transaction that is ready to be committed.
type Plan struct {
	ID         ID
	DeadlineMS int64
	// Parts are in the order of their spans. The first is the decider's.
	Parts []Part
	// Decider is the group that owns the first part.
	Decider partition.GroupID
	// Patient transactions wait for locks that they meet: only those that hold
	// everything they need (see [Holds]), or two could wait for each other.
	Patient bool
}

// Coordinator leads a transaction to its end, or one that was led before from
// its decision on. It is told what has happened and says what to send; it may
// be told twice, late, or never. DESIGN.md has its states as a table.
type Coordinator struct {
	plan  Plan
	state State
	// waiting tells of each part whether it has yet to say that it is prepared.
	// Invariant: unprepared is how many of them are true.
	waiting    []bool
	unprepared int
	// asked tells whether a Decide to commit was ever sent, and may be on its way or
	// have succeeded. Invariant: if not, nobody but this Coordinator can make the
	// transaction anything but aborted, and it needs no record to be so.
	asked   bool
	outcome Outcome // Invariant: final iff state >= Resolving, unless forgotten
	err     error   // why it is aborted
	// left are the spans whose owners have not confirmed.
	left []partition.Span
	// confirmed are those that have, for the decider.
	confirmed []partition.Span
	silent    bool // nobody waits for an answer
}

// State is how far a Coordinator has come.
type State uint8

// The states, in the order in which they are gone through. Undoing is left out
// unless a decision to commit was asked for in vain.
const (
	// Preparing waits until all parts but the first are prepared.
	Preparing State = iota
	// Deciding waits for the decider, which was asked to commit.
	Deciding
	// Undoing waits for the decider, which was asked to abort.
	Undoing
	// Resolving knows the outcome and waits until all have it.
	Resolving
	// Collecting waits until the decider knows that all have it.
	Collecting
	// Done waits for nothing.
	Done
)

// String is the state in errors and reports.
func (s State) String() string {
	return [...]string{"preparing", "deciding", "undoing", "resolving", "collecting", "done"}[s]
}

// ErrCancelled is why a transaction is aborted that its caller gave up.
var ErrCancelled = errors.New("txn: cancelled by the caller")

// NewCoordinator begins to commit a plan.
func NewCoordinator(p Plan) (*Coordinator, []Effect) {
	c := &Coordinator{plan: p, waiting: make([]bool, len(p.Parts)), unprepared: len(p.Parts) - 1}
	for i := range p.Parts {
		c.waiting[i] = i > 0
	}
	if c.unprepared == 0 {
		return c, c.becomeDeciding()
	}
	return c, c.sendPrepares()
}

// Resume carries out a decision that was found in its group's state.
func Resume(d Decision, decider partition.GroupID) (*Coordinator, []Effect) {
	c := &Coordinator{plan: Plan{ID: d.ID, DeadlineMS: d.DeadlineMS, Decider: decider}, asked: true, silent: true}
	c.left = d.Spans
	return c, c.becomeResolving(d.Outcome)
}

// State is how far it has come.
func (c *Coordinator) State() State { return c.state }

// Outcome is what became of the transaction, Undecided before it is known.
func (c *Coordinator) Outcome() Outcome { return c.outcome }

// Step takes an event and returns what to do about it.
func (c *Coordinator) Step(ev Event) []Effect {
	switch c.state {
	case Preparing:
		return c.stepPreparing(ev)
	case Deciding:
		return c.stepDeciding(ev)
	case Undoing:
		return c.stepUndoing(ev)
	case Resolving:
		return c.stepResolving(ev)
	case Collecting:
		switch ev.(type) {
		case Collected:
			c.state = Done
		case Timeout:
			return []Effect{SendCollect{}}
		}
	}
	return nil
}

func (c *Coordinator) stepPreparing(ev Event) []Effect {
	switch ev := ev.(type) {
	case Prepared:
		if !c.waiting[ev.Part] {
			return nil // again
		}
		c.waiting[ev.Part] = false
		if c.unprepared--; c.unprepared == 0 {
			return c.becomeDeciding()
		}
	case Refused:
		if c.waiting[ev.Part] && !c.waitsFor(ev.Err) {
			c.err = ev.Err
			return c.becomeResolving(Aborted)
		}
	case Cancel:
		c.err = ErrCancelled
		return c.becomeResolving(Aborted)
	case Timeout:
		return c.sendPrepares()
	}
	return nil
}

func (c *Coordinator) stepDeciding(ev Event) []Effect {
	switch ev := ev.(type) {
	case Decided:
		return c.becomeResolving(ev.Outcome)
	case DecideRefused:
		if c.waitsFor(ev.Err) {
			return nil
		}
		c.err = ev.Err
		if errors.Is(ev.Err, ErrForgotten) {
			if !ev.NoneLeft {
				return c.becomeLost()
			}
			c.err = ErrDeadline // nobody has committed it: there is nothing that was forgotten
		}
		return c.becomeUndoing(ev.NoneLeft)
	case Cancel:
		c.err = ErrCancelled
		return c.becomeUndoing(ev.NoneLeft)
	case Timeout:
		return []Effect{SendDecide{Commit: true}}
	}
	return nil
}

func (c *Coordinator) stepUndoing(ev Event) []Effect {
	switch ev := ev.(type) {
	case Decided:
		return c.becomeResolving(ev.Outcome)
	case DecideRefused:
		if errors.Is(ev.Err, ErrForgotten) {
			return c.becomeLost()
		}
	case Timeout:
		return []Effect{SendDecide{}}
	}
	return nil
}

func (c *Coordinator) stepResolving(ev Event) []Effect {
	switch ev := ev.(type) {
	case Resolved:
		c.left = subtract(c.left, ev.Span)
		c.confirmed = append(c.confirmed, ev.Span)
		if len(c.left) == 0 || plant.Bug("txn-collect-unconfirmed") {
			return c.becomeCollecting()
		}
	case Timeout:
		return c.sendResolves()
	}
	return nil
}

// waitsFor tells whether what refused passes by itself: those who locked something before the
// transaction held it wait for nobody. Whoever holds what it did not ask for may wait for it.
func (c *Coordinator) waitsFor(err error) bool {
	return c.plan.Patient && errors.Is(err, ErrLocked)
}

func (c *Coordinator) becomeDeciding() []Effect {
	c.state, c.asked = Deciding, true
	return []Effect{SendDecide{Commit: true}}
}

// becomeUndoing has an abort recorded, unless there is no Decide that it would have to
// keep from committing.
func (c *Coordinator) becomeUndoing(noneLeft bool) []Effect {
	if noneLeft || plant.Bug("txn-abort-not-recorded") {
		c.asked = false
		return c.becomeResolving(Aborted)
	}
	c.state = Undoing
	return []Effect{SendDecide{}}
}

func (c *Coordinator) becomeResolving(o Outcome) []Effect {
	c.state, c.outcome = Resolving, o
	if o == Committed {
		c.err = nil // the answer to an earlier message was lost
	}
	if c.left == nil {
		c.left = c.plan.others()
	}
	var effects []Effect
	if !c.silent {
		effects = append(effects, Answer{Outcome: o, Err: c.err})
	}
	if len(c.left) == 0 {
		return append(effects, c.becomeCollecting()...)
	}
	return append(effects, c.sendResolves()...)
}

// becomeLost gives up to learn the outcome. The groups find it out for
// themselves: from the decision, or from their locks.
func (c *Coordinator) becomeLost() []Effect {
	c.state = Done
	return []Effect{Answer{Outcome: Undecided, Err: ErrForgotten}}
}

func (c *Coordinator) becomeCollecting() []Effect {
	if !c.asked {
		c.state = Done
		return nil
	}
	c.state = Collecting
	return []Effect{SendCollect{}}
}

func (c *Coordinator) sendPrepares() (effects []Effect) {
	for i := range c.plan.Parts {
		if c.waiting[i] {
			effects = append(effects, SendPrepare{Part: i})
		}
	}
	return effects
}

func (c *Coordinator) sendResolves() (effects []Effect) {
	for _, s := range c.left {
		effects = append(effects, SendResolve{Span: s, Commit: c.outcome == Committed})
	}
	return effects
}

// others are the spans of all parts but the first.
func (p *Plan) others() []partition.Span {
	if len(p.Parts) < 2 {
		return nil
	}
	spans := make([]partition.Span, 0, len(p.Parts)-1)
	for i := range p.Parts[1:] {
		spans = append(spans, p.Parts[i+1].Span)
	}
	return spans
}
