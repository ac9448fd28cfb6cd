package machine

import (
	"fmt"
	"strings"
)

// This file decides; it does nothing. DESIGN.md has the table.

// EventKind is what happened.
type EventKind uint8

// What can happen to a saga.
const (
	// Did: the Do of the step has taken effect. Data is the value after it.
	Did EventKind = iota + 1
	// DoFailed: the Do has failed, and if the step is not atomic it may have taken
	// effect nevertheless. Why, Retry and Random say what next.
	DoFailed
	// DoRefused: the Do has failed for good. It may have taken effect all the same:
	// an earlier try may have, or be on its way.
	DoRefused
	// Undid: the Undo has taken effect. Data is the value after it.
	Undid
	// UndoFailed: the Undo has failed. Why, Retry and Random say what next.
	UndoFailed
	// UndoRefused: the Undo has failed for good.
	UndoRefused
	// Cancelled: it is to be taken back. Why has the reason.
	Cancelled
	// TurnedRound: it was cancelled, or its deadline has passed, and no Do is being
	// carried out.
	TurnedRound
	// Took: another runner works on it from now on: Owner.
	Took
	// Blocked: the program does not have what it needs. Why says what.
	Blocked
	// Pushed: it is to be tried again now.
	Pushed
)

// Event is something that happened to a saga.
type Event struct {
	Kind  EventKind
	NowMS int64
	// Step is what an answer of a Do or Undo is about: at another one it comes too
	// late.
	Step   int
	Data   []byte
	Why    string
	Owner  string
	Retry  Retry
	Random uint64 // what jitter is taken from
}

// maxReasonBytes bounds the texts of errors in a record.
const maxReasonBytes = 1024

// Next returns what a saga is after an event. The record is stored in the place of
// exactly the one before, and then Wanted says what to do. On an error nothing has
// changed.
func Next(r Record, e Event) (Record, error) {
	if r.State.Ended() {
		return r, ErrEnded
	}
	e.Why = strings.ToValidUTF8(e.Why[:min(len(e.Why), maxReasonBytes)], "")
	next := r
	ok := false
	switch e.Kind {
	case Did, DoFailed, DoRefused:
		ok = r.State == Running && r.At == e.Step
		if ok {
			next.applyDoResult(e)
		}
	case Undid, UndoFailed, UndoRefused:
		ok = r.State == Compensating && r.At == e.Step
		if ok {
			next.applyUndoResult(e)
		}
	case TurnedRound:
		ok = r.mustTurnRound(e.NowMS) && r.Stuck == NotStuck
		if ok {
			next.turnRound(r.Cancel)
		}
	case Cancelled:
		ok = r.State == Running
		if ok {
			next.markCancelled(e.Why)
		}
	case Took:
		ok = true
		next.Owner = e.Owner
		if next.Stuck == StuckCode { // another program: it may have the code
			next.Stuck = NotStuck
		}
	case Blocked:
		ok = r.Stuck == NotStuck
		next.Stuck, next.Failure = StuckCode, e.Why
	case Pushed:
		ok = true
		next.Stuck = NotStuck
		next.clearFailures()
	}
	if !ok {
		return r, fmt.Errorf("%w: %q is %v at step %d", ErrTurn, r.ID, r.State, r.At)
	}
	next.Revision++
	next.ChangedMS = max(e.NowMS, r.ChangedMS)
	if next.State.Ended() {
		next.EndedMS = max(next.ChangedMS, 1)
	}
	return next, nil
}

// clearFailures forgets the failures of the step before.
func (r *Record) clearFailures() { r.Attempts, r.Failure, r.NotBeforeMS = 0, "", 0 }

// applyDoResult is the answer of a Do.
func (r *Record) applyDoResult(e Event) {
	r.Stuck = NotStuck // it was asked for before
	switch e.Kind {
	case Did:
		r.clearFailures()
		r.Data = e.Data
		r.At++
		switch {
		case r.Cancel != "": // it was promised that it is taken back
			r.startCompensating(r.At-1, false, r.Cancel, r.Steps[r.At-1].Name)
		case r.At == len(r.Steps):
			r.State = Completed
		}
	case DoRefused:
		r.turnRound(e.Why)
	default:
		r.Attempts++
		r.Failure = e.Why
		switch {
		case r.Cancel != "":
			r.turnRound(r.Cancel)
			return
		case r.Attempts >= e.Retry.maxAttempts():
			r.turnRound(e.Why)
			return
		}
		r.NotBeforeMS = e.NowMS + e.Retry.WaitAfter(r.Attempts, e.Random).Milliseconds()
	}
}

// mustTurnRound reports whether a saga must turn round.
func (r *Record) mustTurnRound(nowMS int64) bool {
	late := r.DeadlineMS != 0 && nowMS >= r.DeadlineMS
	return r.State == Running && (r.Cancel != "" || late)
}

// turnRound ends the way forward where it is unknown whether the step at hand was
// done. An atomic one was not: the record would say so.
func (r *Record) turnRound(why string) {
	if why == "" {
		why = "the deadline has passed"
		if r.Failure != "" {
			why += "; the step had failed: " + r.Failure
		}
	}
	if r.Steps[r.At].Atomic {
		r.startCompensating(r.At-1, false, why, r.StepName())
		return
	}
	r.startCompensating(r.At, true, why, r.StepName())
}

// startCompensating begins to undo at a step, or ends if there is nothing to undo.
func (r *Record) startCompensating(at int, doubt bool, cause, turned string) {
	r.State, r.At, r.Doubt = Compensating, at, doubt
	r.Cause, r.Turned, r.Cancel = cause, turned, ""
	r.clearFailures()
	r.skipLasting()
}

// skipLasting passes steps that have no Undo.
func (r *Record) skipLasting() {
	for r.At >= 0 && r.Steps[r.At].Lasting {
		r.At--
		r.Doubt = false
	}
	if r.At < 0 {
		r.State, r.At, r.Doubt = Compensated, -1, false
	}
}

// applyUndoResult is the answer of an Undo.
func (r *Record) applyUndoResult(e Event) {
	r.Stuck = NotStuck
	switch e.Kind {
	case Undid:
		r.clearFailures()
		r.Data, r.Doubt = e.Data, false
		r.At--
		r.skipLasting()
	case UndoRefused:
		r.Attempts++
		r.Failure, r.Stuck = e.Why, StuckUndo
	default:
		r.Attempts++
		r.Failure = e.Why
		if limit := e.Retry.UndoAttempts; limit > 0 && r.Attempts >= limit {
			r.Stuck = StuckUndo
			return
		}
		r.NotBeforeMS = e.NowMS + e.Retry.WaitAfter(r.Attempts, e.Random).Milliseconds()
	}
}

// markCancelled marks a saga that is running: a Do that is being carried out may yet report
// what to undo. If it waits for code, it may not need that for the way back.
func (r *Record) markCancelled(why string) {
	if r.Cancel == "" {
		if why == "" {
			why = "cancelled"
		}
		r.Cancel = why
	}
	if r.Stuck == StuckCode {
		r.Stuck = NotStuck
	}
	r.NotBeforeMS = 0
}

// WantKind is what is to be done about a saga.
type WantKind uint8

// What a saga can want.
const (
	// Nothing: it has ended, or is stuck.
	Nothing WantKind = iota
	// Wait until UntilMS.
	Wait
	// Do the step.
	Do
	// Undo the step.
	Undo
	// Turn round: Next with TurnedRound.
	Turn
)

// Want is what is to be done about a saga.
type Want struct {
	Kind    WantKind
	Step    int
	UntilMS int64
}

// Wanted returns what is to be done about a saga that is in the journal as r. It
// follows from r and the time alone, so every reader of the journal can go on.
func Wanted(r Record, nowMS int64) Want {
	switch {
	case r.AtRest():
		return Want{Kind: Nothing}
	case r.mustTurnRound(nowMS):
		return Want{Kind: Turn}
	case nowMS < r.NotBeforeMS:
		until := r.NotBeforeMS
		if r.State == Running && r.DeadlineMS != 0 {
			until = min(until, r.DeadlineMS)
		}
		return Want{Kind: Wait, UntilMS: until}
	case r.State == Running:
		return Want{Kind: Do, Step: r.At}
	}
	return Want{Kind: Undo, Step: r.At}
}

// Need is a part of a step that a saga may come to.
type Need struct {
	Planned
	Undo bool
}

// Needs returns all that a saga may come to: nothing of it is begun by a program that
// does not have it.
func Needs(r Record) (needs []Need) {
	last := r.At // the last step that may have to be undone
	switch {
	case r.State.Ended():
		return nil
	case r.State == Running && r.Cancel == "":
		for _, p := range r.Steps[r.At:] {
			needs = append(needs, Need{p, false})
		}
		last = len(r.Steps) - 1
	case r.State == Running && r.Steps[r.At].Atomic:
		last--
	}
	for _, p := range r.Steps[:last+1] {
		if !p.Lasting {
			needs = append(needs, Need{p, true})
		}
	}
	return needs
}

// Verdict is what the other side does with a call.
type Verdict uint8

// The verdicts.
const (
	// Execute it, and note that it was.
	Execute Verdict = iota
	// Note that it was executed, and do nothing: an Undo of what was not done.
	Note
	// Repeat the answer of the first time, and do nothing.
	Repeat
	// Refuse it: a Do that comes after its Undo.
	Refuse
)

// Judge returns what the other side of a step that is not atomic does with a call, given
// what it has noted of the two calls of that step. What it notes it must keep together
// with the effect, and at least until the saga is removed from the journal.
//
// A Do can be called twice, by a runner that did not get the answer. An Undo can be
// called although its Do never arrived, because the runner cannot know. And that Do
// may still be on its way, and must not take effect when it comes.
func Judge(undo, didDo, didUndo bool) Verdict {
	switch {
	case undo && didUndo, !undo && didDo && !didUndo:
		return Repeat
	case undo && !didDo:
		return Note
	case !undo && didUndo:
		return Refuse
	}
	return Execute
}
