package saga

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/saga/machine"
)

// What can go wrong. Errors match one of these with errors.Is, and their text says
// what to do.
var (
	// ErrNotFound means that the journal has no such saga: it never began, or ended
	// longer ago than Options.Retention.
	ErrNotFound = errors.New("saga: no such saga")
	// ErrExists means that the journal has a saga of that id.
	ErrExists = errors.New("saga: the id is taken")
	// ErrConflict means that the journal has another revision: load it and look again.
	ErrConflict = errors.New("saga: the journal has another revision")
	// ErrEnded means that the saga has ended: nothing changes it any more.
	ErrEnded = machine.ErrEnded
	// ErrCompensated means that the saga was taken back: the text says why.
	ErrCompensated = errors.New("saga: taken back")
	// ErrStuck means that the saga stands still: the text says why. Remove the cause,
	// and call Runner.Retry.
	ErrStuck = errors.New("saga: stuck")
	// ErrDefinition means that a definition cannot be used: the text says why.
	ErrDefinition = errors.New("saga: bad definition")
	// ErrID means that an id cannot be used: it has 1 to MaxID bytes of UTF-8.
	ErrID = machine.ErrID
	// ErrValue means that the value of a saga is too large: at most MaxValue bytes.
	ErrValue = errors.New("saga: the value is too large")
	// ErrTaken means that the id names a saga of another definition: choose another.
	ErrTaken = errors.New("saga: the id names a saga of another definition")
	// ErrOptions means that an option is out of its range: the text says which.
	ErrOptions = errors.New("saga: bad options")
	// ErrClosed means that the runner was closed. What is under way goes on when
	// another one resumes it.
	ErrClosed = errors.New("saga: the runner is closed")
	// ErrUndone refuses a Do that comes after its Undo: the saga is on its way back, and
	// there is nothing to do about it.
	ErrUndone = errors.New("saga: the step was undone before")
	// ErrTurn means that an event does not fit the record: it comes too late, or
	// twice. Nothing has changed.
	ErrTurn = machine.ErrTurn
	// ErrFormat means that a record in the journal cannot be read: it is damaged, or
	// was written by a newer version.
	ErrFormat = machine.ErrFormat
)

// EndError reports why a saga did not complete. It matches ErrCompensated or ErrStuck.
type EndError struct {
	ID, Definition string
	// Step is the step that failed, or at which it was; Cause what happened, or why it
	// was cancelled; Stuck the reason if it is stuck.
	Step, Cause string
	Stuck       Stuck
}

// Error returns why, and of one that is stuck what to do.
func (e *EndError) Error() string {
	if e.Stuck == StuckUndo {
		return fmt.Sprintf("saga %s %q is stuck (%v) at step %q: %s: remove the cause, and call Runner.Retry", e.Definition, e.ID, e.Stuck, e.Step, e.Cause)
	}
	if e.Stuck != NotStuck {
		return fmt.Sprintf("saga %s %q is stuck (%v) at step %q: %s", e.Definition, e.ID, e.Stuck, e.Step, e.Cause)
	}
	return fmt.Sprintf("saga %s %q was taken back at step %q: %s", e.Definition, e.ID, e.Step, e.Cause)
}

// Is reports which of the two it is.
func (e *EndError) Is(target error) bool {
	return target == ErrStuck && e.Stuck != NotStuck || target == ErrCompensated && e.Stuck == NotStuck
}

// permanentError marks an error.
type permanentError struct{ error }

func (p permanentError) Unwrap() error { return p.error }

// Permanent marks an error that trying again will not help. In a Do it turns the saga
// round at once: the steps before are undone, and so is this one unless it is
// transactional, because an earlier try of it may have taken effect. In an Undo it makes
// the saga stuck at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether an error is marked.
func IsPermanent(err error) bool {
	var p permanentError
	return errors.As(err, &p)
}
