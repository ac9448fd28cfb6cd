package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// Options configure a group. The zero value works.
type Options struct {
	// ID names the group in the store. Groups that share one differ in it.
	ID partition.GroupID
	// OwnsAll means that the group owns every position, and keeps no list of what
	// it owns. Otherwise it owns what [ownership.ChangeOwnership] has given it.
	OwnsAll bool
	// ResolveLock is called with a lock that a command or a reader has met, and that still
	// exists after a moment: it asks the coordinator group, and resolves the transaction if it is decided.
	// An error means that the lock cannot be resolved any more. If nil, the group waits for
	// others to resolve it.
	ResolveLock func(ctx context.Context, l txn.Lock) error
	// StoreErr returns why nothing changes in the group any more, as its store has failed; nil
	// while it may. If nil, the store is taken not to fail.
	StoreErr func() error
	// Reserve asks for a reservation for a write that others have come before too often: it
	// returns when what is claimed is held for it, see [txn.ReservationQueue], under an id,
	// until it is released. If nil, the write tries again and again.
	Reserve func(ctx context.Context, claims []txn.ReservedSpan) (id txn.ID, release func(), err error)
	// LookupOutcome asks the coordinator group of a lock what became of its transaction. Nil means
	// that it is undecided.
	LookupOutcome func(ctx context.Context, l txn.Lock) (txn.Outcome, error)
	// OnSwept, if set, is called with the store keys of the elements of a key, when many that a
	// deleted collection had left there are gone: scans step over their deletions until
	// the store is rid of these too. It must not wait.
	OnSwept func(start, end []byte)
	// JointQueue, if set, is shared by all groups of a log: their joint requests share its
	// writes. Otherwise each joint request is a write of its own.
	JointQueue *JointQueue
	// RecordsEvents reports whether batches carry the events of writes, see
	// [command.Env.RecordEvents]. Nil is no.
	RecordsEvents func() bool
	// Wall is the machine's clock in Unix milliseconds. Default time.Now.
	Wall func() int64
	// Queue bounds the commands that wait. Default 1024. At least 1.
	Queue int
	// Refuse makes a full queue refuse with ErrOverloaded instead of blocking
	// until the caller's context ends.
	Refuse bool
	// Remember is for how long a RequestID is known. Default 10 minutes: longer
	// than clients go on retrying. From a second to a day, whose records are
	// what a restart has to find again.
	Remember time.Duration
	// ClockAhead is how far ahead of the machine's clock time is reserved. After a crash the
	// group's clock is ahead by at most that much, less the time that the restart took. Default
	// 50 milliseconds: 20 log writes a second, if keys expire all the time and nothing else is
	// written, and a ledger in 40 batches a second at most. From 1 millisecond to Remember.
	ClockAhead time.Duration
	// WaitForClock makes Open wait until the machine's clock has reached the group's, if it
	// is behind by ClockAhead at most. Without it time stands still instead.
	WaitForClock bool
	// ExpiryKeys is how many of the keys that expire next are kept in memory.
	// Default 65536. At least 16.
	ExpiryKeys int
}

func (o Options) withDefaults() (Options, error) {
	if o.Wall == nil {
		o.Wall = func() int64 { return time.Now().UnixMilli() }
	}
	setDefault(&o.Queue, 1024)
	setDefault(&o.Remember, defaultRemember)
	setDefault(&o.ClockAhead, 50*time.Millisecond)
	setDefault(&o.ExpiryKeys, 1<<16)
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
		}
	}
	refuse(o.Queue < 1, "Queue is %d, at least 1", o.Queue)
	refuse(o.Remember < time.Second || o.Remember > 24*time.Hour, "Remember is %v, from 1s to 24h", o.Remember)
	refuse(o.ClockAhead < time.Millisecond || o.ClockAhead > o.Remember, "ClockAhead is %v, from 1ms to Remember, which is %v", o.ClockAhead, o.Remember)
	refuse(o.ExpiryKeys < 16, "ExpiryKeys is %d, at least 16", o.ExpiryKeys)
	return o, errors.Join(errs...)
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

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
	// ReadBarrier returns when a read of State that begins after it sees all that was
	// acknowledged before the call. If this process alone commits to the log, it returns at
	// once.
	ReadBarrier(ctx context.Context) error
}

// ErrUncertain marks errors of a Log after which effects may or may not be
// there.
var ErrUncertain = errors.New("group: commit uncertain")

// State is what was committed.
type State interface{ command.Reader }
