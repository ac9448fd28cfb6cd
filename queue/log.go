package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/key"
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

// Close ends what the Log runs. Callers that wait in Next get ErrClosed. A second call gets
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
	return l.c.publishMessages(ctx, list, nil)
}

// Resize gives the log another number of shards. Entries with equal keys keep their order.
func (l *Log) Resize(ctx context.Context, shards int) error { return l.c.changeShards(ctx, shards) }

// Retention specifies what of a log is kept. Zero is no bound.
type Retention struct {
	// Age is how old an entry gets.
	Age time.Duration
	// ShardEntries and ShardBytes bound how many entries, and bytes of keys and bodies,
	// each shard keeps.
	ShardEntries, ShardBytes uint64
}

// shouldTrim reports whether an entry is not to be kept, in a shard with a tail. What is older than
// oldest has passed its age.
func (keep Retention) shouldTrim(oldestMS int64, t delivery.Tail, r delivery.MessageRef, h delivery.Header) bool {
	return h.TimeMS < oldestMS || keep.ShardEntries > 0 && t.NextSeq-r.Seq > keep.ShardEntries || keep.ShardBytes > 0 && t.TotalBytes-h.BytesBefore > keep.ShardBytes
}

// maxTrimEntries is how many entries are removed in a transaction.
const maxTrimEntries = 500

// Trim removes what is not to be kept, from the oldest on, and returns how many entries.
// Call it from time to time.
func (l *Log) Trim(ctx context.Context, keep Retention) (removed int, err error) {
	if keep.Age < 0 {
		return 0, fmt.Errorf("%w: queue: Age is %v: use a positive one, or 0 for no bound", cleave.ErrOptions, keep.Age)
	}
	m, err := l.c.reloadManifest(ctx)
	if err != nil {
		return 0, err
	}
	for _, b := range m.RemainingBuckets() {
		p := newBucketKeys(l.c.name, b)
		for {
			n, drained, err := l.trimBucket(ctx, p, keep)
			removed += n
			if err == nil && drained {
				_, err = l.c.removeDrainedBucket(ctx, p)
			}
			if err != nil {
				return removed, err
			}
			if n < maxTrimEntries {
				break
			}
		}
	}
	return removed, nil
}

// trimBucket removes some entries of a bucket, and reports whether it is closed and empty then.
func (l *Log) trimBucket(ctx context.Context, p bucketKeys, keep Retention) (n int, drained bool, err error) {
	oldest := int64(0)
	if keep.Age > 0 {
		oldest = l.c.opts.Now().Add(-keep.Age).UnixMilli()
	}
	err = l.c.db.Update(ctx, func(tx *cleave.Txn) error {
		n = 0
		t, err := l.c.loadTail(tx, p)
		if err != nil {
			return err
		}
		var gone [][]byte
		left := false
		next := t.NextSeq
		o := cleave.ScanOptions{Start: p.kindPrefix(kindMessage), End: p.kindPrefix(kindMessage + 1), Limit: maxTrimEntries + 1}
		for item, err := range tx.Scan(l.c.ks, o) {
			if err != nil {
				return err
			}
			r, err := p.parseRowKey(item.Key)
			if err != nil {
				return err
			}
			h, _, err := parseMessage(item.Value)
			if err != nil {
				return err
			}
			if left = !keep.shouldTrim(oldest, t, r, h) || len(gone) == maxTrimEntries; left {
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
		return tx.Set(l.c.ks, p.headKey(), encodeHead(next))
	})
	if err != nil {
		return 0, false, err
	}
	return n, drained, nil
}

// Entry is an entry of a log.
type Entry struct {
	Key, Body []byte
	// Time is when it was appended, to the millisecond. In a shard it never falls.
	Time time.Time

	bucket delivery.Bucket
	seq    uint64
}

// compareEntries orders entries by time. Of the same millisecond those of an older epoch come
// first: then entries with equal keys keep their order.
func compareEntries(a, b Entry) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.bucket.Epoch, b.bucket.Epoch), cmp.Compare(a.bucket.Index, b.bucket.Index), cmp.Compare(a.seq, b.seq))
}

// Reader goes through a log, from the oldest entry on or from where Commit left its place.
// It belongs to one goroutine at a time.
type Reader struct {
	l    *Log
	name string
	// nextSeqs are the numbers of the next entries, by bucket; 0 for the first. Under gone it
	// is how many entries the buckets had had that were gone when it looked last. It is
	// empty as long as nothing was read.
	nextSeqs map[string]uint64
}

const goneKey = "gone"

// Reader returns the reader of a name, at the place that it last committed.
func (l *Log) Reader(ctx context.Context, name string) (*Reader, error) {
	if name == "" || len(name) > maxNameBytes {
		return nil, fmt.Errorf("%w: queue: the name %.40q of a reader: use 1 to %d bytes", cleave.ErrOptions, name, maxNameBytes)
	}
	r := &Reader{l: l, name: name, nextSeqs: map[string]uint64{}}
	value, err := l.c.ks.Get(ctx, readerKey(l.c.name, name))
	switch {
	case errors.Is(err, cleave.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(value, &r.nextSeqs); err != nil {
			return nil, fmt.Errorf("%w: the place of reader %s: %w", ErrDamaged, name, err)
		}
	}
	return r, nil
}

// bucketName names a bucket in the place of a reader.
func bucketName(b delivery.Bucket) string { return fmt.Sprintf("%d/%d", b.Epoch, b.Index) }

// Commit stores the place behind what was read, for the next Reader of that name.
func (r *Reader) Commit(ctx context.Context) error {
	return r.l.c.db.Update(ctx, r.CommitTx)
}

// CommitTx stores the place as a part of a transaction, together with what was made of
// the entries: then each counts once.
func (r *Reader) CommitTx(tx *cleave.Txn) error {
	b, err := json.Marshal(r.nextSeqs)
	if err != nil {
		return err
	}
	return tx.Set(r.l.c.ks, readerKey(r.l.c.name, r.name), b)
}

// Read returns the next entries, at most max and 1000, none at the end. They are in the order of
// their times, all shards merged, and those with equal keys in the order in which they were
// appended. An entry that another shard commits a moment later with an older time comes with
// a later Read. If entries were trimmed before they were read, the error is ErrTrimmed.
func (r *Reader) Read(ctx context.Context, max int) (list []Entry, err error) {
	c := r.l.c
	err = c.db.View(ctx, func(tx *cleave.Txn) error {
		list = list[:0]
		value, err := tx.Get(c.ks, manifestKey(c.name))
		if err != nil {
			return err
		}
		m, err := parseManifest(value)
		if err != nil {
			return err
		}
		if err := r.skipTrimmed(tx, m); err != nil {
			return err
		}
		return r.mergeShards(tx, m, clampReceive(max), &list)
	})
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		r.nextSeqs[bucketName(e.bucket)] = e.seq + 1
	}
	return list, nil
}

// Next is Read that waits until there is something.
func (r *Reader) Next(ctx context.Context, max int) ([]Entry, error) {
	c := r.l.c
	for {
		changed := c.notifier.subscribe()
		list, err := r.Read(ctx, max)
		if len(list) > 0 || err != nil {
			return list, err
		}
		if err := c.waitForChange(ctx, changed, c.pollInterval()); err != nil {
			return nil, err
		}
	}
}

// skipTrimmed moves the reader to the oldest entries that are left, and says so if it had not
// read what was there before. Buckets that are gone are forgotten.
func (r *Reader) skipTrimmed(tx *cleave.Txn, m delivery.Manifest) error {
	known, lost := map[string]uint64{goneKey: m.Gone}, int64(0)
	for _, b := range m.RemainingBuckets() {
		from := r.nextSeqs[bucketName(b)]
		head, err := parseHead(tx.Get(r.l.c.ks, newBucketKeys(r.l.c.name, b).headKey()))
		if err != nil {
			return err
		}
		if from < head {
			lost += int64(head - from)
			from = head
		}
		known[bucketName(b)] = from
	}
	// Of the entries whose buckets are gone since, those that were read are not lost.
	lost += int64(m.Gone - r.nextSeqs[goneKey])
	for b, from := range r.nextSeqs {
		if _, left := known[b]; !left && b != goneKey {
			lost -= int64(from)
		}
	}
	begins := len(r.nextSeqs) == 0
	r.nextSeqs = known
	if lost > 0 && !begins {
		return fmt.Errorf("%w: %d", ErrTrimmed, lost)
	}
	return nil
}

// mergeShards reads the next entries of all shards, a page of several of them at a time.
func (r *Reader) mergeShards(tx *cleave.Txn, m delivery.Manifest, most int, list *[]Entry) error {
	var shards []*shardScan
	for _, b := range m.RemainingBuckets() {
		p := newBucketKeys(r.l.c.name, b)
		shards = append(shards, &shardScan{keys: p, scan: cleave.ScanOptions{
			Start: p.seqKey(kindMessage, r.nextSeqs[bucketName(b)]), End: p.kindPrefix(kindMessage + 1),
		}})
	}
	for _, s := range shards {
		s.scan.Limit = min(most, most/len(shards)+extraPageEntries)
	}
	merged, err := key.NewPageMerger(compareEntries, len(shards), func(due []int) ([][]Entry, error) {
		return r.readPages(tx, shards, due)
	})
	if err != nil {
		return err
	}
	defer merged.Close()
	for len(*list) < most {
		e, ok, err := merged.Next()
		if err != nil || !ok {
			return err
		}
		*list = append(*list, e)
	}
	return nil
}

// extraPageEntries is how many more entries than its share of the limit are read of a shard, since
// shards do not divide entries exactly.
const extraPageEntries = 8

// shardScan is where a reader is in a shard.
type shardScan struct {
	keys  bucketKeys
	scan  cleave.ScanOptions
	atEnd bool
}

// readPages reads the next entries of the shards that are due, all at the same time.
func (r *Reader) readPages(tx *cleave.Txn, shards []*shardScan, due []int) ([][]Entry, error) {
	var scans []cleave.ScanOptions
	for _, i := range due {
		if !shards[i].atEnd {
			scans = append(scans, shards[i].scan)
		}
	}
	found, err := tx.ScanPages(r.l.c.ks, scans...)
	if err != nil {
		return nil, err
	}
	pages := make([][]Entry, len(due))
	for n, i := range due {
		s := shards[i]
		if s.atEnd {
			continue
		}
		for _, item := range found[0].Items {
			e, err := decodeEntry(s.keys, item)
			if err != nil {
				return nil, err
			}
			pages[n] = append(pages[n], e)
		}
		s.scan.After, s.atEnd = found[0].Next, found[0].Next == nil
		found = found[1:]
	}
	return pages, nil
}

func decodeEntry(p bucketKeys, item cleave.Item) (Entry, error) {
	row, err1 := p.parseRowKey(item.Key)
	h, body, err2 := parseMessage(item.Value)
	if err := errors.Join(err1, err2); err != nil {
		return Entry{}, err
	}
	return Entry{Key: keyBytes(row.Key), Body: body, Time: time.UnixMilli(h.TimeMS), bucket: p.Bucket, seq: row.Seq}, nil
}
