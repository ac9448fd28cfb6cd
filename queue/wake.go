package queue

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// waker tells those who wait that a row of the queue has changed: by the feed, which one
// goroutine reads for all of them.
type waker struct {
	mu   sync.Mutex
	seen chan struct{} // closed by the next change
	done sync.WaitGroup
}

// next is closed when something changes after the call.
func (w *waker) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (w *waker) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.seen)
	w.seen = make(chan struct{})
}

// start follows the feed until the core is closed.
func (w *waker) start(c *core) {
	w.seen = make(chan struct{})
	of, from := tuple(key.Tuple{c.name}), c.db.Now()
	w.done.Go(func() {
		for c.ctx.Err() == nil {
			var failed error
			for change, err := range c.db.Feed(c.ctx, from) {
				if failed = err; failed != nil {
					break // all look for themselves, and it goes on from now
				}
				for _, op := range change.Ops {
					if op.Keyspace == c.ks.Name() && bytes.HasPrefix(op.Key, of) {
						w.all()
						break
					}
				}
			}
			w.all()
			from = c.db.Now()
			if !errors.Is(failed, cleave.ErrGone) { // which only means that it was behind
				_ = c.pause(c.ctx, nil, c.jitter())
			}
		}
	})
}

// jitter is about Options.Poll, so that those who look by themselves do not do so at
// the same moment.
func (c *core) jitter() time.Duration {
	return c.opts.Poll/2 + time.Duration(rand.Int64N(int64(c.opts.Poll)))
}
