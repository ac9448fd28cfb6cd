package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An entry is one place of the mailbox: a call, a post, a batch of either, or a
// request for the actor itself. Entries are pooled; which side returns one to the pool
// follows from its state (see the callers of recycleEntry): the sender that got its
// reply, or the holder of the actor if no sender waits.
type entry[M, R any] struct {
	next       *entry[M, R] // towards older entries while pushed, newer once taken
	state      atomic.Uint32
	kind       entryKind
	enqueuedAt time.Duration // when it got its place; 0 means not sampled
	wake       chan struct{} // capacity 1; sent to only after state left parked

	message M // the message and reply of a single entry
	reply   R
	ms      []M // those of a batch: the entry's own buffers, or the caller's
	rs      []R // slices if the caller cannot leave early
	bufM    []M
	bufR    []R
	err     error
}

type entryKind uint8

const (
	kindCall      entryKind = iota // one message, a caller waits for the reply
	kindPost                       // one message, no caller waits
	kindCallBatch                  // several messages, a caller waits
	kindPostBatch                  // several messages, no caller waits
	kindExclusive                  // no message: the sender wants to hold the actor
)

// The states of an entry that a sender waits for.
//
//	queued -> waiting -> parked        by the sender
//	queued | waiting | parked -> done  by the holder: the reply is there
//	waiting | parked -> leader         by the holder: the actor is yours now
//	leader -> done                     by the sender, as holder
//	parked | leader -> abandoned       by the sender: it waits no more
const (
	stateQueued    uint32 = iota // sent, but its sender is busy elsewhere
	stateWaiting                 // its sender is about to sleep
	stateParked                  // its sender sleeps on wake
	stateLeader                  // its sender holds the actor
	stateDone                    // answered; the entry belongs to its sender
	stateAbandoned               // its sender has left
)

// messageCount is the number of messages in n.
func (n *entry[M, R]) messageCount() int {
	switch n.kind {
	case kindCallBatch, kindPostBatch:
		return len(n.ms)
	case kindExclusive:
		return 0
	}
	return 1
}

// copyMessages makes n hold its own copy of ms and room for the replies, because the
// caller may reuse its slices before the handler has run.
func (n *entry[M, R]) copyMessages(ms []M) {
	n.bufM = append(n.bufM[:0], ms...)
	if cap(n.bufR) < len(ms) {
		n.bufR = make([]R, len(ms))
	}
	n.bufR = n.bufR[:len(ms)]
	n.ms, n.rs = n.bufM, n.bufR
}

// maxPooledMessages is the most messages for which a pooled entry keeps its buffers;
// one rare huge batch must not stay in memory for ever.
const maxPooledMessages = 1024

// getEntry takes an entry from the pool.
func (a *Actor[S, M, R]) getEntry(k entryKind) *entry[M, R] {
	n, _ := a.pool.Get().(*entry[M, R])
	if n == nil {
		n = new(entry[M, R])
	}
	n.kind = k
	if k == kindPost || k == kindPostBatch {
		n.state.Store(stateAbandoned) // no caller will wait for it
		return n
	}
	if n.wake == nil {
		n.wake = make(chan struct{}, 1)
	}
	n.state.Store(stateWaiting)
	return n
}

// recycleEntry empties n, so that it keeps nothing of the caller's alive, and puts
// it back into the pool.
func (a *Actor[S, M, R]) recycleEntry(n *entry[M, R]) {
	var m M
	var r R
	n.message, n.reply = m, r
	if cap(n.bufM) > maxPooledMessages {
		n.bufM, n.bufR = nil, nil
	}
	clear(n.bufM)
	clear(n.bufR)
	n.bufM, n.bufR = n.bufM[:0], n.bufR[:0]
	n.ms, n.rs, n.err, n.next, n.enqueuedAt = nil, nil, nil, nil, 0
	a.pool.Put(n)
}

// mailboxRoom bounds the messages that wait in the mailbox. It counts them with two
// numbers, those that ever got a place and those that left it, so that one
// atomic operation of a sender gives the depth and the number of accepted
// messages alike. Both grow; the first is lowered again only for messages that
// got a place and then did not come.
//
// Senders that find no room queue up and are given room in that order;
// while there is a queue no sender overtakes it.
type mailboxRoom struct {
	capacity    int64
	admitted    atomic.Int64 // messages that ever got a place and came, or still may
	vacated     atomic.Int64 // of those, how many left to be handled; the holder writes it
	maxDepth    atomic.Int64 // the most that ever waited at once
	waiterCount atomic.Int64 // len(line)

	refused        atomic.Uint64 // messages that got no place
	abandonedCalls atomic.Uint64 // callers that did not wait for their reply

	mu            sync.Mutex
	waiters       []*roomWaiter
	waitersClosed bool // closed: no sender may queue up any more
}

// A place in the line for room.
type roomWaiter struct {
	size   int64
	ready  chan struct{} // closed when granted or when the room is closed
	before int64         // set before ready is closed, as is err
	err    error
}

// acquireRoom gets room for size messages and returns how many were admitted
// before them.
func (r *mailboxRoom) acquireRoom(ctx context.Context, size int64, refuse bool) (before int64, err error) {
	if hasEnded(ctx) {
		return 0, ctx.Err()
	}
	if r.waiterCount.Load() == 0 {
		if before, ok := r.tryAcquireRoom(size); ok {
			return before, nil
		}
	}
	if refuse {
		return 0, ErrFull
	}
	p := &roomWaiter{size: size, ready: make(chan struct{})}
	r.mu.Lock()
	if r.waitersClosed {
		r.mu.Unlock()
		return 0, ErrStopped
	}
	r.waiters = append(r.waiters, p)
	r.waiterCount.Store(int64(len(r.waiters)))
	r.serveWaiters() // room may have come free before we were in the line
	r.mu.Unlock()
	select {
	case <-p.ready:
		return p.before, p.err
	case <-ctx.Done():
		return 0, r.leaveWaiters(ctx, p)
	}
}

// tryAcquireRoom takes room for size messages if there is enough.
func (r *mailboxRoom) tryAcquireRoom(size int64) (before int64, ok bool) {
	for {
		before = r.admitted.Load()
		depth := before - r.vacated.Load() + size
		if depth > r.capacity {
			return 0, false
		}
		if !r.admitted.CompareAndSwap(before, before+size) {
			continue
		}
		for {
			old := r.maxDepth.Load()
			if depth <= old || r.maxDepth.CompareAndSwap(old, depth) {
				return before, true
			}
		}
	}
}

// releaseHandled gives room back when messages leave the mailbox to be handled. Only
// the holder of the actor calls it.
func (r *mailboxRoom) releaseHandled(size int64) {
	r.vacated.Store(r.vacated.Load() + size)
	r.maybeServeWaiters()
}

// releaseUnused gives back room that was taken for messages that never came.
func (r *mailboxRoom) releaseUnused(size int64) {
	r.admitted.Add(-size)
	r.maybeServeWaiters()
}

// maybeServeWaiters serves the line, if there is one. A sender enters the line before it
// looks for room the last time, and room is given back before the line is
// looked at: so one of the two sees the other.
func (r *mailboxRoom) maybeServeWaiters() {
	if r.waiterCount.Load() > 0 {
		r.mu.Lock()
		r.serveWaiters()
		r.mu.Unlock()
	}
}

// serveWaiters gives room to those first in line, as far as it goes.
func (r *mailboxRoom) serveWaiters() {
	for len(r.waiters) > 0 {
		p, ok := r.waiters[0], false
		if p.before, ok = r.tryAcquireRoom(p.size); !ok {
			break
		}
		close(p.ready)
		r.waiters[0] = nil
		r.waiters = r.waiters[1:]
	}
	r.waiterCount.Store(int64(len(r.waiters)))
}

// leaveWaiters takes p out of the line because its context ended. Room that was
// granted in the same moment is given back.
func (r *mailboxRoom) leaveWaiters(ctx context.Context, p *roomWaiter) error {
	r.mu.Lock()
	for i, q := range r.waiters {
		if q == p {
			r.waiters = append(r.waiters[:i], r.waiters[i+1:]...)
			r.serveWaiters() // a smaller one behind p may fit
			r.mu.Unlock()
			return ctx.Err()
		}
	}
	r.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	r.releaseUnused(p.size)
	return ctx.Err()
}

// closeWaiters sends all senders in the queue away with err, and all that would join
// it later. It only makes their refusal prompt: those it missed would get room
// as the mailbox drains, and then be taken or find the actor closed.
func (r *mailboxRoom) closeWaiters(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waitersClosed = true
	for _, p := range r.waiters {
		p.err = err
		close(p.ready)
	}
	r.waiters = nil
	r.waiterCount.Store(0)
}
