package cleave

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/key"
)

// IndexScanOptions say which entries a scan visits. The zero value visits all.
//
// The values of Prefix, From and To are of the types of the columns: a string for one
// without a type, a [time.Time] for a time and for a bucket of one, a number for a salt.
// Others are refused. Those of an index by a function are what that makes.
type IndexScanOptions struct {
	// Prefix is short for the entries that begin with it.
	Prefix key.Tuple
	// From and To bound the entries, To not included; nil for no bound. They exclude
	// Prefix. Of a bucket in which a bound ends, all entries are visited.
	From, To key.Tuple
	// Reverse visits the last entry first.
	Reverse bool
	// Limit is the most entries of a page. Default 1000. Scan and ScanIndex have no
	// limit unless one is set.
	Limit int
	// After continues behind a page: its Next.
	After []byte
	// Rows reads the rows too, in the same moment.
	Rows bool
	// Building reads what there is of an index that is being built. Without it the
	// error is ErrIndexBuilding.
	Building bool
	// Fresh waits until an asynchronous index has all that was committed before the
	// call, see [Index.WaitFresh]. Not for [Txn.ScanIndex].
	Fresh bool
}

// toScanOptions returns the bounds as those of the keyspace of entries.
func (o *IndexScanOptions) toScanOptions(x *node.Index) (s ScanOptions, err error) {
	s = ScanOptions{Reverse: o.Reverse, Limit: o.Limit, After: o.After}
	if o.Prefix != nil && (o.From != nil || o.To != nil) {
		return s, optionErrorf("Prefix excludes From and To: leave out either")
	}
	prefix, err1 := index.ConvertValues(x.Extract, o.Prefix, false)
	from, err2 := index.ConvertValues(x.Extract, o.From, false)
	to, err3 := index.ConvertValues(x.Extract, o.To, true)
	if err = errors.Join(err1, err2, err3); err == nil {
		s.Start, s.End, err = index.PrefixSpan(prefix)
	}
	if err == nil && o.From != nil {
		s.Start, err = index.LowerBound(from)
	}
	if err == nil && o.To != nil {
		s.End, err = index.LowerBound(to)
	}
	if err != nil {
		return s, optionErrorf("%v", err)
	}
	return s, nil
}

// IndexItem is an entry with what is kept with it.
type IndexItem struct {
	// Entry is what the row was found by, and Key the key of the row. A time in it is a
	// number of nanoseconds since 1970, and a bucket its own number: see [key.Layout].
	Entry key.Tuple
	Key   []byte
	// Value is what a function has stored, and Fields are the stored fields that the
	// row had.
	Value  []byte
	Fields []Field
	// Row is the row, if it was asked for. With an asynchronous index it may be nil, or
	// not be what the entry says: it is newer.
	Row *IndexRow
}

// IndexPage is a part of a scan.
type IndexPage struct {
	Items []IndexItem
	// Next is where the next page begins, for IndexScanOptions.After; nil at the end.
	Next []byte
}

// lookupReadable returns the index if it may be read.
func (ix *Index) lookupReadable(building bool) (*node.Index, error) {
	x, err := ix.lookupCurrent()
	if err == nil && !building && !x.IsReady() {
		err = fmt.Errorf("%w: %q of keyspace %q: use Wait", ErrIndexBuilding, ix.name, ix.rows.Name())
		if s, _ := ix.db.indexWorkers.find(ix).loadStatus(); s.err != nil {
			err = fmt.Errorf("%w, but it stands still: %v", err, s.err)
		}
	}
	return x, err
}

// ScanPage returns the next entries in order. A page is of one moment; two pages are of two.
func (ix *Index) ScanPage(ctx context.Context, o IndexScanOptions) (page IndexPage, err error) {
	if o.Limit == 0 {
		o.Limit = defaultPageItems
	}
	limit := o.Limit
	if o.Limit > 0 {
		o.Limit++ // one more reports whether there is more
	}
	var last []byte
	collect := func(item IndexItem, err error) error {
		switch {
		case err != nil:
			return err
		case len(page.Items) == limit:
			page.Next = ix.entries.keyspace.AppendPosition(nil, last)
			return errStop
		}
		page.Items = append(page.Items, item)
		last, err = index.AppendKey(last[:0], item.Entry, item.Key)
		return err
	}
	if err = ix.visitEntries(ctx, o, collect); err != nil {
		return IndexPage{}, err
	}
	return page, nil
}

// Scan visits entries in order, all as of one moment, see [Keyspace.Scan].
func (ix *Index) Scan(ctx context.Context, o IndexScanOptions) iter.Seq2[IndexItem, error] {
	return func(yield func(IndexItem, error) bool) {
		err := ix.visitEntries(ctx, o, func(item IndexItem, err error) error {
			if err == nil && !yield(item, nil) {
				err = errStop
			}
			return err
		})
		if err != nil {
			yield(IndexItem{}, err)
		}
	}
}

// Get returns the first entry that begins with some values, or ErrNotFound. That of a
// unique index with all its values is the only one. Values are as in
// [IndexScanOptions].
func (ix *Index) Get(ctx context.Context, values ...any) (IndexItem, error) {
	page, err := ix.ScanPage(ctx, IndexScanOptions{Prefix: values, Limit: 1})
	switch {
	case err != nil:
		return IndexItem{}, err
	case len(page.Items) == 0:
		return IndexItem{}, ErrNotFound
	}
	return page.Items[0], nil
}

// visitEntries visits entries in one View, or without one if nothing but the entries counts.
func (ix *Index) visitEntries(ctx context.Context, o IndexScanOptions, f func(IndexItem, error) error) error {
	x, err := ix.lookupReadable(o.Building)
	if err != nil {
		return toPublicError(err)
	}
	if o.Fresh {
		if err := ix.waitCaughtUp(ctx); err != nil {
			return err
		}
		o.Fresh = false // a transaction could not wait
	}
	if o.Limit > 0 && o.Limit <= smallScanItems && !o.Rows {
		done, err := ix.tryVisitWithoutSnapshot(ctx, x, o, f)
		if done || err != nil {
			return err
		}
	}
	return ix.db.View(ctx, func(tx *Txn) error {
		for item, err := range tx.ScanIndex(ix, o) {
			if err := f(item, err); errors.Is(err, errStop) {
				break
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

// tryVisitWithoutSnapshot visits few entries without a View. It gives up if one of them may be of no row.
func (ix *Index) tryVisitWithoutSnapshot(ctx context.Context, x *node.Index, o IndexScanOptions, f func(IndexItem, error) error) (done bool, err error) {
	s, err := o.toScanOptions(x)
	if err != nil {
		return false, err
	}
	var items []Item
	for item, err := range ix.entries.scanItems(ctx, s, s.Limit, scanCommitted) {
		if err != nil {
			return false, ix.asDroppedError(err)
		}
		if !item.Expires.IsZero() && x.Mode == index.Transactional {
			return false, nil
		}
		items = append(items, item)
	}
	for _, entry := range items {
		item, err := toIndexItem(x, entry)
		if err := f(item, err); errors.Is(err, errStop) {
			break
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// asDroppedError says that an index was dropped, where its keyspace is missing.
func (ix *Index) asDroppedError(err error) error {
	if errors.Is(err, ErrNoKeyspace) {
		if _, gone := ix.lookupCurrent(); gone != nil {
			return toPublicError(gone)
		}
	}
	return err
}

// toIndexItem takes an entry apart.
func toIndexItem(x *node.Index, entry Item) (IndexItem, error) {
	t, row, err := index.SplitKey(entry.Key)
	if err != nil {
		return IndexItem{}, toPublicError(err)
	}
	item := IndexItem{Entry: t, Key: row}
	switch {
	case x.Function != "":
		item.Value = entry.Value
	case len(x.Stored) > 0:
		fields, err := index.DecodeStored(x.Stored, entry.Value)
		if err != nil {
			return IndexItem{}, toPublicError(err)
		}
		for _, f := range fields {
			item.Fields = append(item.Fields, Field(f))
		}
	}
	return item, nil
}

// ScanIndex visits entries of an index in order. Those of a transactional one are
// exactly those of the rows as the transaction sees them, its own writes before the
// loop included. What was visited counts as read: an entry that comes or goes there
// before the commit is a conflict.
//
// Those of an asynchronous one are as of the same state too, which may be behind the
// rows. Fresh is refused, in Update and in View: the state is taken by then, so wait
// before the transaction.
func (tx *Txn) ScanIndex(ix *Index, o IndexScanOptions) iter.Seq2[IndexItem, error] {
	return func(yield func(IndexItem, error) bool) {
		if err := tx.visitIndex(ix, o, func(item IndexItem) bool { return yield(item, nil) }); err != nil {
			yield(IndexItem{}, ix.asDroppedError(err))
		}
	}
}

func (tx *Txn) visitIndex(ix *Index, o IndexScanOptions, visit func(IndexItem) bool) error {
	switch {
	case tx.err != nil:
		return tx.err
	case ix.db != tx.db:
		return optionErrorf("index %s is of another DB than the transaction", ix.name)
	case o.Fresh:
		return optionErrorf("a transaction cannot wait for an index: use WaitFresh before it, and leave Fresh out")
	}
	x, err := ix.lookupReadable(o.Building)
	if err != nil {
		return toPublicError(err)
	}
	s, err := o.toScanOptions(x)
	if err != nil {
		return err
	}
	if err := tx.maintainIndexes(); err != nil {
		return err
	}
	for left := o.Limit; ; {
		s.Limit = left
		seen, counted, more := 0, 0, true
		for entry, err := range tx.Scan(ix.entries, s) {
			if err != nil {
				return err
			}
			seen++
			s.After = ix.entries.keyspace.AppendPosition(nil, entry.Key)
			item, counts, err := tx.makeIndexItem(ix, x, entry, o.Rows)
			if err != nil {
				return err
			}
			if counts {
				counted++
				if more = visit(item); !more {
					break
				}
			}
		}
		// Entries that did not count have to be made up for.
		if left -= counted; !more || o.Limit == 0 || left == 0 || seen < s.Limit {
			return nil
		}
	}
}

// makeIndexItem takes an entry apart, if it is of the row that there is.
func (tx *Txn) makeIndexItem(ix *Index, x *node.Index, entry Item, rows bool) (item IndexItem, counts bool, err error) {
	if item, err = toIndexItem(x, entry); err != nil {
		return item, false, err
	}
	if counts, err = tx.isLiveEntry(x, ix.rows, entry, item.Key); err != nil || !counts || !rows {
		return item, counts, err
	}
	p, err := tx.locateKey(ix.rows, item.Key, false)
	if err != nil {
		return item, false, err
	}
	row, _, err := tx.loadRow(keyRef{ix.rows, p}, item.Key, nil, true)
	if err == nil && row != nil {
		item.Row = toIndexRow(row)
	}
	return item, err == nil, err
}

// toIndexRow is a row as programs see it.
func toIndexRow(r *index.Row) *IndexRow {
	row := &IndexRow{Key: r.Key, Value: r.Value, Expires: toExpiryTime(r.ExpiryMS)}
	for _, field := range r.Fields {
		row.Fields = append(row.Fields, Field(field))
	}
	return row
}
