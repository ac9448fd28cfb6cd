package txn

import (
	"errors"

	"github.com/cleavekv/cleave/partition"
)

// Plan is a transaction that is ready to be committed.
type Plan struct {
	ID         ID
	DeadlineMS int64
	// Participants are in the order of their spans. The first is the coordinator group's.
	Participants []Participant
	// CoordinatorGroup is the group that owns the first part.
	CoordinatorGroup partition.GroupID
	// Patient transactions wait for locks that they meet: only those that hold
	// everything they need (see [ReservationQueue]), or two could wait for each other.
	Patient bool
}

// Coordinator leads a transaction to its end, or one that was led before from its decision on.
// It takes events and returns what to send; it may get an event twice, late, or never. DESIGN.md
// has its states as a table.
type Coordinator struct {
	plan  Plan
	state State
	// unprepared has for each part whether its Prepared is still to come.
	// Invariant: unpreparedCount is how many of them are true.
	unprepared      []bool
	unpreparedCount int
	// commitSent reports whether a Decide to commit was ever sent, and may be in flight or have
	// succeeded. Invariant: if not, only this Coordinator can make the transaction anything but
	// aborted, and it needs no record to be aborted.
	commitSent bool
	outcome    Outcome // Invariant: it is final iff state >= Resolving, unless forgotten
	err        error   // why it is aborted
	// unresolved are the spans whose owners have not confirmed.
	unresolved []partition.Span
	// confirmed are those that have, for the coordinator group.
	confirmed []partition.Span
	silent    bool // no caller waits for an answer
}

// State is how far a Coordinator has come.
type State uint8

// The states, in the order in which they are gone through. Undoing is left out
// unless a decision to commit was asked for in vain.
const (
	// Preparing waits until all parts but the first are prepared.
	Preparing State = iota
	// Deciding waits for the coordinator group, which was asked to commit.
	Deciding
	// Undoing waits for the coordinator group, which was asked to abort.
	Undoing
	// Resolving knows the outcome and waits until all have it.
	Resolving
	// Collecting waits until the coordinator group knows that all have it.
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
	c := &Coordinator{plan: p, unprepared: make([]bool, len(p.Participants)), unpreparedCount: len(p.Participants) - 1}
	for i := range p.Participants {
		c.unprepared[i] = i > 0
	}
	if c.unpreparedCount == 0 {
		return c, c.becomeDeciding()
	}
	return c, c.sendPrepares()
}

// ResumeCoordinator resolves the transaction of a decision that was found in its group's state.
func ResumeCoordinator(d Decision, coordinatorGroup partition.GroupID) (*Coordinator, []Effect) {
	c := &Coordinator{plan: Plan{ID: d.ID, DeadlineMS: d.DeadlineMS, CoordinatorGroup: coordinatorGroup}, commitSent: true, silent: true}
	c.unresolved = d.Spans
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
		if !c.unprepared[ev.Participant] {
			return nil // again
		}
		c.unprepared[ev.Participant] = false
		if c.unpreparedCount--; c.unpreparedCount == 0 {
			return c.becomeDeciding()
		}
	case Refused:
		if c.unprepared[ev.Participant] && !c.shouldWaitFor(ev.Err) {
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
		if c.shouldWaitFor(ev.Err) {
			return nil
		}
		c.err = ev.Err
		if errors.Is(ev.Err, ErrForgotten) {
			if !ev.NoneInFlight {
				return c.becomeLost()
			}
			c.err = ErrDeadline // it was not committed: no record was forgotten
		}
		return c.becomeUndoing(ev.NoneInFlight)
	case Cancel:
		c.err = ErrCancelled
		return c.becomeUndoing(ev.NoneInFlight)
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
		c.unresolved = subtractSpan(c.unresolved, ev.Span)
		c.confirmed = append(c.confirmed, ev.Span)
		if len(c.unresolved) == 0 {
			return c.becomeCollecting()
		}
	case Timeout:
		return c.sendResolves()
	}
	return nil
}

// shouldWaitFor reports whether the reason for a refusal passes by itself. A transaction that
// locked something before this one reserved it waits for no other. A transaction that holds what
// this one did not reserve may wait for this one.
func (c *Coordinator) shouldWaitFor(err error) bool {
	return c.plan.Patient && errors.Is(err, ErrLocked)
}

func (c *Coordinator) becomeDeciding() []Effect {
	c.state, c.commitSent = Deciding, true
	return []Effect{SendDecide{Commit: true}}
}

// becomeUndoing has an abort recorded, unless there is no Decide that it would have to
// keep from committing.
func (c *Coordinator) becomeUndoing(noneLeft bool) []Effect {
	if noneLeft {
		c.commitSent = false
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
	if c.unresolved == nil {
		c.unresolved = c.plan.otherSpans()
	}
	var effects []Effect
	if !c.silent {
		effects = append(effects, Answer{Outcome: o, Err: c.err})
	}
	if len(c.unresolved) == 0 {
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
	if !c.commitSent {
		c.state = Done
		return nil
	}
	c.state = Collecting
	return []Effect{SendCollect{}}
}

func (c *Coordinator) sendPrepares() (effects []Effect) {
	for i := range c.plan.Participants {
		if c.unprepared[i] {
			effects = append(effects, SendPrepare{Participant: i})
		}
	}
	return effects
}

func (c *Coordinator) sendResolves() (effects []Effect) {
	for _, s := range c.unresolved {
		effects = append(effects, SendResolve{Span: s, Commit: c.outcome == Committed})
	}
	return effects
}

// otherSpans are the spans of all parts but the first.
func (p *Plan) otherSpans() []partition.Span {
	if len(p.Participants) < 2 {
		return nil
	}
	spans := make([]partition.Span, 0, len(p.Participants)-1)
	for i := range p.Participants[1:] {
		spans = append(spans, p.Participants[i+1].Span)
	}
	return spans
}

// Event is the input of a [Coordinator].
type Event interface{ isEvent() }

// The events.
type (
	// Prepared is the reply OK to a Prepare.
	Prepared struct{ Participant int }
	// Refused is an error as the reply to a Prepare. If it is unknown whether it was prepared,
	// there is no event: a Timeout sends it again.
	Refused struct {
		Participant int
		Err         error
	}
	// Decided is the outcome in the reply to a Decide, of either kind.
	Decided struct{ Outcome Outcome }
	// DecideRefused is an error as the reply to a Decide.
	DecideRefused struct {
		Err error
		// NoneInFlight means that each Decide to commit that was ever sent has been refused,
		// so that none is in flight: the transaction cannot be committed any more.
		NoneInFlight bool
	}
	// Resolved is the reply to a Resolve of a span, or of a piece of one.
	Resolved struct{ Span partition.Span }
	// Collected is the reply to a Collect.
	Collected struct{}
	// Cancel means that the caller does not want it any more.
	Cancel struct {
		// NoneInFlight is as in DecideRefused.
		NoneInFlight bool
	}
	// Timeout means that nothing has come for a while: what is in flight may
	// be lost.
	Timeout struct{}
)

func (Prepared) isEvent()      {}
func (Refused) isEvent()       {}
func (Decided) isEvent()       {}
func (DecideRefused) isEvent() {}
func (Resolved) isEvent()      {}
func (Collected) isEvent()     {}
func (Cancel) isEvent()        {}
func (Timeout) isEvent()       {}

// Effect is what a [Coordinator] wants done.
type Effect interface{ isEffect() }

// The effects.
type (
	// SendPrepare wants [Coordinator.MakePrepare] evaluated by the owner of the part.
	SendPrepare struct{ Participant int }
	// SendDecide wants [Coordinator.MakeDecide] evaluated by the coordinator group.
	SendDecide struct{ Commit bool }
	// SendResolve wants [Coordinator.MakeResolve] evaluated by the owners of the
	// span, each for as much of it as it owns.
	SendResolve struct {
		Span   partition.Span
		Commit bool
	}
	// SendCollect wants [Coordinator.MakeCollect] evaluated by the coordinator group.
	SendCollect struct{}
	// Answer is for the caller: what became of the transaction, and why it is aborted, or
	// Undecided with ErrForgotten if that is unknown.
	Answer struct {
		Outcome Outcome
		Err     error
	}
)

func (SendPrepare) isEffect() {}
func (SendDecide) isEffect()  {}
func (SendResolve) isEffect() {}
func (SendCollect) isEffect() {}
func (Answer) isEffect()      {}

// MakePrepare makes the command for a SendPrepare.
func (c *Coordinator) MakePrepare(e SendPrepare) *Prepare {
	return &Prepare{ID: c.plan.ID, Participant: c.plan.Participants[e.Participant], CoordinatorGroup: c.plan.CoordinatorGroup, DeadlineMS: c.plan.DeadlineMS}
}

// MakeDecide makes the command for a SendDecide.
func (c *Coordinator) MakeDecide(e SendDecide) *Decide {
	return &Decide{
		ID: c.plan.ID, Commit: e.Commit, Participant: c.plan.Participants[0],
		CoordinatorGroup: c.plan.CoordinatorGroup, DeadlineMS: c.plan.DeadlineMS, OtherSpans: c.plan.otherSpans(),
	}
}

// MakeResolve makes the command for a SendResolve, for a piece of its span.
func (c *Coordinator) MakeResolve(e SendResolve, piece partition.Span) *Resolve {
	return &Resolve{ID: c.plan.ID, Span: piece, Commit: e.Commit, DeadlineMS: c.plan.DeadlineMS}
}

// MakeCollect makes the command for a SendCollect.
func (c *Coordinator) MakeCollect() *Collect {
	return &Collect{ID: c.plan.ID, CoordinatorGroup: c.plan.CoordinatorGroup, Confirmed: c.confirmed}
}
