package actor

import (
	"context"
	"fmt"
	"runtime"
)

// await waits until n is answered; then n belongs to the caller again. For an
// exclusive request it waits until the caller holds the actor. After an error
// n must not be touched any more: the holder will recycle it.
//
// While it waits the caller may be made the holder, and then runs the actor
// for a while.
func (a *Actor[S, M, R]) await(ctx context.Context, n *node[M, R]) error {
	asked := n.kind == exclusive // n is not ours to look at once we have left
	switch a.sleep(ctx, n) {
	case abandoned:
		return a.abandon(ctx, asked)
	case leader:
		if a.yields {
			runtime.Gosched()
			a.takeMore()
		}
		if !a.lead(ctx, n) {
			return a.abandon(ctx, asked)
		}
	}
	return nil
}

// abandon is the error of a caller that left. One that asked for the actor
// never got it, so nothing is in doubt.
func (a *Actor[S, M, R]) abandon(ctx context.Context, asked bool) error {
	if asked {
		return ctx.Err()
	}
	a.deserted.Add(1)
	return fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
}

// sleep waits until n is answered (done), its sender holds the actor (leader)
// or ctx has ended first (abandoned).
func (a *Actor[S, M, R]) sleep(ctx context.Context, n *node[M, R]) uint32 {
	n.state.CompareAndSwap(queued, waiting)
	if !n.state.CompareAndSwap(waiting, parked) {
		return n.state.Load()
	}
	if over := ctx.Done(); over == nil {
		<-n.wake
	} else {
		select {
		case <-n.wake:
		case <-over:
			if n.state.CompareAndSwap(parked, abandoned) {
				return abandoned
			}
			<-n.wake // the answer was faster
		}
	}
	return n.state.Load()
}

// lead runs the held actor on the caller's goroutine until self is served: it
// has its reply, or the actor that it asked for. Then it goes on for at most
// a.turns batches more and passes the actor on. self is nil if the caller has
// nothing in the line. A caller whose context ends before self is served leaves
// without running anything more: served is false.
func (a *Actor[S, M, R]) lead(ctx context.Context, self *node[M, R]) (served bool) {
	for turns := 0; ; {
		if self == nil || self.state.Load() == done {
			if turns == a.turns || ended(ctx) {
				a.letGo()
				return true
			}
			turns++
		} else if ended(ctx) {
			self.state.Store(abandoned)
			a.letGo()
			return false
		}
		if !a.step(self) {
			return true
		}
	}
}
