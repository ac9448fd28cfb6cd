package queue

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
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
	of, manifest, from := tuple(key.Tuple{c.name}), manifestKey(c.name), c.db.Now()
	w.done.Go(func() {
		for c.ctx.Err() == nil {
			var failed error
			for change, err := range c.db.Feed(c.ctx, from) {
				if failed = err; failed != nil {
					break // all look for themselves, and it goes on from now
				}
				open := c.manifest.Load().Open().Number
				for _, op := range change.Ops {
					if op.Keyspace == c.ks.Name() && (bytes.HasPrefix(op.Key, of) && rouses(op, op.Key[len(of):], open) || bytes.Equal(op.Key, manifest)) {
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

// rouses tells whether a change of a row, whose key goes on with rest behind the name, may
// let a message be handed out: one that comes, one that is done and had a key that others
// wait for, or was of an epoch before the open one, whose messages wait for all of these,
// and one that is given back. Claims rouse nobody.
func rouses(op cleave.ChangeOp, rest []byte, open uint64) bool {
	const point = 1 // in front of the epoch
	if len(rest) < point {
		return true
	}
	epoch := key.NewReader(rest[point:])
	if epoch.Next(); epoch.Err() != nil {
		return true
	}
	at := point + epoch.Offset()
	if at >= len(rest) {
		return true
	}
	switch rest[at] {
	case kindMessage:
		number, _ := epoch.Element().Int()
		return !op.Deleted || len(rest) > at+1+8 || uint64(number) < open
	case kindLease:
		l, err := lanes.ParseLease(op.Item.Value)
		return !op.Deleted && (err != nil || l.Token == 0)
	}
	return false
}

// jitter is about Options.Poll, so that those who look by themselves do not do so at
// the same moment.
func (c *core) jitter() time.Duration {
	return c.opts.Poll/2 + time.Duration(rand.Int64N(int64(c.opts.Poll)))
}
