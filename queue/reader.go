package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/key"
)

// Entry is an entry of a log.
type Entry struct {
	Key, Body []byte
	// Time is when it was appended, to the millisecond. In a shard it never falls.
	Time time.Time

	bucket lanes.Bucket
	seq    uint64
}

// compare orders entries by time. Of the same millisecond those of an older epoch come
// first: then entries with equal keys keep their order.
func compare(a, b Entry) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.bucket.Epoch, b.bucket.Epoch), cmp.Compare(a.bucket.Index, b.bucket.Index), cmp.Compare(a.seq, b.seq))
}

// Reader goes through a log, from the oldest entry on or from where Commit left its place.
// It belongs to one goroutine at a time.
type Reader struct {
	l    *Log
	name string
	// next are the numbers of the next entries, by bucket; 0 for the first. Under gone it
	// is how many entries the buckets had had that were gone when it looked last. It is
	// empty as long as nothing was read.
	next map[string]uint64
}

const gone = "gone"

// Reader returns the reader of a name, at the place that it last committed.
func (l *Log) Reader(ctx context.Context, name string) (*Reader, error) {
	if name == "" || len(name) > maxName {
		return nil, fmt.Errorf("%w: queue: the name %.40q of a reader: use 1 to %d bytes", cleave.ErrOptions, name, maxName)
	}
	r := &Reader{l: l, name: name, next: map[string]uint64{}}
	value, err := l.c.ks.Get(ctx, readerKey(l.c.name, name))
	switch {
	case errors.Is(err, cleave.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(value, &r.next); err != nil {
			return nil, fmt.Errorf("%w: the place of reader %s: %w", ErrDamaged, name, err)
		}
	}
	return r, nil
}

// at names a bucket in the place of a reader.
func at(b lanes.Bucket) string { return fmt.Sprintf("%d/%d", b.Epoch, b.Index) }

// Commit stores the place behind what was read, for the next Reader of that name.
func (r *Reader) Commit(ctx context.Context) error {
	return r.l.c.db.Update(ctx, r.CommitTx)
}

// CommitTx stores the place as a part of a transaction, together with what was made of
// the entries: then each counts once.
func (r *Reader) CommitTx(tx *cleave.Txn) error {
	b, err := json.Marshal(r.next)
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
		if err := r.behind(tx, m); err != nil {
			return err
		}
		return r.merge(tx, m, clampMax(max), &list)
	})
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		r.next[at(e.bucket)] = e.seq + 1
	}
	return list, nil
}

// Next is Read that waits until there is something.
func (r *Reader) Next(ctx context.Context, max int) ([]Entry, error) {
	c := r.l.c
	for {
		changed := c.wake.next()
		list, err := r.Read(ctx, max)
		if len(list) > 0 || err != nil {
			return list, err
		}
		if err := c.pause(ctx, changed, c.jitter()); err != nil {
			return nil, err
		}
	}
}

// behind moves the reader to the oldest entries that are left, and says so if it had not
// read what was there before. Buckets that are gone are forgotten.
func (r *Reader) behind(tx *cleave.Txn, m lanes.Manifest) error {
	known, lost := map[string]uint64{gone: m.Gone}, int64(0)
	for _, b := range m.Left() {
		from := r.next[at(b)]
		head, err := parseHead(tx.Get(r.l.c.ks, placeOf(r.l.c.name, b).head()))
		if err != nil {
			return err
		}
		if from < head {
			lost += int64(head - from)
			from = head
		}
		known[at(b)] = from
	}
	// Of the entries whose buckets are gone since, those that were read are not lost.
	lost += int64(m.Gone - r.next[gone])
	for b, from := range r.next {
		if _, left := known[b]; !left && b != gone {
			lost -= int64(from)
		}
	}
	begins := len(r.next) == 0
	r.next = known
	if lost > 0 && !begins && !plant.Bug("queue-trimmed-untold") {
		return fmt.Errorf("%w: %d", ErrTrimmed, lost)
	}
	return nil
}

// merge reads the next entries of all shards.
func (r *Reader) merge(tx *cleave.Txn, m lanes.Manifest, most int, list *[]Entry) error {
	var sources []key.Cursor[Entry]
	for _, b := range m.Left() {
		sources = append(sources, key.SeqCursor(r.entries(tx, placeOf(r.l.c.name, b), most)))
	}
	merged, err := key.Merge(compare, sources...)
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

// entries visits those of a bucket that come next.
func (r *Reader) entries(tx *cleave.Txn, p place, most int) iter.Seq2[Entry, error] {
	o := cleave.ScanOptions{Start: p.numbered(kindMessage, r.next[at(p.Bucket)]), End: p.kind(kindMessage + 1), Limit: most}
	return func(yield func(Entry, error) bool) {
		for item, err := range tx.Scan(r.l.c.ks, o) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			e, err := entry(p, item)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func entry(p place, item cleave.Item) (Entry, error) {
	row, err1 := p.row(item.Key)
	h, body, err2 := parseMessage(item.Value)
	if err := errors.Join(err1, err2); err != nil {
		return Entry{}, err
	}
	return Entry{Key: keyOr(row.Key), Body: body, Time: time.UnixMilli(h.TimeMS), bucket: p.Bucket, seq: row.Seq}, nil
}
