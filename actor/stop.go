package actor

import (
	"context"
	"fmt"
)

// Stop makes the actor refuse new messages with [ErrStopped] and waits until
// those it accepted are handled and its goroutine, if it has one, has ended.
// If ctx ends first the stop goes on without the caller; Stop again to wait
// for it. Inside a handler, of whichever actor, it gives [ErrInHandler].
func (a *Actor[S, M, R]) Stop(ctx context.Context) error {
	if err := a.made(); err != nil {
		return err
	}
	if insideHandler() {
		return ErrInHandler
	}
	a.beginStop()
	return a.awaitStop(ctx)
}

// beginStop shuts the door. The last holder to find the mailbox empty closes
// the actor for good.
func (a *Actor[S, M, R]) beginStop() {
	if a.stopping.Swap(true) {
		return
	}
	a.gate.CompareAndSwap(nil, &refusal{err: ErrStopped}) // a poisoned actor keeps saying so
	a.room.close(ErrStopped)
	// A holder that freed the actor just now did not see stopping. An entry
	// of our own makes sure that somebody looks again.
	n := a.fetch(exclusive)
	n.state.Store(abandoned)
	if mine, err := a.push(n); mine || err != nil {
		a.recycle(n)
		if mine {
			a.letGo()
		}
	}
}

func (a *Actor[S, M, R]) awaitStop(ctx context.Context) error {
	select {
	case <-a.stopped:
		return nil
	default:
	}
	select {
	case <-a.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("actor: stop still draining: %w", ctx.Err())
	}
}
