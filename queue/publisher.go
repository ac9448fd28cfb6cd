package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
)

// publishQueue is where the messages for a bucket wait for their commit: a publisher that finds no
// commit under way takes all that wait, so that one row of numbers serves many at once.
type publishQueue struct {
	mu         sync.Mutex
	committing bool
	pending    []*subBatch
}

// subBatch is messages of one call for one bucket.
type subBatch struct {
	messages    []*Message
	rows, bytes int // of them, the rows at most
	// checkedAt is when their ids were young enough, by the clock of the store.
	checkedAt time.Time
	// inTxn, if set, is done in the same transaction, and reports whether the messages are
	// still wanted. Those of others, which share the transaction, are not its business.
	inTxn func(tx *cleave.Txn) (wanted bool, err error)
	// resultCh is given an outcome, or nil for the post that is to go on with the work.
	resultCh chan *publishResult
}

type publishResult struct{ err error }

// cloneMessages lets the post share no memory with its caller, which may leave before its turn comes.
func (p *subBatch) cloneMessages() {
	for i, m := range p.messages {
		same := *m
		same.Key, same.Body = bytes.Clone(m.Key), bytes.Clone(m.Body)
		p.messages[i] = &same
	}
}

const (
	// maxCommitMessages, maxCommitRows and maxCommitBytes bound what is committed at once, unless one
	// message is larger: a fraction of what a transaction may have. The rest is for what all
	// messages share, and for an epoch that comes when they wait already.
	maxCommitMessages = 1000
	maxCommitRows     = 8000
	maxCommitBytes    = 1 << 20
)

// countRows is how many rows a message touches at most: itself, its lease, and its id or where
// it is revived from; and its id in all epochs, where it is looked for.
func countRows(m *delivery.Manifest, x *Message) int {
	if x.ID == (cleave.RequestID{}) {
		return 4
	}
	return 4 + len(m.Epochs)
}

// errClosedBucket sends a post to the newest manifest.
var errClosedBucket = errors.New("queue: the bucket is closed")

// publishMessages puts messages there, those of a shard at once.
func (c *core) publishMessages(ctx context.Context, messages []*Message, also func(*cleave.Txn) (bool, error)) error {
	for _, m := range messages {
		if err := m.checkBounds(); err != nil {
			return err
		}
	}
	if err := c.checkOpen(ctx); err != nil {
		return err
	}
	judged, err := c.checkIDs(messages)
	if err != nil {
		return err
	}
	anywhere := rand.IntN(delivery.Points)
	m := c.manifest.Load()
	for len(messages) > 0 {
		b := m.BucketFor(messagePoint(messages[0], anywhere))
		p := &subBatch{inTxn: also, checkedAt: judged, resultCh: make(chan *publishResult, 1)}
		rest := make([]*Message, 0, len(messages))
		full := false // from the first that finds no room on: one behind it may have its key
		for _, x := range messages {
			n, rows := len(p.messages), p.rows+countRows(m, x)
			here := m.BucketFor(messagePoint(x, anywhere)) == b
			full = full || here && (n == maxCommitMessages || n > 0 && rows > maxCommitRows || p.bytes > maxCommitBytes)
			if !here || full {
				rest = append(rest, x)
				continue
			}
			p.messages, p.rows, p.bytes = append(p.messages, x), rows, p.bytes+len(x.Key)+len(x.Body)
		}
		err := c.publishSubBatch(ctx, b, p)
		if errors.Is(err, errClosedBucket) {
			if m, err = c.reloadManifest(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		messages = rest
	}
	return nil
}

// messagePoint is the point of a message: by its key, by its id, or any.
func messagePoint(m *Message, anywhere int) int {
	switch {
	case len(m.Key) > 0:
		return delivery.PointOf(m.Key)
	case m.ID != (cleave.RequestID{}):
		return delivery.PointOf(m.ID[:])
	}
	return anywhere
}

// publishSubBatch commits messages together with those of others.
func (c *core) publishSubBatch(ctx context.Context, b delivery.Bucket, p *subBatch) error {
	c.mu.Lock()
	l := c.publishQueues[b]
	if l == nil {
		l = &publishQueue{}
		c.publishQueues[b] = l
	}
	c.mu.Unlock()
	l.mu.Lock()
	lead := !l.committing
	if !lead {
		p.cloneMessages()
	}
	if l.pending = append(l.pending, p); lead {
		l.committing = true
		l.mu.Unlock()
		return c.leadCommit(l, b, p)
	}
	l.mu.Unlock()
	select {
	case o := <-p.resultCh:
		if o == nil {
			return c.leadCommit(l, b, p)
		}
		return o.err
	case <-ctx.Done():
		go func() { // its turn may come yet
			if <-p.resultCh == nil {
				_ = c.leadCommit(l, b, p)
			}
		}()
		return fmt.Errorf("%w: %w", cleave.ErrUnknown, ctx.Err())
	}
}

// leadCommit commits what waits, up to the post of the caller, and hands the work on.
func (c *core) leadCommit(l *publishQueue, b delivery.Bucket, own *subBatch) error {
	l.mu.Lock()
	n, messages, rows, bytes := 0, 0, 0, 0
	for ; n < len(l.pending); n++ {
		p := l.pending[n]
		if n > 0 && (messages+len(p.messages) > maxCommitMessages || rows+p.rows > maxCommitRows || bytes >= maxCommitBytes) {
			break
		}
		messages, rows, bytes = messages+len(p.messages), rows+p.rows, bytes+p.bytes
	}
	batch := append([]*subBatch{}, l.pending[:n]...)
	l.pending = append(l.pending[:0], l.pending[n:]...)
	l.mu.Unlock()

	err := c.commitSubBatches(b, batch)
	l.mu.Lock()
	if len(l.pending) > 0 {
		l.pending[0].resultCh <- nil
	} else {
		l.committing = false
	}
	l.mu.Unlock()
	for _, p := range batch {
		if p != own {
			p.resultCh <- &publishResult{err}
		}
	}
	return err
}

// commitSubBatches puts the messages of posts at the end of a bucket, if it is open. It is not
// bound to the context of one of them.
func (c *core) commitSubBatches(b delivery.Bucket, batch []*subBatch) error {
	p := newBucketKeys(c.name, b)
	m := c.manifest.Load()
	err := c.db.Update(c.ctx, func(tx *cleave.Txn) error {
		t, err := c.loadTail(tx, p)
		if err != nil {
			return err
		}
		if t.Closed {
			return errClosedBucket
		}
		now := c.nowMS()
		t.TimeMS = max(t.TimeMS, now)
		for _, post := range batch {
			if post.inTxn != nil {
				if wanted, err := post.inTxn(tx); err != nil {
					return err
				} else if !wanted {
					continue
				}
			}
			for _, x := range post.messages {
				if err := c.putMessage(tx, m, p, &t, x, now, post.checkedAt); err != nil {
					return err
				}
			}
		}
		return tx.Set(c.ks, p.tailKey(), t.Append(nil))
	})
	if err != nil && c.ctx.Err() != nil {
		err = fmt.Errorf("%w, %w: %w", ErrClosed, cleave.ErrUnknown, err)
	}
	return err
}

// putMessage puts one message there, unless it is there already.
func (c *core) putMessage(tx *cleave.Txn, m *delivery.Manifest, p bucketKeys, t *delivery.Tail, x *Message, now int64, judged time.Time) error {
	if x.ID != (cleave.RequestID{}) {
		if known, err := c.isDuplicate(tx, m, p, x); known || err != nil {
			return err
		}
		o := cleave.SetOptions{TTL: c.opts.idTTL(x.ID, judged)}
		if err := tx.SetWith(c.ks, p.requestKey(x.ID), binary.AppendUvarint(nil, t.NextSeq), o); err != nil {
			return err
		}
	}
	r := delivery.MessageRef{Seq: t.NextSeq, Key: string(x.Key)}
	value := append(delivery.Header{TimeMS: t.TimeMS, BytesBefore: t.TotalBytes}.Append(nil), x.Body...)
	if err := tx.Set(c.ks, p.messageKey(r), value); err != nil {
		return err
	}
	t.NextSeq++
	t.TotalBytes += uint64(len(x.Key) + len(x.Body))
	if x.Delay == 0 {
		return nil
	}
	return tx.Set(c.ks, p.leaseKey(r.Seq), delivery.Lease{UntilMS: now + x.Delay.Milliseconds()}.Append(nil))
}

// isDuplicate reports whether a message with that id is there, or was: also in buckets of
// earlier epochs, which are remembered for as long as ids are.
func (c *core) isDuplicate(tx *cleave.Txn, m *delivery.Manifest, p bucketKeys, x *Message) (bool, error) {
	for _, b := range append([]delivery.Bucket{p.Bucket}, m.OlderBuckets(messagePoint(x, 0))...) {
		known, err := tx.Exists(c.ks, newBucketKeys(c.name, b).requestKey(x.ID))
		if known || err != nil {
			return known, err
		}
	}
	return false, nil
}

// This file says how old the id of a message may be, and for how long it is known. An id is
// taken from Remember before its time to Remember behind it. Its row is there for as long
// again: a message that was judged may wait for its commit, and clocks of groups differ.

// checkIDs refuses messages with ids of which it is unknown, by now or as yet, whether they
// were published, and returns the time by which it did so. It comes before a message is put
// together with those of others, which are not to fail with it.
func (c *core) checkIDs(messages []*Message) (now time.Time, err error) {
	for _, m := range messages {
		if m.ID == (cleave.RequestID{}) {
			continue
		}
		if now.IsZero() {
			now = c.db.NewRequestID().Time() // the clock of the store
		}
		age := now.Sub(m.ID.Time())
		if age > c.opts.Remember || age < -c.opts.Remember {
			return now, fmt.Errorf("%w: queue: an id of %v, it is %v, the limit is %v either way: find out whether the message was published, and if not use a new id",
				cleave.ErrRequestOld, m.ID.Time().UTC(), now.UTC(), c.opts.Remember)
		}
	}
	return now, nil
}

// idTTL is for how long an id that was judged is known, from the commit on.
func (o *Options) idTTL(id cleave.RequestID, judged time.Time) time.Duration {
	return id.Time().Add(2 * o.Remember).Sub(judged)
}

// epochTTL is for how long an epoch is known that takes no more messages: as long as the
// latest id that it can have, which is ahead of the clock by Remember.
func (o *Options) epochTTL() time.Duration { return 3 * o.Remember }
