package group

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/command"
)

// lateAfter is how long a request that is in no hurry waits for a batch to ride along
// with: a few writes to the log, and little for whoever waits for the end of
// a transaction.
const lateAfter = time.Millisecond

// late are requests in no hurry. The next batch of the group executes them before all
// others, so what they leave behind is in nobody's way: who comes to see it sees them
// done.
type late struct {
	mu    sync.Mutex
	calls []*call
	since time.Time // when the first of calls came
	armed bool      // somebody looks after them when it is time
}

// add adds a call, and tells whether nobody will look after it.
func (l *late) add(c *call) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		l.since = time.Now()
	}
	l.calls = append(l.calls, c)
	first, l.armed = !l.armed, true
	return first
}

// take takes all that wait.
func (l *late) take() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// some tells whether there are any.
func (l *late) some() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}

// wait tells how long those that wait have to; 0 if their time has come. If nobody
// waits, nobody is there any more to look after the next.
func (l *late) wait() (left time.Duration, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = len(l.calls) > 0
	return max(0, lateAfter-time.Since(l.since)), l.armed
}

// TryLater is Try for a request that costs nothing of its own: it waits until others
// make the group write, a moment at most, and is executed before them; if somebody
// waits for a change, it is executed at once. If ctx ends first it may still be
// executed, and the error is ErrUnknown.
func (g *Group) TryLater(ctx context.Context, r Request) (command.Reply, error) {
	if g.visible.awaited.CompareAndSwap(true, false) {
		return g.Try(ctx, r) // if it was in vain, who waits says so again
	}
	c := &call{Request: r, done: make(chan error, 1)}
	if g.late.add(c) {
		time.AfterFunc(lateAfter, g.tendLate)
	}
	select {
	case err := <-c.done:
		return c.reply, err
	case <-ctx.Done():
		return command.Reply{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// tendLate executes what nobody took along when its time has come.
func (g *Group) tendLate() {
	for {
		left, some := g.late.wait()
		switch {
		case !some:
			return
		case left > 0:
			time.AfterFunc(left, g.tendLate)
			return
		}
		g.flush()
	}
}

// flush executes what is late.
func (g *Group) flush() {
	if err := g.actor.Do(context.Background(), func(x *executor) { x.run(nil, nil) }); err != nil {
		answerLate(g.late.take(), g.refused(err))
	}
}

// answer tells a caller who waits apart from the mailbox.
func (c *call) answer(err error) {
	select {
	case c.done <- err:
	default: // it was told before
	}
}

func answerLate(calls []*call, err error) {
	for _, c := range calls {
		c.answer(err)
	}
}
