// Package txn decides whether a transaction across groups happened.
//
// Such a transaction is prepared in parts, one for each shard that it touches, and decided by
// one of its groups. [Prepare], [Decide], [Resolve], [Inquire] and [Collect] are commands that a
// group evaluates like any other; a [Coordinator] returns which to send next. All that a group
// has to remember is in records that move with their positions, and in a decision that stays
// with its group.
//
// # Promises
//
//   - All parts of a transaction take effect or none, whatever crashes, however
//     often messages come and in whatever order.
//   - Transactions are strictly serializable: what one has read or written
//     is locked from its validation to its decision.
//   - No transaction waits for a dead coordinator for longer than until the dead
//     coordinator's transaction has reached its deadline.
//
// # Limits
//
// The package is pure: the caller passes in the time, and delivers the messages. [Locks] and
// [ReservationQueue] are not safe for concurrent use. DESIGN.md has the protocol, the bytes, and
// why it holds.
package txn

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/partition"
)

// ID names a transaction for ever. Its first six bytes are the Unix time in
// milliseconds at which it was made, high byte first; the rest is random. The
// zero value is no transaction.
type ID [16]byte

// TimeMS is when the id was made.
func (id ID) TimeMS() int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

// String is the id in errors and reports.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Outcome is what became of a transaction.
type Outcome byte

// The outcomes. Their numbers are on disks: none is ever changed or used again.
const (
	// Undecided means that it may still become either of the others.
	Undecided Outcome = 0
	// Committed means that all of it took effect.
	Committed Outcome = 1
	// Aborted means that nothing of it did, and never will.
	Aborted Outcome = 2
)

// String is the outcome in errors and reports.
func (o Outcome) String() string {
	switch o {
	case Undecided:
		return "undecided"
	case Committed:
		return "committed"
	case Aborted:
		return "aborted"
	}
	return "not an outcome"
}

// isFinal reports whether o is one that is kept.
func (o Outcome) isFinal() bool { return o == Committed || o == Aborted }

var (
	// ErrLocked means that another transaction has locked what a command would
	// read or write: wait until it is resolved, or ask its coordinator group. See
	// [LockedError] for which.
	ErrLocked = errors.New("txn: locked by another transaction: retry later")
	// ErrReserved means that a transaction that was turned away too often comes
	// first: retry later.
	ErrReserved = errors.New("txn: held for another transaction: retry later")
	// ErrDeadline means that the time of the transaction is over: it is
	// aborted, unless there is another decision. Begin a new one.
	ErrDeadline = errors.New("txn: past the deadline: begin a new transaction")
	// ErrFinished means that the transaction is over: this message came late.
	ErrFinished = errors.New("txn: the transaction is over")
	// ErrForgotten means that a coordinator group was asked so late that it has no record
	// of the transaction any more: read the data.
	ErrForgotten = errors.New("txn: too late to know whether it was committed: look at the data")
	// ErrBadParticipant means that a part is not well formed: its text has the reason.
	ErrBadParticipant = errors.New("txn: bad part")
	// ErrNotCoordinator means that a group was asked for a decision that is another's
	// to make or to keep: ask that one.
	ErrNotCoordinator = errors.New("txn: another group decides: ask that one")
	// ErrBadRecord means that stored bytes are not a record that this version can
	// read: they are damaged, or a newer version wrote them. Restore a backup,
	// or use that version.
	ErrBadRecord = errors.New("txn: bad record: it is damaged, or of another version")
)

// LockedError names the lock that was met. It matches [ErrLocked].
type LockedError struct{ Lock Lock }

// Error names the transaction and the place.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%v: %v of %v, decided by %v until %d",
		ErrLocked, e.Lock.Span(), e.Lock.Txn, e.Lock.CoordinatorGroup, e.Lock.DeadlineMS)
}

// Is matches ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// ReservedError has what a plain write has met that others hold: that is what it may ask for
// itself. It matches [ErrReserved].
type ReservedError struct{ Reserved ReservedSpan }

// Error returns the text of ErrReserved.
func (e *ReservedError) Error() string { return ErrReserved.Error() }

// Is matches ErrReserved.
func (e *ReservedError) Is(target error) bool { return target == ErrReserved }

func newOutsideError(p partition.Position, s partition.Span) error {
	return fmt.Errorf("%w: it touches %q, outside of its span %v", ErrBadParticipant, []byte(p), s)
}
