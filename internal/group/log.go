package group

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
)

// Log is where effects become durable: the node's own log when there is one
// replica, a replicated one when there are several.
type Log interface {
	// Commit makes the effects durable, as far as the durability class asks,
	// and visible to State, and returns then. An error that matches
	// ErrUncertain leaves open whether they will be found after a restart; any
	// other means that they will not. urgent effects may use what is reserved
	// for times when the disk is full.
	Commit(urgent bool, effects []byte) error
	// Sync returns when everything that was committed is on stable storage,
	// whatever the durability class.
	Sync() error
	// ReadBarrier returns when a read of State that begins now sees all that
	// was acknowledged before the call. Where nobody else can commit, that is
	// at once.
	ReadBarrier(ctx context.Context) error
}

// ErrUncertain marks errors of a Log after which effects may or may not be
// there.
var ErrUncertain = errors.New("group: commit uncertain")

// State is what was committed.
type State interface{ command.Reader }
