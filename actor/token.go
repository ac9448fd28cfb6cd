package actor

import (
	"context"
	"fmt"
	"runtime"
)

// The actor's word is its lock and its mailbox at once, so that there is no
// instant between "the mailbox is empty" and "the actor is free" in which a
// message could be overlooked:
//
//	nil          free
//	locked       held, mailbox empty
//	an entry     held, mailbox not empty: the newest entry, linked to older
//	             ones and at the end to locked
//	closed       stopped for good
//
// The goroutine that turns nil into something else holds the actor, or makes the owner
// goroutine hold it. Holding passes from goroutine to goroutine: by the word,
// by an entry's state becoming leader, or through the owner's wake channel.

// admitEntry gives n a place in the mailbox, waiting for room if need be. If the
// actor turned out to be free and the sender may run it, the sender holds it
// afterwards, with n as the first thing to do: mine is true. After an error n
// is gone.
func (a *Actor[S, M, R]) admitEntry(ctx context.Context, n *entry[M, R]) (mine bool, err error) {
	if mine, err = a.enqueueEntry(ctx, n); err != nil {
		a.refused.Add(uint64(n.messageCount()))
		a.recycleEntry(n)
		return false, err
	}
	if mine && n.kind != kindExclusive {
		a.head = n
		n.state.CompareAndSwap(stateWaiting, stateLeader)
	}
	return mine, nil
}

// enqueueEntry gets room for n and pushes it.
func (a *Actor[S, M, R]) enqueueEntry(ctx context.Context, n *entry[M, R]) (mine bool, err error) {
	if g := a.gate.Load(); g != nil {
		return false, g.err
	}
	size := int64(n.messageCount())
	if size > 0 {
		before, err := a.acquireRoom(ctx, size, a.refusesWhenFull)
		if err != nil {
			return false, err
		}
		if a.sampleEvery > 0 && before/a.sampleEvery != (before+size)/a.sampleEvery {
			n.enqueuedAt = max(a.now(), 1)
		}
	} else if hasEnded(ctx) {
		return false, ctx.Err()
	}
	if mine, err = a.pushEntry(n); err != nil {
		a.releaseUnused(size)
	}
	return mine, err
}

// pushEntry enters n into the mailbox, or takes hold of a free actor instead.
func (a *Actor[S, M, R]) pushEntry(n *entry[M, R]) (mine bool, err error) {
	for {
		top := a.word.Load()
		switch {
		case top == a.closed:
			return false, ErrStopped
		case top != nil:
			n.next = top
			if a.word.CompareAndSwap(top, n) {
				return false, nil
			}
		case a.combining || n.kind == kindExclusive:
			n.next = nil
			if a.word.CompareAndSwap(nil, a.locked) {
				return true, nil
			}
		default:
			n.next = a.locked
			if a.word.CompareAndSwap(nil, n) {
				a.wake <- struct{}{}
				return false, nil
			}
		}
	}
}

// takeMailbox makes the whole mailbox the line, oldest first. Nothing taken before is
// left. If there is nothing to take, it frees the actor and returns false.
func (a *Actor[S, M, R]) takeMailbox() bool {
	for a.word.Load() == a.locked {
		if a.tryFree() {
			return false
		}
	}
	for n := a.word.Swap(a.locked); n != a.locked; {
		older := n.next
		n.next = a.head
		a.head, n = n, older
	}
	return true
}

// takeMore adds to the line what has come since it was taken.
func (a *Actor[S, M, R]) takeMore() {
	if a.word.Load() == a.locked {
		return
	}
	last := &a.head
	for *last != nil {
		last = &(*last).next
	}
	for n := a.word.Swap(a.locked); n != a.locked; {
		older := n.next
		n.next = *last
		*last, n = n, older
	}
}

// tryFree gives the actor up if its mailbox is empty. Nothing taken is left.
func (a *Actor[S, M, R]) tryFree() bool {
	if !a.stopping.Load() {
		return a.word.CompareAndSwap(a.locked, nil)
	}
	a.publishedSingles.Store(a.directSingles)
	if !a.word.CompareAndSwap(a.locked, a.closed) {
		return false
	}
	if a.combining {
		close(a.stopped)
	} else {
		close(a.wake) // ends the owner goroutine, which closes stopped
	}
	return true
}

// endTurn ends a turn that handled the caller's own message: it frees the actor,
// or continues with the messages that came meanwhile.
func (a *Actor[S, M, R]) endTurn(ctx context.Context) {
	if a.head == nil && a.tryFree() {
		return
	}
	if a.combining {
		a.runAsLeader(ctx, nil)
		return
	}
	a.releaseActor()
}

// releaseActor frees the actor or passes it on; it handles no message itself.
func (a *Actor[S, M, R]) releaseActor() {
	if a.head == nil && !a.takeMailbox() {
		return
	}
	if !a.combining {
		a.wake <- struct{}{}
		return
	}
	for n := a.head; n != nil; n = n.next {
		if a.offerTo(n) {
			return
		}
	}
	// Only posts and abandoned calls are left: a goroutine has to run them.
	go a.drainMailbox()
}

// offerTo hands the actor to the sender of n if it waits.
func (a *Actor[S, M, R]) offerTo(n *entry[M, R]) bool {
	for {
		switch s := n.state.Load(); s {
		case stateWaiting, stateParked:
			if n.state.CompareAndSwap(s, stateLeader) {
				if s == stateParked {
					n.wake <- struct{}{}
				}
				return true
			}
		default:
			return false
		}
	}
}

// step does the next thing there is to do with a held actor: it handles a
// batch, or gives the actor to the next goroutine that asked for it. self is the
// entry of the holder, if it is still in the line. more reports that the holder
// has to go on; else the actor is free, held by another, or what self asked for.
//
// As leader the holder was the first in line that waited, so every request for
// the actor before self is abandoned: it keeps the actor until self is served.
func (a *Actor[S, M, R]) step(self *entry[M, R]) (more bool) {
	if a.head == nil && !a.takeMailbox() {
		return false
	}
	n := a.head
	switch {
	case n.kind != kindExclusive:
		a.ownEntry = self
		a.handleBatch()
		a.ownEntry = nil
		return true
	case n == self:
		a.head = n.next
		return false
	case a.offerTo(n): // n stays first in line: its sender takes it out
		return false
	}
	a.head = n.next
	a.recycleEntry(n) // abandoned
	return true
}

// drainMailbox handles everything there is, until the actor is free or given away.
func (a *Actor[S, M, R]) drainMailbox() {
	for a.step(nil) {
	}
}

// serveAsOwner is drive for the owner: before it gives up an empty mailbox it lets
// those it has just answered run, because they are the likeliest to send
// again. So batches form, and a busy owner needs no waking.
func (a *Actor[S, M, R]) serveAsOwner() {
	for a.step(nil) {
		if a.head == nil && a.word.Load() == a.locked {
			runtime.Gosched()
		}
	}
}

// runOwner is the goroutine of mode Owner.
func (a *Actor[S, M, R]) runOwner() {
	ended := false
	defer func() {
		if !ended { // the handler called Goexit: a new owner takes its place
			go a.runOwner()
			return
		}
		close(a.stopped)
	}()
	for range a.wake {
		a.serveAsOwner()
	}
	ended = true
}

// waitForReply waits until n is answered; then n belongs to the caller again. For an
// exclusive request it waits until the caller holds the actor. After an error
// n must not be touched any more: the holder will recycle it.
//
// While it waits the caller may be made the holder, and then runs the actor
// for a while.
func (a *Actor[S, M, R]) waitForReply(ctx context.Context, n *entry[M, R]) error {
	asked := n.kind == kindExclusive // n is not ours to look at once we have left
	switch a.sleepUntilReply(ctx, n) {
	case stateAbandoned:
		return a.newAbandonError(ctx, asked)
	case stateLeader:
		if a.gathers {
			runtime.Gosched()
			a.takeMore()
		}
		if !a.runAsLeader(ctx, n) {
			return a.newAbandonError(ctx, asked)
		}
	}
	return nil
}

// newAbandonError is the error of a caller that left. One that asked for the actor
// never got it, so nothing is in doubt.
func (a *Actor[S, M, R]) newAbandonError(ctx context.Context, asked bool) error {
	if asked {
		return ctx.Err()
	}
	a.abandonedCalls.Add(1)
	return fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
}

// sleepUntilReply waits until n is answered (done), its sender holds the actor (leader)
// or ctx has ended first (abandoned).
func (a *Actor[S, M, R]) sleepUntilReply(ctx context.Context, n *entry[M, R]) uint32 {
	n.state.CompareAndSwap(stateQueued, stateWaiting)
	if !n.state.CompareAndSwap(stateWaiting, stateParked) {
		return n.state.Load()
	}
	if over := ctx.Done(); over == nil {
		<-n.wake
	} else {
		select {
		case <-n.wake:
		case <-over:
			if n.state.CompareAndSwap(stateParked, stateAbandoned) {
				return stateAbandoned
			}
			<-n.wake // the answer was faster
		}
	}
	return n.state.Load()
}

// runAsLeader runs the held actor on the caller's goroutine until self is served: it
// has its reply, or the actor that it asked for. Then it goes on for at most
// a.turns batches more and passes the actor on. self is nil if the caller has
// nothing in the line. A caller whose context ends before self is served leaves
// without running anything more: served is false.
func (a *Actor[S, M, R]) runAsLeader(ctx context.Context, self *entry[M, R]) (served bool) {
	for turns := 0; ; {
		if self == nil || self.state.Load() == stateDone {
			if turns == a.maxTurns || hasEnded(ctx) {
				a.releaseActor()
				return true
			}
			turns++
		} else if hasEnded(ctx) {
			self.state.Store(stateAbandoned)
			a.releaseActor()
			return false
		}
		if !a.step(self) {
			return true
		}
	}
}

// Stop makes the actor refuse new messages with [ErrStopped] and waits until
// those it accepted are handled and its goroutine, if it has one, has ended.
// If ctx ends first the stop goes on without the caller; Stop again to wait
// for it. Inside a handler, of whichever actor, it gives [ErrInHandler].
func (a *Actor[S, M, R]) Stop(ctx context.Context) error {
	if err := a.checkMade(); err != nil {
		return err
	}
	if isInsideHandler() {
		return ErrInHandler
	}
	a.beginStop()
	return a.waitStopped(ctx)
}

// beginStop shuts the door. The last holder to find the mailbox empty closes
// the actor for good.
func (a *Actor[S, M, R]) beginStop() {
	if a.stopping.Swap(true) {
		return
	}
	a.gate.CompareAndSwap(nil, &refusal{err: ErrStopped}) // a poisoned actor keeps its error
	a.mailboxRoom.closeWaiters(ErrStopped)
	// A holder that freed the actor just now did not see stopping. An entry
	// of our own makes sure that there is another look.
	n := a.getEntry(kindExclusive)
	n.state.Store(stateAbandoned)
	if mine, err := a.pushEntry(n); mine || err != nil {
		a.recycleEntry(n)
		if mine {
			a.releaseActor()
		}
	}
}

func (a *Actor[S, M, R]) waitStopped(ctx context.Context) error {
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
