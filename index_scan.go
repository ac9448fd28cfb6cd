package cleave

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/key"
)

// IndexScanOptions specify which entries a scan visits. The zero value visits all.
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
func (o *IndexScanOptions) toScanOptions(x *node.IndexInfo) (s ScanOptions, err error) {
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
	var failed error
	err = ix.visitEntries(ctx, o, func(item IndexItem) bool {
		if len(page.Items) == limit {
			page.Next = ix.index.Entries().AppendPosition(nil, last)
			return false
		}
		page.Items = append(page.Items, item)
		last, failed = index.AppendKey(last[:0], item.Entry, item.Key)
		return failed == nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return IndexPage{}, err
	}
	return page, nil
}

// Scan visits entries in order, all as of one moment, see [Keyspace.Scan].
func (ix *Index) Scan(ctx context.Context, o IndexScanOptions) iter.Seq2[IndexItem, error] {
	return func(yield func(IndexItem, error) bool) {
		if err := ix.visitEntries(ctx, o, func(item IndexItem) bool { return yield(item, nil) }); err != nil {
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

// visitEntries visits entries in order until visit returns false.
func (ix *Index) visitEntries(ctx context.Context, o IndexScanOptions, visit func(IndexItem) bool) error {
	x, err := ix.index.Readable(o.Building)
	if err == nil && o.Fresh {
		err = ix.index.WaitCaughtUp(ctx)
	}
	if err != nil {
		return toPublicError(err)
	}
	s, err := ix.toEngineScan(x, &o)
	if err != nil {
		return err
	}
	return toItems(x, visit, func(visit func(engine.IndexEntry) bool) error { return ix.index.Scan(ctx, x, s, visit) })
}

// toEngineScan returns the bounds as those of the keyspace of entries.
func (ix *Index) toEngineScan(x *node.IndexInfo, o *IndexScanOptions) (s engine.IndexScan, err error) {
	in, err := o.toScanOptions(x)
	if err != nil {
		return s, err
	}
	span, err := ix.Entries().toScanSpan(&in)
	if err != nil {
		return s, toPublicError(ix.index.AsDroppedError(err))
	}
	return engine.IndexScan{ScanOptions: in.toEngine(span, in.Limit), Rows: o.Rows}, nil
}

// toItems hands over the entries that scan visits as items.
func toItems(x *node.IndexInfo, visit func(IndexItem) bool, scan func(func(engine.IndexEntry) bool) error) error {
	var failed error
	err := scan(func(e engine.IndexEntry) bool {
		item, err := toIndexItem(x, &e)
		if failed = err; err != nil {
			return false
		}
		return visit(item)
	})
	return toPublicError(cmp.Or(err, failed))
}

// toIndexItem takes an entry apart.
func toIndexItem(x *node.IndexInfo, entry *engine.IndexEntry) (IndexItem, error) {
	item := IndexItem{Entry: entry.Tuple, Key: entry.RowKey}
	if entry.Row != nil {
		item.Row = toIndexRow(entry.Row)
	}
	switch {
	case x.Function != "":
		item.Value = entry.Value
	case len(x.Stored) > 0:
		fields, err := index.DecodeStored(x.Stored, entry.Value)
		if err != nil {
			return IndexItem{}, err
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
			yield(IndexItem{}, err)
		}
	}
}

func (tx *Txn) visitIndex(ix *Index, o IndexScanOptions, visit func(IndexItem) bool) error {
	switch {
	case tx.engine().Err() != nil:
		return toPublicError(tx.engine().Err())
	case ix.db.engine != tx.engine().DB():
		return optionErrorf("index %s is of another DB than the transaction", ix.Name())
	case o.Fresh:
		return optionErrorf("a transaction cannot wait for an index: use WaitFresh before it, and leave Fresh out")
	}
	x, err := ix.index.Readable(o.Building)
	if err != nil {
		return toPublicError(err)
	}
	s, err := ix.toEngineScan(x, &o)
	if err != nil {
		return err
	}
	return toItems(x, visit, func(visit func(engine.IndexEntry) bool) error { return tx.engine().ScanIndex(ix.index, x, s, visit) })
}

// toIndexRow is a row as programs see it.
func toIndexRow(r *index.Row) *IndexRow {
	row := &IndexRow{Key: r.Key, Value: r.Value, Expires: toExpiryTime(r.ExpiryMS)}
	for _, field := range r.Fields {
		row.Fields = append(row.Fields, Field(field))
	}
	return row
}
