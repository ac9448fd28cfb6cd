// Package queue answers one question: how does a program hand out work, or keep a log, without
// one hot place at which all producers and consumers meet?
//
//	jobs, err := queue.Open(ctx, db, ks, "jobs", queue.Options{})
//	if err != nil { … }
//	defer jobs.Close()
//	err = jobs.Publish(ctx, queue.Message{Key: []byte("user/7"), Body: []byte("welcome")})
//	err = jobs.Consume(ctx, queue.ConsumeOptions{}, func(ctx context.Context, d *queue.Delivery) error {
//		… // acknowledged if it returns nil, else it comes again
//	})
//
// [Queue.Consume] is the loop that most receivers want; [Queue.Receive] and [Queue.Ack] are what it
// is made of.
//
// # Promises
//
//   - What Publish acknowledged is delivered at least once, and what Ack acknowledged never
//     again, whatever crashes or moves, as far as the store's durability goes.
//   - Messages with equal keys are delivered in the order of their publication: the next one
//     only when the one before is acknowledged or dead. That holds while [Queue.Resize]
//     changes the number of shards. Messages without a key come in no order.
//   - A delivery is its receiver's for the time of a lease. A receiver that lost it, because the lease
//     ran out and another got the message, gets an error: [ErrLost].
//   - A message that was delivered too often is set aside, and does not hold up others.
//   - A retry of Publish with the same [Message.ID] puts nothing there twice. When the
//     id is older than Options.Remember, the retry is refused: [cleave.ErrRequestOld].
//   - A [Log] keeps what was appended until it is trimmed; each [Reader] has its own place.
//
// # Choices
//
// Rows have keys of the form queue/shard/number in a keyspace of kind Range. Numbers ascend
// in the order of commits, by one row for each shard, which concurrent calls of Publish on
// that shard share. Receivers wait for the feed of the store and do not poll. A keyspace begins
// in one shard of one group: see [Queue.Spread].
//
// # Limits
//
// A receiver that stops for longer than its lease may work on a message at the same time as
// another: what it does must bear that, or be fenced by Ack in the same transaction
// ([Queue.AckTx]). Leases are judged by the clock of [Options.Now], to the millisecond.
package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/internal/patterns/spread"
	"github.com/cleavekv/cleave/key"
)

// Queue is a sharded queue. Its methods may be called by any goroutine, and several
// Queues of one name, in one process, work together.
type Queue struct {
	c *core

	mu    sync.Mutex
	heads map[delivery.Bucket]*bucketHead
}

// bucketHead is where a bucket is read from.
type bucketHead struct {
	// leaseMu is held by a claim: two at once would only meet in conflicts.
	leaseMu sync.Mutex
	// firstSeq is a number below which there is nothing, and kept the one that is stored.
	firstSeq, savedSeq uint64
	loaded             bool
}

// Open opens the queue of a name in a keyspace of kind Range, and makes it if there is
// none. Close it before the store.
func Open(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, name string, o Options) (*Queue, error) {
	c, err := openCore(ctx, db, ks, name, false, o)
	if err != nil {
		return nil, err
	}
	return &Queue{c: c, heads: map[delivery.Bucket]*bucketHead{}}, nil
}

// Close ends what the Queue runs. Callers that wait in Receive get ErrClosed. Messages that are
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
	return q.c.publishMessages(ctx, list, nil)
}

// Resize gives the queue another number of shards. Producers use the new ones at once;
// consumers first empty those of the old that have keys in common with them.
func (q *Queue) Resize(ctx context.Context, shards int) error { return q.c.changeShards(ctx, shards) }

// Shards is how many the queue has, and how many of earlier ones are not empty yet.
func (q *Queue) Shards(ctx context.Context) (now, old int, err error) {
	m, err := q.c.reloadManifest(ctx)
	if err != nil {
		return 0, 0, err
	}
	return m.OpenEpoch().Shards, len(m.RemainingBuckets()) - m.OpenEpoch().Shards, nil
}

// Delivery is a message that was handed out.
type Delivery struct {
	Key, Body []byte
	// Published is when it was.
	Published time.Time
	// Attempt is how often it was delivered, this time included.
	Attempt int

	core   *core
	bucket delivery.Bucket
	ref    delivery.MessageRef
	token  uint64
}

// Receive returns up to max messages, as soon as there is one: it waits until then, or
// until ctx ends. They are the caller's for Options.Lease. A max below 1 counts as 1, and
// one above 1000 as 1000: that is as much as one transaction claims.
func (q *Queue) Receive(ctx context.Context, max int) ([]*Delivery, error) {
	for {
		changed := q.c.notifier.subscribe() // before it looks, so that nothing slips through
		got, wake, err := q.tryReceive(ctx, max)
		if len(got) > 0 || err != nil {
			return got, err
		}
		wait := q.c.pollInterval()
		if wake != 0 {
			wait = min(wait, time.Duration(wake-q.c.nowMS()+1)*time.Millisecond)
		}
		if err := q.c.waitForChange(ctx, changed, wait); err != nil {
			return nil, err
		}
	}
}

// TryReceive is Receive without waiting: none is no error.
func (q *Queue) TryReceive(ctx context.Context, max int) ([]*Delivery, error) {
	got, _, err := q.tryReceive(ctx, max)
	return got, err
}

// tryReceive claims messages of the first bucket that has some, and returns when the next one
// comes free if there is none.
func (q *Queue) tryReceive(ctx context.Context, max int) (got []*Delivery, wakeMS int64, err error) {
	if err := q.c.checkOpen(ctx); err != nil {
		return nil, 0, err
	}
	for again := true; again; {
		again = false
		m, err := q.c.reloadManifest(ctx)
		if err != nil {
			return nil, 0, err
		}
		ready := m.ReadyBuckets()
		start := rand.IntN(len(ready)) // so that receivers are not all at the same one
		for i := range ready {
			b := ready[(start+i)%len(ready)]
			r, err := q.leaseMessages(ctx, b, clampReceive(max))
			if err != nil || len(r.deliveries) > 0 {
				return r.deliveries, 0, err
			}
			if r.wakeMS != 0 && (wakeMS == 0 || r.wakeMS < wakeMS) {
				wakeMS = r.wakeMS
			}
			again = again || r.drained // then others may be ready
		}
	}
	return nil, wakeMS, nil
}

// maxReceiveMessages is the most that are handed out at once.
const maxReceiveMessages = 1000

func clampReceive(n int) int { return max(1, min(n, maxReceiveMessages)) }

// getHead is the head of a bucket.
func (q *Queue) getHead(b delivery.Bucket) *bucketHead {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.heads[b]
	if h == nil {
		h = &bucketHead{}
		q.heads[b] = h
	}
	return h
}

// ShardStats is what a shard holds.
type ShardStats struct {
	// Epoch and Shard name it; one that is Closed takes no more messages.
	Epoch  uint64
	Shard  int
	Closed bool
	// Depth is how many messages are not done, of which Out are with receivers and
	// Delayed wait for their time.
	Depth, Out, Delayed int
	// Published is how many there ever were, and Lag how old the oldest one is that is
	// not done.
	Published uint64
	Lag       time.Duration
}

// Stats is what a queue holds.
type Stats struct {
	// Shards are those of the queue, and before them those of earlier numbers of shards
	// that are not empty yet.
	Shards []ShardStats
	// Depth is how many messages are not done, and Dead how many were set aside.
	Depth, Dead int
}

// Stats returns what the queue holds. It looks at all messages that wait, so it takes
// longer the more there are.
func (q *Queue) Stats(ctx context.Context) (out Stats, err error) {
	m, err := q.c.reloadManifest(ctx)
	if err != nil {
		return out, err
	}
	for _, b := range m.RemainingBuckets() {
		s, err := q.loadShardStats(ctx, b)
		if err != nil {
			return out, err
		}
		out.Shards, out.Depth = append(out.Shards, s), out.Depth+s.Depth
	}
	for _, err := range q.c.ks.Scan(ctx, cleave.ScanOptions{Prefix: deadPrefix(q.c.name), KeysOnly: true}) {
		if err != nil {
			return out, err
		}
		out.Dead++
	}
	return out, nil
}

func (q *Queue) loadShardStats(ctx context.Context, b delivery.Bucket) (s ShardStats, err error) {
	p, now := newBucketKeys(q.c.name, b), q.c.nowMS()
	t, err := parseTail(q.c.ks.Get(ctx, p.tailKey()))
	if err != nil {
		return s, err
	}
	s = ShardStats{Epoch: b.Epoch, Shard: b.Index, Closed: t.Closed, Published: t.NextSeq}
	leases, err := q.loadLeases(ctx, p, 0)
	if err != nil {
		return s, err
	}
	for _, l := range leases {
		switch {
		case !l.IsHidden(now):
		case l.Token != 0:
			s.Out++
		default:
			s.Delayed++
		}
	}
	var oldest *delivery.MessageRef
	err = q.c.scanBucket(ctx, p, kindMessage, 0, true, func(r delivery.MessageRef, _ []byte) bool {
		if s.Depth++; oldest == nil {
			oldest = &r
		}
		return true
	})
	if err != nil || oldest == nil {
		return s, err
	}
	value, err := q.c.ks.Get(ctx, p.messageKey(*oldest))
	if errors.Is(err, cleave.ErrNotFound) {
		return s, nil // done meanwhile
	}
	if err != nil {
		return s, err
	}
	h, _, err := parseMessage(value)
	s.Lag = time.Duration(now-h.TimeMS) * time.Millisecond
	return s, err
}

// Spread cuts the keyspace so that each shard of the queue is one of the store's, and gives
// them to the groups in turn, store by store, as far as they are not there already. A keyspace
// begins in one shard of one group, where a queue has no use for several shards. Do it before
// there are messages, while it costs next to nothing, and again after [Queue.Resize]; what
// else is in the keyspace stays where it is. It waits for the jobs that it starts: if it is
// left early or fails, they go on, and calling it again does the rest. Groups that are drained
// get none.
func (q *Queue) Spread(ctx context.Context) error { return q.c.spreadShards(ctx) }

// Spread gives the shards of the log to the groups: see [Queue.Spread].
func (l *Log) Spread(ctx context.Context) error { return l.c.spreadShards(ctx) }

func (c *core) spreadShards(ctx context.Context) error {
	if err := c.checkOpen(ctx); err != nil {
		return err
	}
	m, err := c.reloadManifest(ctx)
	if err != nil {
		return err
	}
	starts := SplitKeys(c.name, m.OpenEpoch().Shards)
	places, err := spread.InTurn(c.db, starts)
	if err == nil {
		err = spread.Apply(ctx, c.db, c.ks, append(starts, endOfName(c.name)), places)
	}
	if err != nil {
		return fmt.Errorf("spread %s %s: %w", kindName(m.Log), c.name, err)
	}
	return nil
}

// endOfName is the first key behind the buckets of a name: all of them begin with a tuple that
// ends with a zero byte, and a name has none.
func endOfName(name string) []byte {
	end := encodeTuple(key.Tuple{name})
	end[len(end)-1]++
	return end
}
