package command

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// ReplyKind determines which fields of a Reply to read.
type ReplyKind uint8

// The kinds of replies.
const (
	// Nil is the reply about a key or field that is absent, and of a condition
	// that did not hold.
	Nil ReplyKind = iota
	// OK has no value.
	OK
	// Int is the number Reply.Int.
	Int
	// Bytes is the value Reply.Bytes.
	Bytes
	// Items is the list Reply.Items.
	Items
	// Failed is the error Reply.Err: the command has changed nothing.
	Failed
)

// Item is one element of a reply.
type Item struct {
	Field, Value []byte
	// Found distinguishes an absent value from an empty one.
	Found bool
	// Kind and Version are set by Range.
	Kind    Kind
	Version uint64
}

// Reply is the answer to a command.
//
// Bytes and Items are views of the Env's memory, and valid until its next Begin: that is, until
// the batch is committed and answered. A later command of the batch does not change them. A
// caller that keeps them longer takes a Clone. (The Field of an item of HMGet is the caller's
// own.)
type Reply struct {
	Kind ReplyKind
	// More is of HScan, Range and Sweep: there is more to do.
	More bool
	Int  int64
	// Bytes is the value; the cursor of an HScan.
	Bytes []byte
	Items []Item
	// Version is that of the key after the command: 0 if it is absent, or if
	// the command is about several keys.
	Version uint64
	Err     error
}

// Clone returns a copy that is good for ever.
func (r Reply) Clone() Reply {
	r.Bytes = bytes.Clone(r.Bytes)
	r.Items = slices.Clone(r.Items)
	for i, item := range r.Items {
		r.Items[i].Field, r.Items[i].Value = bytes.Clone(item.Field), bytes.Clone(item.Value)
	}
	return r
}

func failedReply(err error) Reply { return Reply{Kind: Failed, Err: err} }

func intReply(n int64, version uint64) Reply { return Reply{Kind: Int, Int: n, Version: version} }

// boolReply is Redis' 1 and 0.
func boolReply(b bool, version uint64) Reply {
	if b {
		return intReply(1, version)
	}
	return intReply(0, version)
}

var (
	// ErrWrongType means that the key holds another type of value: use the
	// commands of that type, or delete the key first.
	ErrWrongType = errors.New("command: the key holds another type of value: use that type's commands or delete it first")
	// ErrNotInteger means that a value is not a decimal integer of 64 bits: set
	// it to one first.
	ErrNotInteger = errors.New("command: the value is not a decimal 64-bit integer: set it to one first")
	// ErrNotFloat means that a value is not a finite decimal number: set it to
	// one first.
	ErrNotFloat = errors.New("command: the value is not a finite decimal number: set it to one first")
	// ErrOverflow means that a sum would leave the range of its type: use a
	// smaller step.
	ErrOverflow = errors.New("command: the sum would overflow: use a smaller step")
	// ErrConflict means that what was read has changed since: read again and
	// retry. See [ConflictError] for where.
	ErrConflict = errors.New("command: conflict: read again and retry")
	// ErrNotStored means that the condition of a Set in a Write did not hold.
	ErrNotStored = errors.New("command: the condition did not hold")
	// ErrTooLarge means that a limit is passed. See [LimitError] for which.
	ErrTooLarge = errors.New("command: too large")
	// ErrSyntax means that the options of a command cannot be combined or are
	// out of range: the text has what to change.
	ErrSyntax = errors.New("command: bad options")
	// ErrExpiry means that a time is out of the range of the clock. It is an ErrSyntax.
	ErrExpiry = fmt.Errorf("%w: the expiry is not in the range of the clock: give a positive time", ErrSyntax)
	// ErrRow means that stored bytes are not a row that this version can read:
	// they are damaged, or a newer version wrote them. Restore a backup, or use
	// that version.
	ErrRow = errors.New("command: bad row: it is damaged, or of another version")
)

// IsCommandError reports whether an error is the answer of a command, which has seen the state
// and refuses. Any other means that the command was not evaluated: nothing is known about the
// state.
func IsCommandError(err error) bool {
	for _, answer := range []error{ErrWrongType, ErrNotInteger, ErrNotFloat, ErrOverflow, ErrConflict, ErrNotStored, ErrTooLarge, ErrSyntax} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// Errors that need no detail are made once, so that refusing costs nothing.
var (
	errNoTime        = fmt.Errorf("%w: no time: use In or At", ErrSyntax)
	errCondition     = fmt.Errorf("%w: unknown condition: use Always, IfAbsent, IfPresent or IfVersion", ErrSyntax)
	errUnusedVersion = fmt.Errorf("%w: Version is for the condition IfVersion alone", ErrSyntax)
	errExpireNX      = fmt.Errorf("%w: ExpireNX goes with none of ExpireXX, ExpireGT and ExpireLT", ErrSyntax)
	errExpireGL      = fmt.Errorf("%w: ExpireGT and ExpireLT exclude each other", ErrSyntax)
	errNoFields      = fmt.Errorf("%w: no fields: give at least one", ErrSyntax)
	errOffset        = fmt.Errorf("%w: the offset is negative: count from 0", ErrSyntax)
	errBitOffset     = fmt.Errorf("%w: the bit is not in a value: count from 0 to %d", ErrSyntax, MaxBitOffset)
	errLimit         = fmt.Errorf("%w: the limit must be positive", ErrSyntax)
	errPosition      = fmt.Errorf("command: %w: a command takes the position of a key's own row", partition.ErrPosition)
)

// ConflictError names the key or range that had changed. It matches [ErrConflict].
type ConflictError struct {
	// Start is the position of the key, or the start of the range.
	Start partition.Position
	// IsRange reports whether it is a range.
	IsRange bool
}

// Error names the place.
func (e *ConflictError) Error() string {
	what := "key"
	if e.IsRange {
		what = "range"
	}
	return fmt.Sprintf("%v: the %s at position %q has changed", ErrConflict, what, []byte(e.Start))
}

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LimitError names the limit that was passed. It matches [ErrTooLarge].
type LimitError struct {
	What       string // "key", "field", "value" and "transaction", in bytes, or "keys in a transaction"
	Got, Limit int
}

// Error names the limit.
func (e *LimitError) Error() string {
	if e.What == keysInTxn {
		return fmt.Sprintf("%v: %d %s, at most %d: split it up", ErrTooLarge, e.Got, e.What, e.Limit)
	}
	return fmt.Sprintf("%v: %s of %d bytes, at most %d: split it up", ErrTooLarge, e.What, e.Got, e.Limit)
}

// Is matches ErrTooLarge.
func (e *LimitError) Is(target error) bool { return target == ErrTooLarge }
