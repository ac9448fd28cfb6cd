package cleave

import (
	"bytes"
	"context"
	"iter"

	"github.com/cleavekv/cleave/partition"
)

// ScanOptions say which keys a scan visits. The zero value visits all.
type ScanOptions struct {
	// Start and End bound the keys, End not included; nil for no bound. If Start
	// comes behind End there are none between them, and that is no error. Prefix
	// is short for the keys that begin with it, and excludes both. Only a
	// keyspace of kind Range has an order of keys to bound: one of kind Hash is
	// visited whole, in the order of slots.
	Start, End, Prefix []byte
	// Reverse visits the last key first.
	Reverse bool
	// Limit is the most keys of a page. Default 1000. All has no limit unless
	// one is set.
	Limit int
	// After continues behind a page: its Next.
	After []byte
	// KeysOnly leaves values out.
	KeysOnly bool
}

const defaultPage = 1000

// Page is a part of a scan.
type Page struct {
	// Items are keys with their values. That of a hash is nil: its Value is its
	// fields, see HGetAll.
	Items []Item
	// Next is where the next page begins, for ScanOptions.After; nil at the
	// end. It stays good whatever happens to the keys.
	Next []byte
}

// Scan returns the next keys in order. A page is of one moment; two pages are
// of two. Use [Keyspace.All] or a View for more of one moment.
//
// Items are the caller's to keep and to change. The short keys and values of a
// scan share memory in blocks of 4 KiB: a key or value of up to 1 KiB that is
// kept keeps its block, a longer one itself alone.
func (k *Keyspace) Scan(ctx context.Context, o ScanOptions) (Page, error) {
	if o.Limit == 0 {
		o.Limit = defaultPage
	}
	var page Page
	for item, err := range k.items(ctx, o, o.Limit+1, newest) {
		if err != nil {
			return Page{}, err
		}
		if len(page.Items) == o.Limit {
			page.Next = k.space.AppendPosition(nil, page.Items[o.Limit-1].Key)
			break
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// After returns where a scan goes on behind a key, whether that is there or not: for
// ScanOptions.After. Compared as bytes, these are in the order in which keys are visited.
func (k *Keyspace) After(key []byte) []byte { return k.space.AppendPosition(nil, key) }

// All visits keys in order, all as of one moment: that of the first step. It keeps
// that moment's data as long as it runs, and that is in memory if it was written
// just before: with many loops open, begun at different times while others write,
// another ends with ErrSnapshots. 16 may be too many if much was written before
// each, 60 if little. An error ends it. Items are as those of [Keyspace.Scan].
func (k *Keyspace) All(ctx context.Context, o ScanOptions) iter.Seq2[Item, error] {
	return k.items(ctx, o, o.Limit, newest)
}

// items visits live keys, at most limit if it is positive.
func (k *Keyspace) items(ctx context.Context, o ScanOptions, limit int, from source) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		span, err := k.span(&o)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(Item{}, err)
			return
		}
		if bytes.Compare(span.Start, span.End) >= 0 {
			return
		}
		if shard := k.db.node.Map().Find(span.Start).Span; !shard.Covers(span) {
			k.db.node.Count.Scattered.Add(1)
		}
		if limit > 0 && limit <= fewItems {
			k.few(ctx, &o, limit, span, from, yield)
			return
		}
		w := walker{k: k, ctx: ctx, o: &o, left: limit, yield: yield}
		w.walk(span, from)
	}
}

const (
	// fewItems is how many keys are collected before the first is handed over: a
	// page with the one behind it.
	fewItems = defaultPage + 1
	// firstShards is how many shards such a scan looks into at first. It is a multiple
	// of what most pages meet, and a fraction of what reading a page costs.
	firstShards = 16
)

// few visits few keys of a span that may have many shards, of which most are never
// come to: it looks into the first ones, and only if they have not enough into more,
// from the beginning, so that all are of one moment.
func (k *Keyspace) few(ctx context.Context, o *ScanOptions, limit int, span partition.Span, from source, yield func(Item, error) bool) {
	for shards := firstShards; ; shards *= firstShards {
		part, rest := firstPart(k.db.node.Map(), span, shards, o.Reverse)
		items := make([]Item, 0, min(limit, 16))
		var failure error
		w := walker{k: k, ctx: ctx, o: o, left: limit, yield: func(item Item, err error) bool {
			if failure = err; err == nil {
				items = append(items, item)
			}
			return err == nil
		}}
		w.walk(part, from)
		if failure == nil && rest && len(items) < limit {
			continue
		}
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if failure != nil {
			yield(Item{}, failure)
		}
		return
	}
}

// firstPart returns as much of a span as lies in so many shards, from its end on in
// reverse, and whether there is more.
func firstPart(m *partition.Map, span partition.Span, shards int, reverse bool) (part partition.Span, more bool) {
	if reverse {
		for shard := range m.Backward(span) {
			if shards--; shards == 0 {
				part = partition.Span{Start: shard.Span.Start, End: span.End}.Intersect(span)
				break
			}
		}
	} else {
		for shard := range m.Shards(span) {
			if shards--; shards == 0 {
				part = partition.Span{Start: span.Start, End: shard.Span.End}.Intersect(span)
				break
			}
		}
	}
	if shards > 0 {
		return span, false
	}
	return part, !part.Equal(span)
}

// span returns the positions to scan.
func (k *Keyspace) span(o *ScanOptions) (partition.Span, error) {
	span := k.space.Span()
	if k.space.Kind == Hash {
		span.Start = k.space.SlotSpan(0).Start // nothing comes before, and a shard may begin here
	}
	if err := k.space.Check(); err != nil {
		return span, public(err)
	}
	bounded := o.Start != nil || o.End != nil || o.Prefix != nil
	switch {
	case o.Limit < 0:
		return span, optionError("Limit is %d: use a positive one, or 0 for the default", o.Limit)
	case bounded && k.space.Kind != partition.Range:
		return span, optionError("keyspace %s is of kind hash and has no order of keys: leave out Start, End and Prefix, or use one of kind range", k.Name())
	case o.Prefix != nil && (o.Start != nil || o.End != nil):
		return span, optionError("Prefix excludes Start and End: leave out either")
	case o.Prefix != nil:
		span = k.space.PrefixSpan(o.Prefix)
	}
	if o.Start != nil {
		span.Start = k.space.AppendPosition(nil, o.Start)
	}
	if o.End != nil {
		span.End = k.space.AppendPosition(nil, o.End)
	}
	if o.After == nil {
		return span, nil
	}
	key, element, err := k.space.Split(nil, o.After)
	if err != nil || len(element) > 0 {
		return span, optionError("After is not from a page of this keyspace: use its Next")
	}
	after := k.space.KeySpan(key)
	if o.Reverse {
		if bytes.Compare(after.Start, span.End) < 0 {
			span.End = after.Start
		}
	} else if bytes.Compare(after.End, span.Start) > 0 {
		span.Start = after.End
	}
	return span, nil
}
