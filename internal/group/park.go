package group

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/txn"
)

// passes tells whether what refused a command goes away by itself: the caller of a
// plain command never hears of transactions and moves.
func passes(err error) bool { return Passes(err) }

// Passes tells whether what refused a request goes away by itself: try it again.
func Passes(err error) bool {
	return errors.Is(err, txn.ErrLocked) || errors.Is(err, txn.ErrHeld) || errors.Is(err, own.ErrFrozen)
}

// waiter is a request that was refused and is tried again.
type waiter struct {
	parked int
	// since is when others came first, at first.
	since time.Time
	// claims is all that they came first in.
	claims []txn.Claim
	// turn is the one that it has, and release gives it up; nil if it has none.
	turn    txn.ID
	release func()
}

// patience is for how long others come first before a request asks for a turn of its own.
// Mostly they are through before, and it goes without: turns take commands of their own, and
// whoever waits looks again at the end of each.
const patience = 10 * time.Millisecond

// wait waits until what was met may be gone, or for the turn of the request. It is not
// tried again if it has to come with a turn: what a transaction has read before it is its
// turn is of no use any more.
func (w *waiter) wait(ctx context.Context, p Piece, met error) (again bool, err error) {
	hold := p.Group.opts.Hold
	var held *txn.HeldError
	if errors.As(met, &held) && w.comesAfter(held.Claim) && hold != nil {
		if _, commits := p.Request.Command.(*command.Commit); commits {
			return false, nil
		}
		w.leave() // it was for less, or is over
		if w.turn, w.release, err = hold(ctx, w.claims); err == nil {
			return true, nil
		}
	}
	if held == nil {
		w.leave() // it cannot use it now, and whoever it waits for may wait for it
	}
	w.parked++
	return true, p.Group.park(ctx, met, w.parked-1)
}

// comesAfter notes that others came first, and tells whether it is time to ask for a turn.
func (w *waiter) comesAfter(c txn.Claim) bool {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if !slices.ContainsFunc(w.claims, func(x txn.Claim) bool { return bytes.Equal(x.Span.Start, c.Span.Start) }) {
		w.claims = append(w.claims, c)
	}
	return time.Since(w.since) >= patience && !plant.Bug("group-write-passed-by")
}

// leave gives up the turn.
func (w *waiter) leave() {
	if w.release != nil {
		w.release()
	}
	w.turn, w.release = txn.ID{}, nil
}

// moment is how long a command waits for those who are at it before it looks after
// a lock itself. A transaction takes a few writes to the log.
const moment = 2 * time.Millisecond

// park waits until locks or ranges have changed, or for a moment. What was met may
// be gone when it begins to wait; then it waits for nothing, but not for long. It stays
// for good if the group's store has failed: nobody can write there that it is over.
func (g *Group) park(ctx context.Context, met error, parked int) error {
	changed := g.Changed()
	if parked > 0 && g.opts.Failed != nil {
		if err := g.opts.Failed(); err != nil {
			return err
		}
	}
	var lock *txn.LockedError
	if parked > 0 && errors.As(met, &lock) && g.opts.Settle != nil {
		if err := g.opts.Settle(ctx, lock.Lock); err != nil {
			return err
		}
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
