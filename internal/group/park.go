package group

import (
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
)

// passes tells whether what refused a command goes away by itself: the caller of a
// plain command never hears of transactions and moves.
func passes(err error) bool { return Passes(err) }

// Passes tells whether what refused a request goes away by itself: try it again.
func Passes(err error) bool {
	return errors.Is(err, txn.ErrLocked) || errors.Is(err, txn.ErrHeld) || errors.Is(err, own.ErrFrozen)
}

// moment is how long a command waits for those who are at it before it looks after
// a lock itself. A transaction takes a few writes to the log.
const moment = 2 * time.Millisecond

// park waits until locks or ranges have changed, or for a moment. What was met may
// be gone when it begins to wait; then it waits for nothing, but not for long.
func (g *Group) park(ctx context.Context, met error, parked int) error {
	changed := g.Changed()
	var lock *txn.LockedError
	if parked > 0 && errors.As(met, &lock) && g.opts.Settle != nil {
		g.opts.Settle(ctx, lock.Lock)
	}
	timer := time.NewTimer(moment << min(parked, 5))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
