package cleave

import (
	"bytes"
	"context"
	"iter"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// ScanOptions say which keys a scan visits. The zero value visits all.
type ScanOptions struct {
	// Start and End bound the keys, End not included; nil for no bound. Prefix
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

// All visits keys in order, all of a store as of one moment: that of the first
// step into it. It keeps that moment's data as long as it runs, and that is in
// memory if it was written just before: with many loops open, begun at different
// times while others write, another ends with ErrSnapshots. 16 may be too many if
// much was written before each, 60 if little. An error ends it. Items are as those of [Keyspace.Scan].
func (k *Keyspace) All(ctx context.Context, o ScanOptions) iter.Seq2[Item, error] {
	return k.items(ctx, o, o.Limit, newest)
}

// source hands the rows of a part as of one moment to w.visit. It tells the time
// at that moment before it hands over the first.
type source func(w *walker, p *node.Part, r rowRange) error

// rowRange bounds store keys.
type rowRange struct {
	start, end []byte
	reverse    bool
}

// patience is how often newest looks before it takes a snapshot.
const patience = 3

// newest is the source of what is committed. The clock is looked at before and
// after the rows are taken, because what expires in between would belong to
// another moment than the rest.
func newest(w *walker, p *node.Part, r rowRange) error {
	if err := p.Group.Ready(w.ctx); err != nil {
		return err
	}
	for range patience {
		w.nowMS, w.clock = p.Group.NowMS(), p.Group
		err := p.Store.Scan(r.start, r.end, r.reverse, w.visit)
		w.clock = nil
		if err != nil || !w.moved {
			return err
		}
		w.moved = false
	}
	snap, now, err := p.Snapshot(w.ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	w.nowMS = now
	return snap.Scan(r.start, r.end, r.reverse, w.visit)
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
		w := walker{k: k, ctx: ctx, o: &o, left: limit, yield: yield}
		parts := k.db.node.PartsOf(&k.space.Keyspace)
		for i := range parts {
			if o.Reverse {
				i = len(parts) - 1 - i
			}
			if w.part(parts[i], span, from); w.done {
				return
			}
		}
	}
}

// span returns the positions to scan.
func (k *Keyspace) span(o *ScanOptions) (partition.Span, error) {
	span := k.space.Span()
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
		return span, optionError("Prefix excludes Start and End")
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
		return span, optionError("After is not from a page of this keyspace")
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

// walker turns rows into items.
type walker struct {
	k     *Keyspace
	ctx   context.Context
	o     *ScanOptions
	left  int // 0 for no limit
	yield func(Item, error) bool
	done  bool

	nowMS int64
	clock *group.Group // if set, must still say nowMS at the first row
	moved bool         // it did not
	seen  int
	key   []byte // room for the key of a row
	own   arena
	err   error
}

func (w *walker) part(p *node.Part, span partition.Span, from source) {
	r := rowRange{effect.Rows.AppendKey(nil, span.Start), effect.Rows.AppendKey(nil, span.End), w.o.Reverse}
	if bytes.Compare(r.start, r.end) >= 0 {
		return
	}
	err := from(w, p, r)
	if err == nil {
		err = w.err
	}
	if err != nil && !w.done {
		w.yield(Item{}, public(err))
		w.done = true
	}
}

// visit looks at a row and goes on unless the scan is over.
func (w *walker) visit(key, value []byte) bool {
	if w.clock != nil {
		if w.moved = w.clock.NowMS() != w.nowMS; w.moved {
			return false
		}
		w.clock = nil
	}
	if w.seen++; w.seen%256 == 0 { // rows that are passed over count too
		if w.err = w.ctx.Err(); w.err != nil {
			return false
		}
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		w.err = err
		return false
	}
	if row.Kind == command.Element || !row.Alive(w.nowMS) {
		return true
	}
	if w.key, _, w.err = w.k.space.Split(w.key[:0], key[1:]); w.err != nil {
		return false
	}
	item := Item{Key: w.own.clone(w.key), Version: row.Version}
	if row.ExpiryMS != 0 {
		item.Expires = expiryTime(row.ExpiryMS)
	}
	if row.Kind == command.String && !w.o.KeysOnly {
		item.Value = w.own.clone(row.Payload)
	}
	if !w.yield(item, nil) {
		w.done = true
		return false
	}
	if w.left > 0 {
		w.left--
		w.done = w.left == 0
	}
	return !w.done
}
