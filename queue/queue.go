package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
)

// Queue is a sharded queue. Its methods may be called by any goroutine, and several
// Queues of one name, in one process, work together.
type Queue struct {
	c *core

	mu    sync.Mutex
	heads map[lanes.Bucket]*head
}

// head is where a bucket is read from.
type head struct {
	// turn is taken by the one who claims: two at once would only meet in conflicts.
	turn sync.Mutex
	// from is a number below which there is nothing, and kept the one that is stored.
	from, kept uint64
	loaded     bool
}

// Open opens the queue of a name in a keyspace of kind Range, and makes it if there is
// none. Close it before the store.
func Open(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, name string, o Options) (*Queue, error) {
	c, err := openCore(ctx, db, ks, name, false, o)
	if err != nil {
		return nil, err
	}
	return &Queue{c: c, heads: map[lanes.Bucket]*head{}}, nil
}

// Close ends what the Queue runs. Those who wait in Receive get ErrClosed. Messages that are
// out come back when their leases end. A second call gets ErrClosed.
func (q *Queue) Close() error { return q.c.close() }

// Publish puts messages into the queue: when it returns nil, they are there. Those of one
// shard come at once, all of them or none, up to 1000 and about 1 MiB, or fewer with an ID
// after many resizes; those with neither Key nor ID are put into one shard.
// After an error some may be there: with an ID in each, all can be published again, for
// as long as Options.Remember says. If one ID is too old, cleave.ErrRequestOld, none of the
// messages was published by this call.
func (q *Queue) Publish(ctx context.Context, messages ...Message) error {
	list := make([]*Message, len(messages))
	for i := range messages {
		list[i] = &messages[i]
	}
	return q.c.publish(ctx, list, nil)
}

// Resize gives the queue another number of shards. Producers use the new ones at once;
// consumers first empty those of the old that have keys in common with them.
func (q *Queue) Resize(ctx context.Context, shards int) error { return q.c.resize(ctx, shards) }

// Shards is how many the queue has, and how many of earlier ones are not empty yet.
func (q *Queue) Shards(ctx context.Context) (now, old int, err error) {
	m, err := q.c.reload(ctx)
	if err != nil {
		return 0, 0, err
	}
	return m.Open().Shards, len(m.Left()) - m.Open().Shards, nil
}

// Delivery is a message that was handed out.
type Delivery struct {
	Key, Body []byte
	// Published is when it was.
	Published time.Time
	// Attempt is how often it was delivered, this time included.
	Attempt int

	of     *core
	bucket lanes.Bucket
	row    lanes.Row
	token  uint64
}

// Receive returns up to max messages, as soon as there is one: it waits until then, or
// until ctx ends. They are the caller's for Options.Lease. A max below 1 counts as 1, and
// one above 1000 as 1000: that is as much as one transaction claims.
func (q *Queue) Receive(ctx context.Context, max int) ([]*Delivery, error) {
	for {
		changed := q.c.wake.next() // before it looks, so that nothing slips through
		got, wake, err := q.try(ctx, max)
		if len(got) > 0 || err != nil {
			return got, err
		}
		wait := q.c.jitter()
		if wake != 0 {
			wait = min(wait, time.Duration(wake-q.c.nowMS()+1)*time.Millisecond)
		}
		if err := q.c.pause(ctx, changed, wait); err != nil {
			return nil, err
		}
	}
}

// TryReceive is Receive without waiting: none is no error.
func (q *Queue) TryReceive(ctx context.Context, max int) ([]*Delivery, error) {
	got, _, err := q.try(ctx, max)
	return got, err
}

// try claims messages of the first bucket that has some, and tells when the next one
// comes free if there is none.
func (q *Queue) try(ctx context.Context, max int) (got []*Delivery, wakeMS int64, err error) {
	if err := q.c.over(ctx); err != nil {
		return nil, 0, err
	}
	for again := true; again; {
		again = false
		m, err := q.c.reload(ctx)
		if err != nil {
			return nil, 0, err
		}
		ready := m.Ready()
		start := rand.IntN(len(ready)) // so that receivers are not all at the same one
		for i := range ready {
			b := ready[(start+i)%len(ready)]
			r, err := q.claim(ctx, b, clampMax(max))
			if err != nil || len(r.got) > 0 {
				return r.got, 0, err
			}
			if r.wakeMS != 0 && (wakeMS == 0 || r.wakeMS < wakeMS) {
				wakeMS = r.wakeMS
			}
			again = again || r.drained // then others may be ready
		}
	}
	return nil, wakeMS, nil
}

// maxClaim is the most that are handed out at once.
const maxClaim = 1000

func clampMax(n int) int { return max(1, min(n, maxClaim)) }

// headOf is the head of a bucket.
func (q *Queue) headOf(b lanes.Bucket) *head {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.heads[b]
	if h == nil {
		h = &head{}
		q.heads[b] = h
	}
	return h
}
