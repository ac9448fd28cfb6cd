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
	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/internal/plant"
)

// lane is where the messages for a bucket wait for their commit: whoever finds nobody at
// work takes all that wait, so that one row of numbers serves many at once.
type lane struct {
	mu      sync.Mutex
	busy    bool
	waiting []*post
}

// post is messages of one call for one bucket.
type post struct {
	messages    []*Message
	rows, bytes int // of them, the rows at most
	// judged is when their ids were young enough, by the clock of the store.
	judged time.Time
	// also, if set, is done in the same transaction, and tells whether the messages are
	// still wanted. Those of others, which share the transaction, are not its business.
	also func(tx *cleave.Txn) (wanted bool, err error)
	// turn is given an outcome, or nil for the post that is to go on with the work.
	turn chan *outcome
}

type outcome struct{ err error }

// own lets the post share no memory with its caller, who may leave before its turn comes.
func (p *post) own() {
	for i, m := range p.messages {
		same := *m
		same.Key, same.Body = bytes.Clone(m.Key), bytes.Clone(m.Body)
		p.messages[i] = &same
	}
}

const (
	// postMessages, postRows and postBytes bound what is committed at once, unless one
	// message is larger. A transaction has 10,000 rows at most; the rest is for what all
	// messages share, and for an epoch that comes when they wait already.
	postMessages = 1000
	postRows     = 8000
	postBytes    = 1 << 20
)

// rowsOf is how many rows a message touches at most: itself, its lease, and its id or where
// it is revived from; and its id in all epochs, where it is looked for.
func rowsOf(m *lanes.Manifest, x *Message) int {
	if x.ID == (cleave.RequestID{}) {
		return 4
	}
	return 4 + len(m.Epochs)
}

// errClosedBucket sends a post to the newest manifest.
var errClosedBucket = errors.New("queue: the bucket is closed")

// publish puts messages there, those of a shard at once.
func (c *core) publish(ctx context.Context, messages []*Message, also func(*cleave.Txn) (bool, error)) error {
	for _, m := range messages {
		if err := m.check(); err != nil {
			return err
		}
	}
	if err := c.over(ctx); err != nil {
		return err
	}
	judged, err := c.judge(messages)
	if err != nil {
		return err
	}
	anywhere := rand.IntN(lanes.Points)
	m := c.manifest.Load()
	for len(messages) > 0 {
		b := m.For(pointOf(messages[0], anywhere))
		p := &post{also: also, judged: judged, turn: make(chan *outcome, 1)}
		rest := make([]*Message, 0, len(messages))
		full := false // from the first that finds no room on: one behind it may have its key
		for _, x := range messages {
			n, rows := len(p.messages), p.rows+rowsOf(m, x)
			here := m.For(pointOf(x, anywhere)) == b
			full = full || here && (n == postMessages || n > 0 && rows > postRows || p.bytes > postBytes)
			if !here || full {
				rest = append(rest, x)
				continue
			}
			p.messages, p.rows, p.bytes = append(p.messages, x), rows, p.bytes+len(x.Key)+len(x.Body)
		}
		err := c.post(ctx, b, p)
		if errors.Is(err, errClosedBucket) {
			if m, err = c.reload(ctx); err != nil {
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

// pointOf is the point of a message: by its key, by its id, or any.
func pointOf(m *Message, anywhere int) int {
	switch {
	case len(m.Key) > 0:
		return lanes.Point(m.Key)
	case m.ID != (cleave.RequestID{}):
		return lanes.Point(m.ID[:])
	}
	return anywhere
}

// post commits messages together with those of others.
func (c *core) post(ctx context.Context, b lanes.Bucket, p *post) error {
	c.mu.Lock()
	l := c.posts[b]
	if l == nil {
		l = &lane{}
		c.posts[b] = l
	}
	c.mu.Unlock()
	l.mu.Lock()
	lead := !l.busy
	if !lead {
		p.own()
	}
	if l.waiting = append(l.waiting, p); lead {
		l.busy = true
		l.mu.Unlock()
		return c.lead(l, b, p)
	}
	l.mu.Unlock()
	select {
	case o := <-p.turn:
		if o == nil {
			return c.lead(l, b, p)
		}
		return o.err
	case <-ctx.Done():
		go func() { // its turn may come yet
			if <-p.turn == nil {
				_ = c.lead(l, b, p)
			}
		}()
		return fmt.Errorf("%w: %w", cleave.ErrUnknown, ctx.Err())
	}
}

// lead commits what waits, up to the post of the caller, and hands the work on.
func (c *core) lead(l *lane, b lanes.Bucket, own *post) error {
	l.mu.Lock()
	n, messages, rows, bytes := 0, 0, 0, 0
	for ; n < len(l.waiting); n++ {
		p := l.waiting[n]
		if n > 0 && (messages+len(p.messages) > postMessages || rows+p.rows > postRows || bytes >= postBytes) {
			break
		}
		messages, rows, bytes = messages+len(p.messages), rows+p.rows, bytes+p.bytes
	}
	batch := append([]*post{}, l.waiting[:n]...)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	l.mu.Unlock()

	err := c.commit(b, batch)
	l.mu.Lock()
	if len(l.waiting) > 0 {
		l.waiting[0].turn <- nil
	} else {
		l.busy = false
	}
	l.mu.Unlock()
	for _, p := range batch {
		if p != own {
			p.turn <- &outcome{err}
		}
	}
	return err
}

// commit puts the messages of posts at the end of a bucket, if it is open. It is not
// bound to the context of one of them.
func (c *core) commit(b lanes.Bucket, batch []*post) error {
	p := placeOf(c.name, b)
	m := c.manifest.Load()
	err := c.db.Update(c.ctx, func(tx *cleave.Txn) error {
		t, err := c.tail(tx, p)
		if err != nil {
			return err
		}
		if t.Closed && !plant.Bug("queue-publish-to-closed-bucket") {
			return errClosedBucket
		}
		now := c.nowMS()
		t.TimeMS = max(t.TimeMS, now)
		for _, post := range batch {
			if post.also != nil {
				if wanted, err := post.also(tx); err != nil {
					return err
				} else if !wanted && plant.Bug("queue-revival-fails-others") {
					return errors.New("queue: it is gone")
				} else if !wanted {
					continue
				}
			}
			for _, x := range post.messages {
				if err := c.put(tx, m, p, &t, x, now, post.judged); err != nil {
					return err
				}
			}
		}
		return tx.Set(c.ks, p.tail(), t.Append(nil))
	})
	if err != nil && c.ctx.Err() != nil {
		err = fmt.Errorf("%w, %w: %w", ErrClosed, cleave.ErrUnknown, err)
	}
	return err
}

// put puts one message there, unless it is there already.
func (c *core) put(tx *cleave.Txn, m *lanes.Manifest, p place, t *lanes.Tail, x *Message, now int64, judged time.Time) error {
	if x.ID != (cleave.RequestID{}) {
		if known, err := c.known(tx, m, p, x); known || err != nil {
			return err
		}
		o := cleave.SetOptions{TTL: c.opts.keepID(x.ID, judged)}
		if err := tx.SetWith(c.ks, p.request(x.ID), binary.AppendUvarint(nil, t.Next), o); err != nil {
			return err
		}
	}
	r := lanes.Row{Seq: t.Next, Key: string(x.Key)}
	value := append(lanes.Head{TimeMS: t.TimeMS, Bytes: t.Bytes}.Append(nil), x.Body...)
	if err := tx.Set(c.ks, p.message(r), value); err != nil {
		return err
	}
	t.Next++
	t.Bytes += uint64(len(x.Key) + len(x.Body))
	if x.Delay == 0 {
		return nil
	}
	return tx.Set(c.ks, p.lease(r.Seq), lanes.Lease{UntilMS: now + x.Delay.Milliseconds()}.Append(nil))
}

// known tells whether a message with that id is there, or was: also in buckets of
// earlier epochs, which are remembered for as long as ids are.
func (c *core) known(tx *cleave.Txn, m *lanes.Manifest, p place, x *Message) (bool, error) {
	for _, b := range append([]lanes.Bucket{p.Bucket}, m.Before(pointOf(x, 0))...) {
		known, err := tx.Exists(c.ks, placeOf(c.name, b).request(x.ID))
		if known || err != nil {
			return known, err
		}
		if plant.Bug("queue-id-of-one-epoch") {
			break
		}
	}
	return false, nil
}
