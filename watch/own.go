package watch

import (
	"context"
	"iter"

	"github.com/cleavekv/cleave"
)

// ownReader reads the log for one watcher, up to where the hub takes over. What it reads
// is coalesced like what the hub offers.
type ownReader struct {
	target *Target
	next   func() (cleave.Change, error, bool)
	stop   func()
	queue  queue
	at     cleave.Cursor // all before it was read
	ended  bool
	err    error // why it cannot go on
}

// newOwnReader reads from a place to another for a target, into a queue that is empty.
func newOwnReader(feed source, t *Target, q queue, from, to cleave.Cursor) *ownReader {
	ctx, cancel := context.WithCancel(context.Background())
	next, end := iter.Pull2(feed.FeedUntil(ctx, from, to))
	return &ownReader{target: t, next: next, queue: q, at: from, stop: func() { cancel(); end() }}
}

// read reads until there is something in the queue, and as much as fits into it if it
// may be told as one. If the queue is empty then, all was read. After an error of ctx it may
// be called again.
func (r *ownReader) read(ctx context.Context, o *Options) error {
	if r.queue.len() > 0 {
		return nil
	}
	for r.err == nil && !r.ended && (r.queue.len() == 0 || !o.Every && r.queue.len() < o.Buffer && r.queue.bytes < o.BufferBytes) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err, ok := r.next()
		if r.err, r.ended = err, !ok; err != nil || !ok {
			break
		}
		for i := range c.Ops {
			if r.target.matches(&c.Ops[i]) {
				r.queue.push(&c.Ops[i], r.at) // of one change all is let in
			}
		}
		r.at = c.After
	}
	return r.err
}
