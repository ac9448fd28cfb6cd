package cleave

import (
	"context"
	"iter"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/partition"
)

// ScanOptions specify which keys a scan visits. The zero value visits all.
type ScanOptions struct {
	// Start and End bound the keys, End not included; nil for no bound. If Start
	// comes behind End there are none between them, and that is no error. Prefix
	// is short for the keys that begin with it, and excludes both. Only a
	// keyspace of kind Range has an order of keys to bound: one of kind Hash is
	// visited whole, in the order of slots.
	Start, End, Prefix []byte
	// Reverse visits the last key first.
	Reverse bool
	// Limit is the most keys of a page. Default 1000. Scan has no limit unless
	// one is set.
	Limit int
	// After continues behind a page: its Next.
	After []byte
	// KeysOnly leaves values out.
	KeysOnly bool
}

const defaultPageItems = 1000

// Page is a part of a scan.
type Page struct {
	// Items are keys with their values. That of a hash is nil: its Value is its
	// fields, see HGetAll.
	Items []Item
	// Next is where the next page begins, for ScanOptions.After; nil at the
	// end. It stays good whatever happens to the keys.
	Next []byte
}

// ScanPage returns the next keys in order. A page is of one moment; two pages are
// of two. Use [Keyspace.Scan] or a View for more of one moment.
//
// Items are the caller's to keep and to change. The short keys and values of a
// scan share memory in blocks of 4 KiB: a key or value of up to 1 KiB that is
// kept keeps its block, a longer one itself alone.
func (k *Keyspace) ScanPage(ctx context.Context, o ScanOptions) (Page, error) {
	if o.Limit == 0 {
		o.Limit = defaultPageItems
	}
	var page Page
	for item, err := range k.scanItems(ctx, o, o.Limit+1) {
		if err != nil {
			return Page{}, err
		}
		if len(page.Items) == o.Limit {
			page.Next = k.keyspace.AppendPosition(nil, page.Items[o.Limit-1].Key)
			break
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// After returns where a scan goes on behind a key, whether that is there or not: for
// ScanOptions.After. Compared as bytes, these are in the order in which keys are visited.
func (k *Keyspace) After(key []byte) []byte { return k.keyspace.AppendPosition(nil, key) }

// Scan visits keys in order, all as of one moment: that of the first step. It keeps
// that moment's data as long as it runs, and that is in memory if it was written
// just before: with many loops open, begun at different times while others write,
// another ends with ErrSnapshots. 16 may be too many if much was written before
// each, 60 if little. An error ends it. Items are as those of [Keyspace.ScanPage].
func (k *Keyspace) Scan(ctx context.Context, o ScanOptions) iter.Seq2[Item, error] {
	return k.scanItems(ctx, o, o.Limit)
}

// toScanSpan returns the positions to scan.
func (k *Keyspace) toScanSpan(o *ScanOptions) (partition.Span, error) {
	span := engine.KeyspaceSpan(k.keyspace)
	if err := k.keyspace.CheckOpen(); err != nil {
		return span, toPublicError(err)
	}
	bounded := o.Start != nil || o.End != nil || o.Prefix != nil
	switch {
	case o.Limit < 0:
		return span, optionErrorf("Limit is %d: use a positive one, or 0 for the default", o.Limit)
	case bounded && k.keyspace.Kind != partition.Range:
		return span, optionErrorf("keyspace %s is of kind hash and has no order of keys: leave out Start, End and Prefix, or use one of kind range", k.Name())
	case o.Prefix != nil && (o.Start != nil || o.End != nil):
		return span, optionErrorf("Prefix excludes Start and End: leave out either")
	case o.Prefix != nil:
		span = k.keyspace.PrefixSpan(o.Prefix)
	}
	if o.Start != nil {
		span.Start = k.keyspace.AppendPosition(nil, o.Start)
	}
	if o.End != nil {
		span.End = k.keyspace.AppendPosition(nil, o.End)
	}
	if o.After == nil {
		return span, nil
	}
	key, element, err := k.keyspace.Split(nil, o.After)
	if err != nil || len(element) > 0 {
		return span, optionErrorf("After is not from a page of this keyspace: use its Next")
	}
	return engine.SpanBehind(k.keyspace, span, key, o.Reverse), nil
}

// scanItems visits live keys, at most limit if it is positive.
func (k *Keyspace) scanItems(ctx context.Context, o ScanOptions, limit int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		span, err := k.toScanSpan(&o)
		if err != nil {
			yield(Item{}, err)
			return
		}
		yieldItems(k.db.engine.Scan(ctx, k.keyspace, o.toEngine(span, limit)), yield)
	}
}

// toEngine returns the options of a scan of a span.
func (o *ScanOptions) toEngine(span partition.Span, limit int) engine.ScanOptions {
	return engine.ScanOptions{Span: span, Reverse: o.Reverse, Limit: limit, KeysOnly: o.KeysOnly}
}

// yieldItems hands over the items of a scan.
func yieldItems(items iter.Seq2[engine.ScanItem, error], yield func(Item, error) bool) {
	for item, err := range items {
		if !yield(toItem(item), toPublicError(err)) {
			return
		}
	}
}

func toItem(item engine.ScanItem) Item {
	return Item{Key: item.Key, Value: item.Value, Version: item.Version, Expires: toExpiryTime(item.ExpiryMS)}
}

// Scan visits keys in order, those that the transaction wrote before the loop
// included; those that it writes in the loop may be visited or not. The version
// of what it wrote is 0: it is not known before the commit.
//
// What was visited counts as read: a key that comes or goes there before the
// commit is a conflict. With Limit, or a loop that ends early, that is up to the
// last key visited.
func (tx *Txn) Scan(k *Keyspace, o ScanOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		span, err := k.toScanSpan(&o)
		if err == nil {
			err = tx.checkUsable(k)
		}
		if err != nil {
			yield(Item{}, err)
			return
		}
		yieldItems(tx.engine().Scan(k.keyspace, o.toEngine(span, o.Limit)), yield)
	}
}

// ScanPages reads the next page of each of several scans, as [Keyspace.ScanPage] does, and returns the pages in
// the order of the scans. In a View they are read at the same time, 128 at most, so that those
// that wait for a disk wait together; in an Update one after another, and what was visited counts as read. The
// first error ends it.
func (tx *Txn) ScanPages(k *Keyspace, scans ...ScanOptions) ([]Page, error) {
	if err := tx.checkUsable(k); err != nil {
		return nil, err
	}
	list := make([]engine.ScanOptions, len(scans))
	limits := make([]int, len(scans))
	for i, o := range scans {
		span, err := k.toScanSpan(&o)
		if err != nil {
			return nil, err
		}
		if limits[i] = o.Limit; o.Limit == 0 {
			limits[i] = defaultPageItems
		}
		list[i] = o.toEngine(span, limits[i]+1)
	}
	found, err := tx.engine().ScanPages(k.keyspace, list)
	if err != nil {
		return nil, toPublicError(err)
	}
	pages := make([]Page, len(found))
	for i, items := range found {
		page := &pages[i]
		if len(items) > limits[i] {
			items = items[:limits[i]]
			page.Next = k.keyspace.AppendPosition(nil, items[len(items)-1].Key)
		}
		page.Items = make([]Item, len(items))
		for n, item := range items {
			page.Items[n] = toItem(item)
		}
	}
	return pages, nil
}
