package group

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
)

// isRetryable reports whether what refused a command goes away by itself: the caller of a
// plain command gets no error of transactions and moves.
func isRetryable(err error) bool { return IsRetryable(err) }

// IsRetryable reports whether what refused a request goes away by itself: try it again.
func IsRetryable(err error) bool {
	return errors.Is(err, txn.ErrLocked) || errors.Is(err, txn.ErrReserved) || errors.Is(err, ownership.ErrFrozen)
}

// waiter is a request that was refused and is tried again.
type waiter struct {
	attempts int
	// blockedSince is when others came first, at first.
	blockedSince time.Time
	// spans is all that they came first in.
	spans []txn.ReservedSpan
	// reservationID is the one that it has, and release gives it up; nil if it has none.
	reservationID txn.ID
	release       func()
}

// wait waits until what was met may be gone, or for the reservation of the request. The request
// is not tried again if it needs a reservation for a commit: what a transaction has read before
// its reservation is of no use any more.
func (w *waiter) wait(ctx context.Context, p SubRequest, met error) (again bool, err error) {
	hold := p.Group.opts.Reserve
	var held *txn.ReservedError
	if errors.As(met, &held) && w.shouldReserve(held.Reserved) && hold != nil {
		if _, commits := p.Request.Command.(*command.Commit); commits {
			return false, nil
		}
		w.releaseReservation() // it was for less, or is over
		if w.reservationID, w.release, err = hold(ctx, w.spans); err == nil {
			return true, nil
		}
	}
	if held == nil {
		w.releaseReservation() // it cannot use it now, and the transaction that it waits for may wait for it
	}
	w.attempts++
	return true, p.Group.waitForUnlock(ctx, met, w.attempts-1)
}

// shouldReserve notes that others came first, and reports whether it is time to ask for a reservation.
func (w *waiter) shouldReserve(c txn.ReservedSpan) bool {
	if w.blockedSince.IsZero() {
		w.blockedSince = time.Now()
	}
	if !slices.ContainsFunc(w.spans, func(x txn.ReservedSpan) bool { return bytes.Equal(x.Span.Start, c.Span.Start) }) {
		w.spans = append(w.spans, c)
	}
	return time.Since(w.blockedSince) >= reserveAfter
}

// releaseReservation gives up the reservation.
func (w *waiter) releaseReservation() {
	if w.release != nil {
		w.release()
	}
	w.reservationID, w.release = txn.ID{}, nil
}

// waitForUnlock waits until locks or ranges have changed, or for a moment. The obstacle may be
// gone when it begins to wait; then it waits in vain, but not for long. The obstacle stays for
// good if the group's store has failed: its end cannot be written there.
func (g *Group) waitForUnlock(ctx context.Context, met error, parked int) error {
	changed := g.Changed()
	if parked > 0 && g.opts.StoreErr != nil {
		if err := g.opts.StoreErr(); err != nil {
			return err
		}
	}
	var lock *txn.LockedError
	if parked > 0 && errors.As(met, &lock) && g.opts.ResolveLock != nil {
		if err := g.opts.ResolveLock(ctx, lock.Lock); err != nil {
			return err
		}
	}
	timer := time.NewTimer(lockWaitTime << min(parked, 5))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
