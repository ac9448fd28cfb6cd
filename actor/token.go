package actor

import (
	"context"
	"runtime"
)

// The actor's word is its lock and its mailbox at once, so that there is no
// instant between "the mailbox is empty" and "the actor is free" in which a
// message could be overlooked:
//
//	nil          free
//	locked       held, mailbox empty
//	a node       held, mailbox not empty: the newest entry, linked to older
//	             ones and at the end to locked
//	closed       stopped for good
//
// Whoever turns nil into something else holds the actor, or makes the owner
// goroutine hold it. Holding passes from goroutine to goroutine: by the word,
// by a node's state becoming leader, or through the owner's wake channel.

// admit gives n a place in the mailbox, waiting for room if need be. If the
// actor turned out to be free and the sender may run it, the sender holds it
// afterwards, with n as the first thing to do: mine is true. After an error n
// is gone.
func (a *Actor[S, M, R]) admit(ctx context.Context, n *node[M, R]) (mine bool, err error) {
	if mine, err = a.enqueue(ctx, n); err != nil {
		a.refused.Add(uint64(n.size()))
		a.recycle(n)
		return false, err
	}
	if mine && n.kind != exclusive {
		a.head = n
		n.state.CompareAndSwap(waiting, leader)
	}
	return mine, nil
}

// enqueue gets room for n and pushes it.
func (a *Actor[S, M, R]) enqueue(ctx context.Context, n *node[M, R]) (mine bool, err error) {
	if g := a.gate.Load(); g != nil {
		return false, g.err
	}
	size := int64(n.size())
	if size > 0 {
		before, err := a.enter(ctx, size, a.refuse)
		if err != nil {
			return false, err
		}
		if a.every > 0 && before/a.every != (before+size)/a.every {
			n.at = max(a.now(), 1)
		}
	} else if ended(ctx) {
		return false, ctx.Err()
	}
	if mine, err = a.push(n); err != nil {
		a.quit(size)
	}
	return mine, err
}

// push enters n into the mailbox, or takes hold of a free actor instead.
func (a *Actor[S, M, R]) push(n *node[M, R]) (mine bool, err error) {
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
		case a.combining || n.kind == exclusive:
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

// take makes the whole mailbox the line, oldest first. Nothing taken before is
// left. If there is nothing to take, it frees the actor and returns false.
func (a *Actor[S, M, R]) take() bool {
	for a.word.Load() == a.locked {
		if a.free() {
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

// free gives the actor up if its mailbox is empty. Nothing taken is left.
func (a *Actor[S, M, R]) free() bool {
	if !a.stopping.Load() {
		return a.word.CompareAndSwap(a.locked, nil)
	}
	a.singles.Store(a.solo)
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

// leave ends a turn that handled the caller's own message: it frees the actor,
// or works on for those who came meanwhile.
func (a *Actor[S, M, R]) leave(ctx context.Context) {
	if a.head == nil && a.free() {
		return
	}
	if a.combining {
		a.lead(ctx, nil)
		return
	}
	a.letGo()
}

// letGo frees the actor or passes it on; it handles no message itself.
func (a *Actor[S, M, R]) letGo() {
	if a.head == nil && !a.take() {
		return
	}
	if !a.combining {
		a.wake <- struct{}{}
		return
	}
	for n := a.head; n != nil; n = n.next {
		if a.offer(n) {
			return
		}
	}
	// Only posts and abandoned calls are left: somebody has to run them.
	go a.drive()
}

// offer hands the actor to the sender of n if it waits.
func (a *Actor[S, M, R]) offer(n *node[M, R]) bool {
	for {
		switch s := n.state.Load(); s {
		case waiting, parked:
			if n.state.CompareAndSwap(s, leader) {
				if s == parked {
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
// batch, or gives the actor to whoever is next and asked for it. self is the
// entry of the holder, if it is still in the line. more reports that the holder
// has to go on; else the actor is free, somebody else's, or what self asked for.
//
// As leader the holder was the first in line that waited, so every request for
// the actor before self is abandoned: it keeps the actor until self is served.
func (a *Actor[S, M, R]) step(self *node[M, R]) (more bool) {
	if a.head == nil && !a.take() {
		return false
	}
	n := a.head
	switch {
	case n.kind != exclusive:
		a.self = self
		a.handle()
		a.self = nil
		return true
	case n == self:
		a.head = n.next
		return false
	case a.offer(n): // n stays first in line: its sender takes it out
		return false
	}
	a.head = n.next
	a.recycle(n) // abandoned
	return true
}

// drive handles everything there is, until the actor is free or given away.
func (a *Actor[S, M, R]) drive() {
	for a.step(nil) {
	}
}

// serve is drive for the owner: before it gives up an empty mailbox it lets
// those it has just answered run, because they are the likeliest to send
// again. So batches form, and a busy owner needs no waking.
func (a *Actor[S, M, R]) serve() {
	for a.step(nil) {
		if a.head == nil && a.word.Load() == a.locked {
			runtime.Gosched()
		}
	}
}

// ownerLoop is the goroutine of mode Owner.
func (a *Actor[S, M, R]) ownerLoop() {
	ended := false
	defer func() {
		if !ended { // the handler called Goexit: a new owner takes its place
			go a.ownerLoop()
			return
		}
		close(a.stopped)
	}()
	for range a.wake {
		a.serve()
	}
	ended = true
}
