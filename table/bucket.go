package table

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Bucket is a time bucket that has rows: of one entity, if the layout has columns in front of the bucket.
type Bucket struct {
	// Span is the time that it holds.
	Span key.Span
	// Where fixes the bucket and the columns in front of it, for [Query.Where].
	Where key.Columns
}

// Buckets visits the time buckets that have rows, in the order of keys, all of one moment. A bucket is
// among them from the transaction on that stores its first row to the one that deletes its last. That
// is not written down anywhere: the keys say it, so it is never wrong and costs writers nothing. It
// takes one read for each bucket, however many rows are in it or missing between it and the next.
//
// Where fixes leading columns, and From and To bound the first that is left open: the time, if that is the bucket's.
// Reverse and Limit are as in other reads; After is not for it. Of a layout with several buckets they
// are those of the first.
func (t *Table) Buckets(ctx context.Context, q Query) iter.Seq2[Bucket, error] {
	return readInView(ctx, t, func(x Txn) iter.Seq2[Bucket, error] { return x.Buckets(q) })
}

// Buckets is [Table.Buckets].
func (x Txn) Buckets(q Query) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		left := q.Limit
		at, err := x.t.bucketField(q)
		if err == nil {
			err = x.visitBuckets(q, at, func(b Bucket) (bucketStep, error) {
				left-- // without a limit it is below 0
				if !yield(b, nil) || left == 0 {
					return stopVisit, nil
				}
				return nextBucket, nil
			})
		}
		if err != nil {
			yield(Bucket{}, err)
		}
	}
}

// bucketStep is where a visit of buckets goes on.
type bucketStep uint8

const (
	stopVisit  bucketStep = iota
	nextBucket            // behind the bucket
	nextEntity            // behind all that have the columns in front of the bucket
)

// bucketField returns the index of the first bucket of the layout, for a query of buckets.
func (t *Table) bucketField(q Query) (int, error) {
	at := slices.IndexFunc(t.fields, func(f key.Field) bool { return f.Bucket != 0 })
	switch {
	case at < 0:
		return 0, t.withTableName(fmt.Errorf("%w: the layout has no time bucket", ErrQuery))
	case q.After != "" || q.Limit < 0:
		return 0, t.withTableName(fmt.Errorf("%w: After is not for buckets, and Limit is %d: bound them by From or To", ErrQuery, q.Limit))
	}
	for _, f := range t.fields[:at] {
		if f.Hash && !slices.ContainsFunc(t.fields[:at], func(c key.Field) bool { return c.IsColumn() && c.Column == f.Column }) {
			return 0, t.withTableName(fmt.Errorf("%w: %s stands behind the bucket, and its hash in front", ErrQuery, f.Column))
		}
	}
	return at, nil
}

// visitBuckets finds one bucket after the other by its first row, or in reverse by its last. The bucket is that of
// a field.
func (x Txn) visitBuckets(q Query, at int, visit func(Bucket) (bucketStep, error)) error {
	t := x.t
	q.KeysOnly, q.Limit = true, 1
	seek, err := t.newQueryPlan(q)
	if err != nil {
		return err
	}
	for {
		row, ok, err := firstRow(seek.scanRows(x.readPages))
		if err != nil || !ok {
			return err
		}
		b, err := t.bucketOf(row, at, q.Where)
		if err != nil {
			return err
		}
		step, err := visit(b)
		end := at + 1
		switch {
		case err != nil || step == stopVisit:
			return err
		case step == nextEntity:
			end = at
		}
		prefix := t.unsaltedPrefix(row.Key, end)
		if len(prefix) == 0 { // there is no other entity
			return nil
		}
		if q.Reverse {
			seek.hi = prefix
		} else {
			seek.lo = append(prefix, endByte)
		}
	}
}

// bucketOf returns the bucket of a row, of the salt that a query has named if it has.
func (t *Table) bucketOf(row Row, at int, where key.Columns) (Bucket, error) {
	f := &t.fields[at]
	start, err := Column[time.Time](row, f.Name())
	if err != nil {
		return Bucket{}, err
	}
	b := Bucket{Where: key.Columns{}}
	if b.Span, err = f.Bucket.Of(start); err != nil {
		return Bucket{}, err
	}
	for i := range t.fields[:at] {
		g := &t.fields[i]
		if g.IsColumn() {
			b.Where[g.Column], _ = row.Columns.Value(g.Column)
		}
		if salt, ok := where[g.Name()]; ok && g.Salts > 0 {
			b.Where[g.Name()] = salt
		}
	}
	if _, known := b.Where[f.Column]; !known { // else it follows from its column
		b.Where[f.Name()] = start
	}
	return b, nil
}

// dropPageRows is how many rows a transaction of DropBefore deletes at most: a tenth of what one may
// have, so that others hardly meet it.
const dropPageRows = 1000

// DropBefore deletes the rows of all time buckets that end at a time or before it, and returns how many there were.
// Where fixes leading columns, for those of one entity. It reads no other buckets, and deletes stretch after
// stretch, each in transactions of a thousand rows: rows that were there when it began are gone when it
// returns. If it ends early, calling it again does the rest.
func (t *Table) DropBefore(ctx context.Context, before time.Time, where key.Columns) (rows int, err error) {
	q := Query{Where: where}
	at, err := t.bucketField(q)
	if err != nil {
		return 0, err
	}
	var old []Bucket
	err = t.db.View(ctx, func(tx *cleave.Txn) error {
		return t.In(tx).visitBuckets(q, at, func(b Bucket) (bucketStep, error) {
			if b.Span.End().After(before) {
				return nextEntity, nil
			}
			old = append(old, b)
			return nextBucket, nil
		})
	})
	if err != nil {
		return 0, err
	}
	for _, b := range old {
		n, err := t.dropBucket(ctx, b)
		if rows += n; err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// dropBucket deletes the rows of a bucket.
func (t *Table) dropBucket(ctx context.Context, b Bucket) (rows int, err error) {
	for {
		page, err := t.ScanPage(ctx, Query{Where: b.Where, KeysOnly: true, Limit: dropPageRows})
		if err != nil || len(page.Rows) == 0 {
			return rows, err
		}
		keys := make([][]byte, len(page.Rows))
		for i, r := range page.Rows {
			keys[i] = r.Key
		}
		n, err := t.ks.Delete(ctx, keys...)
		if rows += n; err != nil {
			return rows, err
		}
		if page.Next == "" {
			return rows, nil
		}
	}
}

// lastByBucket reads the buckets that have rows, the newest first, for an entity whose columns stand
// behind the bucket.
func (x Txn) lastByBucket(l Last, open int) (Newest, error) {
	f := &x.t.fields[open]
	reads := 0
	gap := emptyBucketCounter{bucket: f.Bucket, since: l.Since, maxEmpty: l.MaxEmpty}
	rows := func(yield func(Row, error) bool) {
		buckets := Query{Where: x.t.whereBefore(l.Where, open), From: timeBound(l.Since), To: timeBound(l.Before), Reverse: true}
		err := x.visitBuckets(buckets, open, func(b Bucket) (bucketStep, error) {
			if gap.isOver(b.Span) {
				return stopVisit, nil
			}
			reads++
			q := Query{Where: maps.Clone(l.Where), Reverse: true}
			q.Where[f.Name()] = b.Span.Start()
			if x.t.columnLayouts[f.Column] != nil {
				q.From, q.To = timeBound(l.Since), timeBound(l.Before)
			}
			for row, err := range x.Scan(q) {
				if err != nil || !yield(row, nil) {
					return stopVisit, err
				}
			}
			return nextBucket, nil
		})
		if err != nil {
			yield(Row{}, err)
		}
	}
	found, err := collectNewest(rows, l, &gap, f.Column)
	found.Reads = reads
	return found, err
}

// whereBefore returns those of the columns that fix fields before one. A salt that is derived from a column
// behind it stays open: to look for rows of that column alone would read those of others.
func (t *Table) whereBefore(where key.Columns, open int) key.Columns {
	before := key.Columns{}
	for i := range t.fields[:open] {
		f := &t.fields[i]
		if v, ok := where[f.Column]; ok && f.Salts == 0 {
			before[f.Column] = v
		}
		if v, ok := where[f.Name()]; ok {
			before[f.Name()] = v
		}
	}
	return before
}
