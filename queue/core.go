package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/internal/plant"
)

// core is what queues and logs share: buckets, and how messages come to them.
type core struct {
	db   *cleave.DB
	ks   *cleave.Keyspace
	name string
	opts Options

	manifest atomic.Pointer[lanes.Manifest] // may be old: the rows decide
	mu       sync.Mutex
	posts    map[lanes.Bucket]*lane
	wake     waker

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

func openCore(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, name string, log bool, o Options) (*core, error) {
	o, err := o.withDefaults()
	if err := errors.Join(err, checkPlace(ks, name)); err != nil {
		return nil, err
	}
	c := &core{db: db, ks: ks, name: name, opts: o, posts: map[lanes.Bucket]*lane{}}
	err = db.Update(ctx, func(tx *cleave.Txn) error {
		_, err := tx.Get(ks, manifestKey(name))
		if !errors.Is(err, cleave.ErrNotFound) {
			return err
		}
		m := lanes.NewManifest(o.Shards)
		m.Log = log
		return c.begin(tx, m, lanes.Tail{})
	})
	if err == nil {
		var m *lanes.Manifest
		if m, err = c.reload(ctx); err == nil && m.Log != log {
			err = fmt.Errorf("%w: a %s of that name is there already: use another name", cleave.ErrOptions, kindOf(m.Log))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", kindOf(log), name, err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wake.start(c)
	return c, nil
}

func kindOf(log bool) string {
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
	c.wake.done.Wait()
	return nil
}

// over tells that the caller has left, or that it was closed: then nothing is begun, so that
// nobody has to ask what came of it.
func (c *core) over(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

func (c *core) nowMS() int64 { return c.opts.Now().UnixMilli() }

// begin writes a manifest, and opens the buckets of its last epoch.
func (c *core) begin(tx *cleave.Txn, m lanes.Manifest, tail lanes.Tail) error {
	for _, b := range m.Buckets() {
		if err := tx.Set(c.ks, placeOf(c.name, b).tail(), tail.Append(nil)); err != nil {
			return err
		}
	}
	return tx.Set(c.ks, manifestKey(c.name), m.Encode())
}

// reload reads the manifest.
func (c *core) reload(ctx context.Context) (*lanes.Manifest, error) {
	value, err := c.ks.Get(ctx, manifestKey(c.name))
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(value)
	if err == nil {
		c.learn(&m)
	}
	return &m, err
}

// learn keeps a manifest that was read, unless a newer one is known: who was slow to read
// it must not take back an epoch, whose ids nobody would ask for any more.
func (c *core) learn(m *lanes.Manifest) {
	for {
		known := c.manifest.Load()
		if known != nil && known.Open().Number > m.Open().Number && !plant.Bug("queue-manifest-goes-back") || c.manifest.CompareAndSwap(known, m) {
			return
		}
	}
}

// edit changes the manifest in a transaction.
func (c *core) edit(ctx context.Context, f func(tx *cleave.Txn, m lanes.Manifest) error) error {
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
		_, _ = c.reload(ctx) // it is done, and what is known may be old
	}
	return err
}

// resize begins an epoch with another number of shards: all buckets of the last are closed
// in the same transaction, so that nothing is put there any more.
func (c *core) resize(ctx context.Context, shards int) error {
	if shards < 1 || shards > MaxShards {
		return fmt.Errorf("%w: queue: %d shards: use 1 to %d", cleave.ErrOptions, shards, MaxShards)
	}
	return c.edit(ctx, func(tx *cleave.Txn, m lanes.Manifest) error {
		if m.Open().Shards == shards {
			return nil
		}
		first := lanes.Tail{}
		for _, b := range m.Buckets() {
			p := placeOf(c.name, b)
			t, err := c.tail(tx, p)
			if err != nil {
				return err
			}
			first.TimeMS = max(first.TimeMS, t.TimeMS) // what comes later is not of before
			t.Closed = true
			if err := tx.Set(c.ks, p.tail(), t.Append(nil)); err != nil {
				return err
			}
		}
		now := c.nowMS()
		return c.begin(tx, m.Resized(shards, now).Forgotten(now-c.opts.keepEpoch().Milliseconds()), first)
	})
}

// tail reads the tail of a bucket.
func (c *core) tail(tx *cleave.Txn, p place) (lanes.Tail, error) {
	return parseTail(tx.Get(c.ks, p.tail()))
}

// empty tells whether there is no row from one key to another, which then stays so until the
// commit.
func (c *core) empty(tx *cleave.Txn, from, to []byte) (bool, error) {
	for _, err := range tx.Scan(c.ks, cleave.ScanOptions{Start: from, End: to, Limit: 1, KeysOnly: true}) {
		return false, err
	}
	return true, nil
}

// drained takes a bucket that is closed out of the manifest, if it is empty: who has seen
// that may have seen what a crash takes back, as in advance.
func (c *core) drained(ctx context.Context, p place) (done bool, err error) {
	err = c.edit(ctx, func(tx *cleave.Txn, m lanes.Manifest) error {
		t, err := c.tail(tx, p)
		if err != nil {
			return err
		}
		first, err := parseHead(tx.Get(c.ks, p.head()))
		if err != nil {
			return err
		}
		if done, err = c.empty(tx, p.numbered(kindMessage, first), p.kind(kindMessage+1)); err != nil || !done {
			return err
		}
		if m.Log {
			m.Gone += t.Next // 0 if others were faster: then it has no tail
		}
		if _, err := tx.Delete(c.ks, p.tail(), p.head()); err != nil {
			return err
		}
		before := c.opts.Now().Add(-c.opts.keepEpoch()).UnixMilli()
		return tx.Set(c.ks, manifestKey(c.name), m.Drained(p.Bucket).Forgotten(before).Encode())
	})
	return done, err
}

// scan visits the rows of a kind of a bucket from a number on, page by page.
func (c *core) scan(ctx context.Context, p place, kind byte, from uint64, keysOnly bool, visit func(lanes.Row, []byte) bool) error {
	o := cleave.ScanOptions{Start: p.numbered(kind, from), End: p.kind(kind + 1), Limit: scanPage, KeysOnly: keysOnly}
	for {
		page, err := c.ks.Scan(ctx, o)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			r, err := p.row(item.Key)
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

// scanPage is how many rows are read at once.
const scanPage = 256

// pause waits until something may have changed, or for so long.
func (c *core) pause(ctx context.Context, seen <-chan struct{}, d time.Duration) error {
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
