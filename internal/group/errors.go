package group

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrClosed means that the group was closed: the command was not executed.
	ErrClosed = errors.New("group: closed")
	// ErrUnknown means that the command may or may not have taken effect:
	// look at the data once the store is open again.
	ErrUnknown = errors.New("group: outcome unknown")
	// ErrFailed means that the group stopped after an error of its log: the
	// command was not executed. Repair what the text names and open again.
	ErrFailed = errors.New("group: failed")
	// ErrRequestOld means that a request id is too old, or too far ahead of the
	// clock, to tell whether it was executed: it was not executed now. Do not
	// retry it under another id without a look at the data.
	ErrRequestOld = errors.New("group: request id out of the remembered time")
	// ErrOverloaded means that the queue is full and the group refuses rather
	// than blocks: slow down.
	ErrOverloaded = errors.New("group: overloaded")
	// ErrCold means that a hasty request was not executed, because it would have waited for
	// a disk: rehearse it, and try again with more time.
	ErrCold = errors.New("group: what it needs is not in memory")
	// ErrOptions means that an option is out of its range: the text says which.
	ErrOptions = errors.New("group: bad options")
)

// failed marks what stopped the group.
func failed(cause error) error { return fmt.Errorf("%w: %w", ErrFailed, cause) }

// Untouched is what an error of Do or Try means if the command changes nothing that
// anybody reads: a caller who has left before the answer is in no doubt.
func Untouched(ctx context.Context, err error) error {
	if left := ctx.Err(); left != nil && errors.Is(err, ErrUnknown) {
		return left
	}
	return err
}
