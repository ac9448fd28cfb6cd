package actor

import (
	"sync/atomic"
	"time"
)

// A node is one entry of the mailbox: a call, a post, a batch of either, or a
// request for the actor itself. Nodes are pooled; who returns one to the pool
// follows from its state (see recycle's callers): the sender that got its
// reply, or the holder of the actor if no sender waits.
type node[M, R any] struct {
	next  *node[M, R] // towards older entries while pushed, newer once taken
	state atomic.Uint32
	kind  kind
	at    time.Duration // when it got its place; 0 means not sampled
	wake  chan struct{} // capacity 1; sent to only after state left parked

	one  M // the message and reply of a single entry
	back R
	ms   []M // those of a batch: the node's own buffers, or the caller's
	rs   []R // slices if the caller cannot leave early
	bufM []M
	bufR []R
	err  error
}

type kind uint8

const (
	call      kind = iota // one message, somebody waits for the reply
	post                  // one message, nobody waits
	callBatch             // several messages, somebody waits
	postBatch             // several messages, nobody waits
	exclusive             // no message: the sender wants to hold the actor
)

// The states of a node that somebody waits for.
//
//	queued -> waiting -> parked        by the sender
//	queued | waiting | parked -> done  by the holder: the reply is there
//	waiting | parked -> leader         by the holder: the actor is yours now
//	leader -> done                     by the sender, as holder
//	parked | leader -> abandoned       by the sender: nobody waits any more
const (
	queued    uint32 = iota // sent, but its sender is busy elsewhere
	waiting                 // its sender is about to sleep
	parked                  // its sender sleeps on wake
	leader                  // its sender holds the actor
	done                    // answered; the node belongs to its sender
	abandoned               // its sender has left
)

// size is the number of messages in n.
func (n *node[M, R]) size() int {
	switch n.kind {
	case callBatch, postBatch:
		return len(n.ms)
	case exclusive:
		return 0
	}
	return 1
}

// own makes n hold its own copy of ms and room for the replies, because the
// caller may reuse its slices before the handler has run.
func (n *node[M, R]) own(ms []M) {
	n.bufM = append(n.bufM[:0], ms...)
	if cap(n.bufR) < len(ms) {
		n.bufR = make([]R, len(ms))
	}
	n.bufR = n.bufR[:len(ms)]
	n.ms, n.rs = n.bufM, n.bufR
}

// keepBuffer is the most messages for which a pooled node keeps its buffers;
// one rare huge batch must not stay in memory for ever.
const keepBuffer = 1024

// fetch takes a node from the pool.
func (a *Actor[S, M, R]) fetch(k kind) *node[M, R] {
	n, _ := a.pool.Get().(*node[M, R])
	if n == nil {
		n = new(node[M, R])
	}
	n.kind = k
	if k == post || k == postBatch {
		n.state.Store(abandoned) // nobody will wait for it
		return n
	}
	if n.wake == nil {
		n.wake = make(chan struct{}, 1)
	}
	n.state.Store(waiting)
	return n
}

// recycle empties n, so that it keeps nothing of the caller's alive, and puts
// it back into the pool.
func (a *Actor[S, M, R]) recycle(n *node[M, R]) {
	var m M
	var r R
	n.one, n.back = m, r
	if cap(n.bufM) > keepBuffer {
		n.bufM, n.bufR = nil, nil
	}
	clear(n.bufM)
	clear(n.bufR)
	n.bufM, n.bufR = n.bufM[:0], n.bufR[:0]
	n.ms, n.rs, n.err, n.next, n.at = nil, nil, nil, nil, 0
	a.pool.Put(n)
}
