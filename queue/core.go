package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/key"
)

// core is what queues and logs share: buckets, and how messages come to them.
type core struct {
	db   *cleave.DB
	ks   *cleave.Keyspace
	name string
	opts Options

	manifest      atomic.Pointer[delivery.Manifest] // may be old: the rows decide
	mu            sync.Mutex
	publishQueues map[delivery.Bucket]*publishQueue
	notifier      changeNotifier

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

func openCore(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, name string, log bool, o Options) (*core, error) {
	o, err := o.withDefaults()
	if err := errors.Join(err, checkKeyspaceAndName(ks, name)); err != nil {
		return nil, err
	}
	c := &core{db: db, ks: ks, name: name, opts: o, publishQueues: map[delivery.Bucket]*publishQueue{}}
	err = db.Update(ctx, func(tx *cleave.Txn) error {
		_, err := tx.Get(ks, manifestKey(name))
		if !errors.Is(err, cleave.ErrNotFound) {
			return err
		}
		m := delivery.NewManifest(o.Shards)
		m.Log = log
		return c.openEpoch(tx, m, delivery.Tail{})
	})
	if err == nil {
		var m *delivery.Manifest
		if m, err = c.reloadManifest(ctx); err == nil && m.Log != log {
			err = fmt.Errorf("%w: a %s of that name is there already: use another name", cleave.ErrOptions, kindName(m.Log))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", kindName(log), name, err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.notifier.start(c)
	return c, nil
}

func kindName(log bool) string {
	if log {
		return "log"
	}
	return "queue"
}

// close ends what runs, and waits for it.
func (c *core) close() error {
	c.mu.Lock()
	closed := c.ctx.Err() != nil
	c.cancel()
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	c.notifier.wg.Wait()
	return nil
}

// checkOpen reports that the caller's context has ended, or that c was closed: then nothing is begun,
// so that there is no outcome to ask about.
func (c *core) checkOpen(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

func (c *core) nowMS() int64 { return c.opts.Now().UnixMilli() }

// openEpoch writes a manifest, and opens the buckets of its last epoch.
func (c *core) openEpoch(tx *cleave.Txn, m delivery.Manifest, tail delivery.Tail) error {
	for _, b := range m.OpenBuckets() {
		if err := tx.Set(c.ks, newBucketKeys(c.name, b).tailKey(), tail.Append(nil)); err != nil {
			return err
		}
	}
	return tx.Set(c.ks, manifestKey(c.name), m.Encode())
}

// reloadManifest reads the manifest.
func (c *core) reloadManifest(ctx context.Context) (*delivery.Manifest, error) {
	value, err := c.ks.Get(ctx, manifestKey(c.name))
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(value)
	if err == nil {
		c.keepNewerManifest(&m)
	}
	return &m, err
}

// keepNewerManifest keeps a manifest that was read, unless a newer one is known: a slow reader
// must not bring back an older open epoch, whose ids would not be asked for any more.
func (c *core) keepNewerManifest(m *delivery.Manifest) {
	for {
		known := c.manifest.Load()
		if known != nil && known.OpenEpoch().Number > m.OpenEpoch().Number || c.manifest.CompareAndSwap(known, m) {
			return
		}
	}
}

// editManifest changes the manifest in a transaction.
func (c *core) editManifest(ctx context.Context, f func(tx *cleave.Txn, m delivery.Manifest) error) error {
	err := c.db.Update(ctx, func(tx *cleave.Txn) error {
		value, err := tx.Get(c.ks, manifestKey(c.name))
		if err != nil {
			return err
		}
		m, err := parseManifest(value)
		if err != nil {
			return err
		}
		return f(tx, m)
	})
	if err == nil {
		_, _ = c.reloadManifest(ctx) // it is done, and what is known may be old
	}
	return err
}

// changeShards begins an epoch with another number of shards: all buckets of the last are closed
// in the same transaction, so that nothing is put there any more.
func (c *core) changeShards(ctx context.Context, shards int) error {
	if shards < 1 || shards > MaxShards {
		return fmt.Errorf("%w: queue: %d shards: use 1 to %d", cleave.ErrOptions, shards, MaxShards)
	}
	return c.editManifest(ctx, func(tx *cleave.Txn, m delivery.Manifest) error {
		if m.OpenEpoch().Shards == shards {
			return nil
		}
		first := delivery.Tail{}
		for _, b := range m.OpenBuckets() {
			p := newBucketKeys(c.name, b)
			t, err := c.loadTail(tx, p)
			if err != nil {
				return err
			}
			first.TimeMS = max(first.TimeMS, t.TimeMS) // what comes later is not of before
			t.Closed = true
			if err := tx.Set(c.ks, p.tailKey(), t.Append(nil)); err != nil {
				return err
			}
		}
		now := c.nowMS()
		return c.openEpoch(tx, m.WithShards(shards, now).WithoutClosedEpochs(now-c.opts.epochTTL().Milliseconds()), first)
	})
}

// loadTail reads the tail of a bucket.
func (c *core) loadTail(tx *cleave.Txn, p bucketKeys) (delivery.Tail, error) {
	return parseTail(tx.Get(c.ks, p.tailKey()))
}

// isEmptyRange reports whether there is no row from one key to another, which then stays so until the
// commit.
func (c *core) isEmptyRange(tx *cleave.Txn, from, to []byte) (bool, error) {
	for _, err := range tx.Scan(c.ks, cleave.ScanOptions{Start: from, End: to, Limit: 1, KeysOnly: true}) {
		return false, err
	}
	return true, nil
}

// removeDrainedBucket takes a bucket that is closed out of the manifest, if it is empty: a reader of it
// may have seen what a crash takes back, as in advance.
func (c *core) removeDrainedBucket(ctx context.Context, p bucketKeys) (done bool, err error) {
	err = c.editManifest(ctx, func(tx *cleave.Txn, m delivery.Manifest) error {
		t, err := c.loadTail(tx, p)
		if err != nil {
			return err
		}
		first, err := parseHead(tx.Get(c.ks, p.headKey()))
		if err != nil {
			return err
		}
		if done, err = c.isEmptyRange(tx, p.seqKey(kindMessage, first), p.kindPrefix(kindMessage+1)); err != nil || !done {
			return err
		}
		if m.Log {
			m.Gone += t.NextSeq // 0 if others were faster: then it has no tail
		}
		if _, err := tx.Delete(c.ks, p.tailKey(), p.headKey()); err != nil {
			return err
		}
		before := c.opts.Now().Add(-c.opts.epochTTL()).UnixMilli()
		return tx.Set(c.ks, manifestKey(c.name), m.WithoutBucket(p.Bucket).WithoutClosedEpochs(before).Encode())
	})
	return done, err
}

// scanBucket visits the rows of a kind of a bucket from a number on, page by page.
func (c *core) scanBucket(ctx context.Context, p bucketKeys, kind byte, from uint64, keysOnly bool, visit func(delivery.MessageRef, []byte) bool) error {
	o := cleave.ScanOptions{Start: p.seqKey(kind, from), End: p.kindPrefix(kind + 1), Limit: scanPageRows, KeysOnly: keysOnly}
	for {
		page, err := c.ks.ScanPage(ctx, o)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			r, err := p.parseRowKey(item.Key)
			if err != nil {
				return err
			}
			if !visit(r, item.Value) {
				return nil
			}
		}
		if page.Next == nil {
			return nil
		}
		o.After = page.Next
	}
}

// scanPageRows is how many rows are read at once.
const scanPageRows = 256

// waitForChange waits until something may have changed, or for so long.
func (c *core) waitForChange(ctx context.Context, seen <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	case <-seen:
	case <-timer.C:
	}
	return nil
}

// changeNotifier notifies waiting consumers that a row of the queue has changed: by the feed, which one
// goroutine reads for all of them.
type changeNotifier struct {
	mu      sync.Mutex
	changed chan struct{} // closed by the next change
	wg      sync.WaitGroup
}

// subscribe is closed when something changes after the call.
func (w *changeNotifier) subscribe() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *changeNotifier) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

// start follows the feed until the core is closed.
func (w *changeNotifier) start(c *core) {
	w.changed = make(chan struct{})
	of, manifest, from := encodeTuple(key.Tuple{c.name}), manifestKey(c.name), c.db.Head()
	w.wg.Go(func() {
		for c.ctx.Err() == nil {
			var failed error
			for change, err := range c.db.Feed(c.ctx, cleave.FeedOptions{From: from}) {
				if failed = err; failed != nil {
					break // all look for themselves, and it goes on from now
				}
				open := c.manifest.Load().OpenEpoch().Number
				for _, op := range change.Ops {
					if op.Keyspace == c.ks.Name() && (bytes.HasPrefix(op.Key, of) && canUnblock(op, op.Key[len(of):], open) || bytes.Equal(op.Key, manifest)) {
						w.notifyAll()
						break
					}
				}
			}
			w.notifyAll()
			from = c.db.Head()
			if !errors.Is(failed, cleave.ErrGone) { // which only means that it was behind
				_ = c.waitForChange(c.ctx, nil, c.pollInterval())
			}
		}
	})
}

// canUnblock reports whether a change of a row, whose key goes on with rest behind the name, may
// let a message be handed out: one that comes, one that is done and had a key that others
// wait for, or was of an epoch before the open one, whose messages wait for all of these,
// and one that is given back. Claims unblock none.
func canUnblock(op cleave.ChangeOp, rest []byte, open uint64) bool {
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
		l, err := delivery.ParseLease(op.Item.Value)
		return !op.Deleted && (err != nil || l.Token == 0)
	}
	return false
}

// pollInterval is about Options.Poll, so that consumers that poll do not do so at
// the same moment.
func (c *core) pollInterval() time.Duration {
	return c.opts.Poll/2 + time.Duration(rand.Int64N(int64(c.opts.Poll)))
}
