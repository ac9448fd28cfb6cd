package saga

import "github.com/cleavekv/cleave/saga/machine"

// What a saga is and does next is decided by package machine, which does nothing itself. These
// are its types for authors of journals and steps.
type (
	// Record is all that a journal has of a saga.
	Record = machine.Record
	// Planned is a step as it was when the saga began.
	Planned = machine.Planned
	// State is how a saga stands, and Stuck why it stands still.
	State = machine.State
	Stuck = machine.Stuck
	// Event is something that happened to a saga, of a kind.
	Event     = machine.Event
	EventKind = machine.EventKind
	// Want is what is to be done about a saga, of a kind.
	Want     = machine.Want
	WantKind = machine.WantKind
	// Need is a part of a step that a saga may come to.
	Need = machine.Need
	// Verdict is what the other side does with a call.
	Verdict = machine.Verdict
	// Retry specifies how often, and after which time, a step is tried again.
	Retry = machine.Retry
)

// The states of a saga, and the reasons for which one is stuck: see package machine.
const (
	Running      = machine.Running
	Compensating = machine.Compensating
	Completed    = machine.Completed
	Compensated  = machine.Compensated

	NotStuck  = machine.NotStuck
	StuckUndo = machine.StuckUndo
	StuckCode = machine.StuckCode
)

// What can happen to a saga: see package machine.
const (
	Did         = machine.Did
	DoFailed    = machine.DoFailed
	DoRefused   = machine.DoRefused
	Undid       = machine.Undid
	UndoFailed  = machine.UndoFailed
	UndoRefused = machine.UndoRefused
	Cancelled   = machine.Cancelled
	TurnedRound = machine.TurnedRound
	Took        = machine.Took
	Blocked     = machine.Blocked
	Pushed      = machine.Pushed
)

// What a saga can want: see package machine.
const (
	Nothing = machine.Nothing
	Wait    = machine.Wait
	Do      = machine.Do
	Undo    = machine.Undo
	Turn    = machine.Turn
)

// The verdicts: see package machine.
const (
	Execute = machine.Execute
	Note    = machine.Note
	Repeat  = machine.Repeat
	Refuse  = machine.Refuse
)

// MaxID is the most bytes of an id, MaxSteps the most steps of a definition, and MaxValue
// the most bytes of a saga's value: it is written with every step.
const (
	MaxID    = machine.MaxID
	MaxSteps = machine.MaxSteps
	MaxValue = 1 << 20
)

// Begin returns the first record of a saga.
func Begin(id, definition string, steps []Planned, data []byte, owner string, nowMS, deadlineMS int64) Record {
	return machine.Begin(id, definition, steps, data, owner, nowMS, deadlineMS)
}

// Next returns what a saga is after an event: see [machine.Next].
func Next(r Record, e Event) (Record, error) { return machine.Next(r, e) }

// Wanted returns what is to be done about a saga that is in the journal as r: see
// [machine.Wanted].
func Wanted(r Record, nowMS int64) Want { return machine.Wanted(r, nowMS) }

// Needs returns all that a saga may come to: see [machine.Needs].
func Needs(r Record) []Need { return machine.Needs(r) }

// Judge returns what the other side of a step that is not atomic does with a call, given what it
// has noted of the two calls of that step: see [machine.Judge].
func Judge(undo, didDo, didUndo bool) Verdict { return machine.Judge(undo, didDo, didUndo) }
