package txn

import "github.com/cleavekv/cleave/partition"

// Event is what a [Coordinator] is told.
type Event interface{ event() }

// The events.
type (
	// Prepared is the reply OK to a Prepare.
	Prepared struct{ Part int }
	// Refused is an error as the reply to a Prepare. If nobody knows whether
	// it was prepared, there is no event: a Timeout sends it again.
	Refused struct {
		Part int
		Err  error
	}
	// Decided is the outcome in the reply to a Decide, of either kind.
	Decided struct{ Outcome Outcome }
	// DecideRefused is an error as the reply to a Decide.
	DecideRefused struct {
		Err error
		// NoneLeft says that each Decide to commit that was ever sent has been refused,
		// so that none is on its way: the transaction cannot be committed any more.
		NoneLeft bool
	}
	// Resolved is the reply to a Resolve of a span, or of a piece of one.
	Resolved struct{ Span partition.Span }
	// Collected is the reply to a Collect.
	Collected struct{}
	// Cancel means that the caller does not want it any more.
	Cancel struct {
		// NoneLeft is as in DecideRefused.
		NoneLeft bool
	}
	// Timeout means that nothing has come for a while: what is on its way may
	// be lost.
	Timeout struct{}
)

func (Prepared) event()      {}
func (Refused) event()       {}
func (Decided) event()       {}
func (DecideRefused) event() {}
func (Resolved) event()      {}
func (Collected) event()     {}
func (Cancel) event()        {}
func (Timeout) event()       {}

// Effect is what a [Coordinator] wants done.
type Effect interface{ effect() }

// The effects.
type (
	// SendPrepare wants [Coordinator.Prepare] evaluated by the owner of the part.
	SendPrepare struct{ Part int }
	// SendDecide wants [Coordinator.Decide] evaluated by the decider.
	SendDecide struct{ Commit bool }
	// SendResolve wants [Coordinator.Resolve] evaluated by the owners of the
	// span, each for as much of it as it owns.
	SendResolve struct {
		Span   partition.Span
		Commit bool
	}
	// SendCollect wants [Coordinator.Collect] evaluated by the decider.
	SendCollect struct{}
	// Answer is for the caller: what became of the transaction, and why it is
	// aborted, or Undecided with ErrForgotten: nobody knows.
	Answer struct {
		Outcome Outcome
		Err     error
	}
)

func (SendPrepare) effect() {}
func (SendDecide) effect()  {}
func (SendResolve) effect() {}
func (SendCollect) effect() {}
func (Answer) effect()      {}

// Prepare makes the command for a SendPrepare.
func (c *Coordinator) Prepare(e SendPrepare) *Prepare {
	return &Prepare{ID: c.plan.ID, Part: c.plan.Parts[e.Part], Decider: c.plan.Decider, DeadlineMS: c.plan.DeadlineMS}
}

// Decide makes the command for a SendDecide.
func (c *Coordinator) Decide(e SendDecide) *Decide {
	return &Decide{
		ID: c.plan.ID, Commit: e.Commit, Part: c.plan.Parts[0],
		Decider: c.plan.Decider, DeadlineMS: c.plan.DeadlineMS, Others: c.plan.others(),
	}
}

// Resolve makes the command for a SendResolve, for a piece of its span.
func (c *Coordinator) Resolve(e SendResolve, piece partition.Span) *Resolve {
	return &Resolve{ID: c.plan.ID, Span: piece, Commit: e.Commit, DeadlineMS: c.plan.DeadlineMS}
}

// Collect makes the command for a SendCollect.
func (c *Coordinator) Collect() *Collect {
	return &Collect{ID: c.plan.ID, Decider: c.plan.Decider, Confirmed: c.confirmed}
}
