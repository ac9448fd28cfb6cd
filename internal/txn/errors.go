package txn

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/partition"
)

var (
	// ErrLocked means that another transaction has locked what a command would
	// read or write: wait until it is resolved, or ask its decider. See
	// [LockedError] for which.
	ErrLocked = errors.New("txn: locked by another transaction: retry later")
	// ErrHeld means that a transaction that was turned away too often comes
	// first: retry later.
	ErrHeld = errors.New("txn: held for another transaction: retry later")
	// ErrDeadline means that the time of the transaction is over: it is
	// aborted, unless a decision says otherwise. Begin a new one.
	ErrDeadline = errors.New("txn: past the deadline: begin a new transaction")
	// ErrFinished means that the transaction is over: this message came late.
	ErrFinished = errors.New("txn: the transaction is over")
	// ErrForgotten means that a decider was asked so late that it has no record
	// of the transaction any more: look at the data.
	ErrForgotten = errors.New("txn: too late to know whether it was committed: look at the data")
	// ErrPart means that a part is not well formed: its text says why.
	ErrPart = errors.New("txn: bad part")
	// ErrDecider means that a group was asked for a decision that is another's
	// to make or to keep: ask that one.
	ErrDecider = errors.New("txn: another group decides: ask that one")
	// ErrRecord means that stored bytes are not a record that this version can
	// read: they are damaged, or a newer version wrote them. Restore a backup,
	// or use that version.
	ErrRecord = errors.New("txn: bad record: it is damaged, or of another version")
)

// LockedError says which lock was met. It matches [ErrLocked].
type LockedError struct{ Lock Lock }

// Error names the transaction and the place.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%v: %v of %v, decided by %v until %d",
		ErrLocked, e.Lock.Span(), e.Lock.Txn, e.Lock.Decider, e.Lock.DeadlineMS)
}

// Is matches ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// HeldError tells what a plain write has met that others hold: that is what it may ask for
// itself. It matches [ErrHeld].
type HeldError struct{ Claim Claim }

// Error is that of ErrHeld.
func (e *HeldError) Error() string { return ErrHeld.Error() }

// Is matches ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

func outside(p partition.Position, s partition.Span) error {
	return fmt.Errorf("%w: it touches %q, outside of its span %v", ErrPart, []byte(p), s)
}
