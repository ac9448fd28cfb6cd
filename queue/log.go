package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
)

// Log is a sharded log: entries stay until they are trimmed, and any number of readers go
// through it, each at its own place. Its methods may be called by any goroutine.
type Log struct{ c *core }

// OpenLog opens the log of a name in a keyspace of kind Range, and makes it if there is none.
// Of the options, Lease and MaxDeliveries are not used. Close it before the store.
func OpenLog(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, name string, o Options) (*Log, error) {
	c, err := openCore(ctx, db, ks, name, true, o)
	if err != nil {
		return nil, err
	}
	return &Log{c}, nil
}

// Close ends what the Log runs. Those who wait in Next get ErrClosed. A second call gets
// ErrClosed too.
func (l *Log) Close() error { return l.c.close() }

// Append appends entries, as Queue.Publish publishes messages.
func (l *Log) Append(ctx context.Context, entries ...Message) error {
	list := make([]*Message, len(entries))
	for i := range entries {
		if entries[i].Delay != 0 {
			return fmt.Errorf("%w: an entry of a log has no delay", ErrMessage)
		}
		list[i] = &entries[i]
	}
	return l.c.publish(ctx, list, nil)
}

// Resize gives the log another number of shards. Entries with equal keys keep their order.
func (l *Log) Resize(ctx context.Context, shards int) error { return l.c.resize(ctx, shards) }

// Retention says what of a log is kept. Zero is no bound.
type Retention struct {
	// Age is how old an entry gets.
	Age time.Duration
	// ShardEntries and ShardBytes bound how many entries, and bytes of keys and bodies,
	// each shard keeps.
	ShardEntries, ShardBytes uint64
}

// drops tells whether an entry is not to be kept, in a shard with a tail. What is older than
// oldest has passed its age.
func (keep Retention) drops(oldestMS int64, t lanes.Tail, r lanes.Row, h lanes.Head) bool {
	return h.TimeMS < oldestMS || keep.ShardEntries > 0 && t.Next-r.Seq > keep.ShardEntries || keep.ShardBytes > 0 && t.Bytes-h.Bytes > keep.ShardBytes
}

// trimAtOnce is how many entries are removed in a transaction.
const trimAtOnce = 500

// Trim removes what is not to be kept, from the oldest on, and returns how many entries.
// Call it from time to time.
func (l *Log) Trim(ctx context.Context, keep Retention) (removed int, err error) {
	if keep.Age < 0 {
		return 0, fmt.Errorf("%w: queue: Age is %v: use a positive one, or 0 for no bound", cleave.ErrOptions, keep.Age)
	}
	m, err := l.c.reload(ctx)
	if err != nil {
		return 0, err
	}
	for _, b := range m.Left() {
		p := placeOf(l.c.name, b)
		for {
			n, drained, err := l.trim(ctx, p, keep)
			removed += n
			if err == nil && drained {
				_, err = l.c.drained(ctx, p)
			}
			if err != nil {
				return removed, err
			}
			if n < trimAtOnce {
				break
			}
		}
	}
	return removed, nil
}

// trim removes some entries of a bucket, and tells whether it is closed and empty then.
func (l *Log) trim(ctx context.Context, p place, keep Retention) (n int, drained bool, err error) {
	oldest := int64(0)
	if keep.Age > 0 {
		oldest = l.c.opts.Now().Add(-keep.Age).UnixMilli()
	}
	err = l.c.db.Update(ctx, func(tx *cleave.Txn) error {
		n = 0
		t, err := l.c.tail(tx, p)
		if err != nil {
			return err
		}
		var gone [][]byte
		left := false
		next := t.Next
		o := cleave.ScanOptions{Start: p.kind(kindMessage), End: p.kind(kindMessage + 1), Limit: trimAtOnce + 1}
		for item, err := range tx.Scan(l.c.ks, o) {
			if err != nil {
				return err
			}
			r, err := p.row(item.Key)
			if err != nil {
				return err
			}
			h, _, err := parseMessage(item.Value)
			if err != nil {
				return err
			}
			if left = !keep.drops(oldest, t, r, h) || len(gone) == trimAtOnce; left {
				next = r.Seq
				break
			}
			gone = append(gone, slices.Clone(item.Key))
		}
		n, drained = len(gone), t.Closed && !left
		if n == 0 {
			return nil
		}
		if _, err := tx.Delete(l.c.ks, gone...); err != nil {
			return err
		}
		return tx.Set(l.c.ks, p.head(), headValue(next))
	})
	if err != nil {
		return 0, false, err
	}
	return n, drained, nil
}
