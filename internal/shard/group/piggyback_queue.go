package group

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
)

// piggybackQueue is a queue of requests that are in no hurry. The next batch of the group
// executes them before all others, so what they leave behind is in no request's way: a request
// that would see it sees them done.
type piggybackQueue struct {
	mu         sync.Mutex
	calls      []*call
	since      time.Time // when the first of calls came
	timerArmed bool      // a goroutine executes them when it is time
}

// add adds a call, and reports whether no goroutine has taken charge of the queue.
func (l *piggybackQueue) add(c *call) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		l.since = time.Now()
	}
	l.calls = append(l.calls, c)
	first, l.timerArmed = !l.timerArmed, true
	return first
}

// takeAll takes all that wait.
func (l *piggybackQueue) takeAll() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// hasCalls reports whether there are any.
func (l *piggybackQueue) hasCalls() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}

// remainingWait returns how long the waiting calls have left; 0 if their time has come. If none
// waits, the goroutine in charge ends, and the next add needs another.
func (l *piggybackQueue) remainingWait() (left time.Duration, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerArmed = len(l.calls) > 0
	return max(0, maxPiggybackWait-time.Since(l.since)), l.timerArmed
}

// executePiggybacked executes a request with the next batch of the group, before the other calls
// of it; at once if a caller waits for a change. If ctx ends first it may still be
// executed, and the error is ErrUnknown.
func (g *Group) executePiggybacked(ctx context.Context, r Request) (command.Reply, error) {
	if g.published.hasWaiters.CompareAndSwap(true, false) {
		return g.executeOnce(ctx, r) // if it was in vain, the waiter asks again
	}
	c := &call{Request: r, done: make(chan error, 1)}
	if g.piggyback.add(c) {
		time.AfterFunc(maxPiggybackWait, g.runPiggybackTimer)
	}
	select {
	case err := <-c.done:
		return c.reply, err
	case <-ctx.Done():
		return command.Reply{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// runPiggybackTimer executes the calls that no batch took along when their time has come.
func (g *Group) runPiggybackTimer() {
	for {
		left, some := g.piggyback.remainingWait()
		switch {
		case !some:
			return
		case left > 0:
			time.AfterFunc(left, g.runPiggybackTimer)
			return
		}
		g.flushPiggyback()
	}
}

// flushPiggyback executes what is late.
func (g *Group) flushPiggyback() {
	if err := g.actor.Do(context.Background(), func(x *executor) { x.run(nil, nil) }); err != nil {
		notifyAll(g.piggyback.takeAll(), g.mailboxError(err))
	}
}

// notifyDone notifies a caller that waits apart from the mailbox.
func (c *call) notifyDone(err error) {
	select {
	case c.done <- err:
	default: // it was notified before
	}
}

func notifyAll(calls []*call, err error) {
	for _, c := range calls {
		c.notifyDone(err)
	}
}
