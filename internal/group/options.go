package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Options configure a group. The zero value works.
type Options struct {
	// ID names the group in the store. Groups that share one differ in it.
	ID partition.GroupID
	// Alone means that the group owns every position, and keeps no list of what
	// it owns. Otherwise it owns what [own.Reown] has given it.
	Alone bool
	// Settle is called with a lock that a command or a reader has met, and which
	// is still there after a moment: it asks the decider, and resolves the
	// transaction if it is decided. An error means that nobody can do so any more. Nil
	// waits for others to do so.
	Settle func(ctx context.Context, l txn.Lock) error
	// Failed returns why nothing changes in the group any more, as its store has failed;
	// nil while it may. Nil asks nobody.
	Failed func() error
	// Hold asks for the turn of a write that others have come before too often: it returns
	// when what is claimed is held for it, see [txn.Holds], under an id, until it is
	// released. Nil lets it try again and again.
	Hold func(ctx context.Context, claims []txn.Claim) (id txn.ID, release func(), err error)
	// Decided asks the decider of a lock what became of its transaction. Nil says
	// that it is undecided.
	Decided func(ctx context.Context, l txn.Lock) (txn.Outcome, error)
	// Joints, if set, is shared by all groups of a log: their joint requests share its
	// writes. Otherwise each joint request is a write of its own.
	Joints *Joints
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
	// ClockAhead is how far ahead of the machine's clock time is reserved at
	// once. After a crash the group's clock starts that much ahead, at most.
	// Default 4 seconds: one reservation in about two seconds is not noticed. No
	// more than Remember by default, so that an id of that clock is none of the
	// future for another group. At least 10 milliseconds.
	ClockAhead time.Duration
	// ExpiryKeys is how many of the keys that expire next are kept in memory.
	// Default 65536. At least 16.
	ExpiryKeys int
}

// defaultRemember is how long requests are known.
const defaultRemember = 10 * time.Minute

func (o Options) withDefaults() (Options, error) {
	if o.Wall == nil {
		o.Wall = func() int64 { return time.Now().UnixMilli() }
	}
	setDefault(&o.Queue, 1024)
	setDefault(&o.Remember, defaultRemember)
	setDefault(&o.ClockAhead, min(4*time.Second, o.Remember))
	setDefault(&o.ExpiryKeys, 1<<16)
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
		}
	}
	refuse(o.Queue < 1, "Queue is %d, at least 1", o.Queue)
	refuse(o.Remember < time.Second || o.Remember > 24*time.Hour, "Remember is %v, from 1s to 24h", o.Remember)
	refuse(o.ClockAhead < 10*time.Millisecond, "ClockAhead is %v, at least 10ms", o.ClockAhead)
	refuse(o.ExpiryKeys < 16, "ExpiryKeys is %d, at least 16", o.ExpiryKeys)
	return o, errors.Join(errs...)
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
