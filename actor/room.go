package actor

import (
	"context"
	"sync"
	"sync/atomic"
)

// room bounds the messages that wait in the mailbox. It counts them with two
// numbers, those that ever got a place and those that left it, so that one
// atomic operation of a sender gives the depth and the number of accepted
// messages alike. Both grow; the first is lowered again only for messages that
// got a place and then did not come.
//
// Senders that find no room stand in a line and are given room in that order;
// while there is a line nobody overtakes it.
type room struct {
	capacity int64
	admitted atomic.Int64 // messages that ever got a place and came, or still may
	vacated  atomic.Int64 // of those, how many left to be handled; the holder writes it
	deepest  atomic.Int64 // the most that ever waited at once
	inLine   atomic.Int64 // len(line)

	refused  atomic.Uint64 // messages that got no place
	deserted atomic.Uint64 // callers that did not wait for their reply

	mu   sync.Mutex
	line []*place
	shut bool // closed: nobody may stand in line any more
}

// A place in the line for room.
type place struct {
	size   int64
	ready  chan struct{} // closed when granted or when the room is closed
	before int64         // set before ready is closed, as is err
	err    error
}

// enter gets room for size messages and returns how many were admitted
// before them.
func (r *room) enter(ctx context.Context, size int64, refuse bool) (before int64, err error) {
	if ended(ctx) {
		return 0, ctx.Err()
	}
	if r.inLine.Load() == 0 {
		if before, ok := r.grab(size); ok {
			return before, nil
		}
	}
	if refuse {
		return 0, ErrFull
	}
	p := &place{size: size, ready: make(chan struct{})}
	r.mu.Lock()
	if r.shut {
		r.mu.Unlock()
		return 0, ErrStopped
	}
	r.line = append(r.line, p)
	r.inLine.Store(int64(len(r.line)))
	r.serveLine() // room may have come free before we were in the line
	r.mu.Unlock()
	select {
	case <-p.ready:
		return p.before, p.err
	case <-ctx.Done():
		return 0, r.renounce(ctx, p)
	}
}

// grab takes room for size messages if there is enough.
func (r *room) grab(size int64) (before int64, ok bool) {
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
			old := r.deepest.Load()
			if depth <= old || r.deepest.CompareAndSwap(old, depth) {
				return before, true
			}
		}
	}
}

// vacate gives room back when messages leave the mailbox to be handled. Only
// the holder of the actor calls it.
func (r *room) vacate(size int64) {
	r.vacated.Store(r.vacated.Load() + size)
	r.call()
}

// quit gives back room that was taken for messages that never came.
func (r *room) quit(size int64) {
	r.admitted.Add(-size)
	r.call()
}

// call serves the line, if there is one. A sender enters the line before it
// looks for room the last time, and room is given back before the line is
// looked at: so one of the two sees the other.
func (r *room) call() {
	if r.inLine.Load() > 0 {
		r.mu.Lock()
		r.serveLine()
		r.mu.Unlock()
	}
}

// serveLine gives room to those first in line, as far as it goes.
func (r *room) serveLine() {
	for len(r.line) > 0 {
		p, ok := r.line[0], false
		if p.before, ok = r.grab(p.size); !ok {
			break
		}
		close(p.ready)
		r.line[0] = nil
		r.line = r.line[1:]
	}
	r.inLine.Store(int64(len(r.line)))
}

// renounce takes p out of the line because its context ended. Room that was
// granted in the same moment is given back.
func (r *room) renounce(ctx context.Context, p *place) error {
	r.mu.Lock()
	for i, q := range r.line {
		if q == p {
			r.line = append(r.line[:i], r.line[i+1:]...)
			r.serveLine() // a smaller one behind p may fit
			r.mu.Unlock()
			return ctx.Err()
		}
	}
	r.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	r.quit(p.size)
	return ctx.Err()
}

// close sends everybody in the line away with err, and all who would stand in
// it later. It only makes their refusal prompt: those it missed would get room
// as the mailbox drains, and then be taken or find the actor closed.
func (r *room) close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	for _, p := range r.line {
		p.err = err
		close(p.ready)
	}
	r.line = nil
	r.inLine.Store(0)
}
