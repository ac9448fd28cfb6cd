package cleave

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
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
	for item, err := range k.scanItems(ctx, o, o.Limit+1, scanCommitted) {
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
	return k.scanItems(ctx, o, o.Limit, scanCommitted)
}

// scanItems visits live keys, at most limit if it is positive.
func (k *Keyspace) scanItems(ctx context.Context, o ScanOptions, limit int, from rowSource) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		span, err := k.toScanSpan(&o)
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
			k.db.node.Counters.MultiShardReads.Add(1)
		}
		if limit > 0 && limit <= smallScanItems {
			k.scanSmall(ctx, &o, limit, span, from, yield)
			return
		}
		w := itemScanner{k: k, ctx: ctx, o: &o, remaining: limit, yield: yield}
		w.scanSpan(span, from)
	}
}

const (
	// smallScanItems is how many keys are collected before the first is handed over: a
	// page with the one behind it.
	smallScanItems = defaultPageItems + 1
	// smallScanShards is how many shards such a scan looks into at first. It is a multiple
	// of what most pages meet, and a fraction of what reading a page costs.
	smallScanShards = 16
)

// scanSmall visits few keys of a span that may have many shards, of which most are never
// come to: it looks into the first ones, and only if they have not enough into more,
// from the beginning, so that all are of one moment.
func (k *Keyspace) scanSmall(ctx context.Context, o *ScanOptions, limit int, span partition.Span, from rowSource, yield func(Item, error) bool) {
	for shards := smallScanShards; ; shards *= smallScanShards {
		part, rest := limitToShards(k.db.node.Map(), span, shards, o.Reverse)
		items := make([]Item, 0, min(limit, 16))
		var failure error
		w := itemScanner{k: k, ctx: ctx, o: o, remaining: limit, yield: func(item Item, err error) bool {
			if failure = err; err == nil {
				items = append(items, item)
			}
			return err == nil
		}}
		w.scanSpan(part, from)
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

// limitToShards returns as much of a span as lies in so many shards, from its end on in
// reverse, and whether there is more.
func limitToShards(m *partition.Map, span partition.Span, shards int, reverse bool) (part partition.Span, more bool) {
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

// toScanSpan returns the positions to scan.
func (k *Keyspace) toScanSpan(o *ScanOptions) (partition.Span, error) {
	span := k.keyspace.Span()
	if k.keyspace.Kind == Hash {
		span.Start = k.keyspace.SlotSpan(0).Start // nothing comes before, and a shard may begin here
	}
	if err := k.keyspace.CheckAddr(); err != nil {
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
	after := k.keyspace.KeySpan(key)
	if o.Reverse {
		if bytes.Compare(after.Start, span.End) < 0 {
			span.End = after.Start
		}
	} else if bytes.Compare(after.End, span.Start) > 0 {
		span.Start = after.End
	}
	return span, nil
}

// itemScanner turns rows into items.
type itemScanner struct {
	k         *Keyspace
	ctx       context.Context
	o         *ScanOptions
	remaining int // 0 for no limit
	yield     func(Item, error) bool
	done      bool

	keyClock    node.KeyClock
	isUnchanged func() bool // if set, must still be so at the first row
	changed     bool        // it was not
	visited     int
	keyBuf      []byte // room for the key of a row
	kind        command.Kind
	arena       arena
	err         error

	chunks command.StringAssembler
	// pending is an item whose chunks are being passed.
	pending *Item
}

// scanSpan visits the rows of a span.
func (w *itemScanner) scanSpan(span partition.Span, from rowSource) {
	for attempt := 0; ; attempt++ {
		version := w.k.db.node.Map().Version()
		err := from(w, span)
		if errors.Is(err, ownership.ErrWrongGroup) {
			if err = w.k.db.node.WaitForNewMap(w.ctx, version, attempt); err == nil {
				continue
			}
		}
		if err == nil {
			err = w.err
		}
		if err == nil && !w.done {
			w.yieldPending()
		}
		if err != nil && !w.done {
			w.yieldError(err)
		}
		return
	}
}

// yieldError ends the scan with an error.
func (w *itemScanner) yieldError(err error) {
	w.yield(Item{}, toPublicError(err))
	w.done = true
}

// isAlive reports whether a key that expires has not yet.
func (w *itemScanner) isAlive(p partition.Position, row *command.Row) bool {
	nowMS, err := w.keyClock(p)
	if err != nil {
		w.err = err
		return false
	}
	return row.IsAlive(nowMS)
}

// checkKeyspace reports whether the keyspace was there when the state was taken: the rows of one that was
// dropped go piece by piece.
func (w *itemScanner) checkKeyspace() bool {
	w.err = w.k.keyspace.CheckAddr()
	return w.err == nil
}

// visitRow looks at a row and goes on unless the scan is over.
func (w *itemScanner) visitRow(key, value []byte) bool {
	if w.isUnchanged != nil {
		if w.changed = !w.isUnchanged(); w.changed {
			return false
		}
		w.isUnchanged = nil
	}
	if w.visited == 0 && !w.checkKeyspace() {
		return false
	}
	if w.visited++; w.visited%256 == 0 { // rows that are passed over count too
		if w.err = w.ctx.Err(); w.err != nil {
			return false
		}
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		w.err = err
		return false
	}
	if row.Kind == command.Element {
		if !w.o.KeysOnly {
			w.chunks.AddElement(key[1:], &row, w.o.Reverse)
		}
		return true
	}
	if !w.yieldPending() {
		return false
	}
	if row.ExpiryMS != 0 && !w.isAlive(key[1:], &row) {
		return w.err == nil
	}
	if w.keyBuf, _, w.err = w.k.keyspace.Split(w.keyBuf[:0], key[1:]); w.err != nil {
		return false
	}
	w.kind = row.Type()
	item := Item{Key: w.arena.clone(w.keyBuf), Version: row.Version}
	if row.ExpiryMS != 0 {
		item.Expires = toExpiryTime(row.ExpiryMS)
	}
	switch {
	case w.o.KeysOnly:
	case row.Kind == command.String:
		item.Value = w.arena.clone(row.Payload)
	case row.Kind == command.Chunked:
		item.Value = w.chunks.AddOwnRow(key[1:], &row)
		if !w.o.Reverse { // its chunks come next
			w.pending = &item
			return true
		}
	}
	return w.yieldItem(item)
}

// yieldPending hands over the item whose chunks were passed, and reports whether to go on.
func (w *itemScanner) yieldPending() bool {
	if w.pending == nil {
		return true
	}
	item := *w.pending
	w.pending = nil
	return w.yieldItem(item)
}

// yieldItem hands over an item, and reports whether to go on.
func (w *itemScanner) yieldItem(item Item) bool {
	if !w.yield(item, nil) {
		w.done = true
		return false
	}
	if w.remaining > 0 {
		w.remaining--
		w.done = w.remaining == 0
	}
	return !w.done
}

// rowSource hands the rows of a span as of one moment to w.visit. It says how to judge
// them before it hands over the first. If it returns own.ErrWrongGroup it has handed
// over nothing.
type rowSource func(w *itemScanner, s partition.Span) error

// attemptsBeforeSnapshot is how often newest looks before it takes a snapshot.
const attemptsBeforeSnapshot = 3

// scanCommitted is the source of what is committed.
func scanCommitted(w *itemScanner, s partition.Span) error {
	n := w.k.db.node
	hosts := w.k.db.findStoreHosts(s)
	if len(hosts) == 1 {
		if done, err := w.tryScanWithoutSnapshot(hosts[0], s); done || err != nil {
			return err
		}
	}
	v, err := n.Snapshot(w.ctx, hosts...)
	if err != nil {
		return err
	}
	defer v.Close()
	return w.scanSnapshot(v, v, v.NowMS, s)
}

// findStoreHosts returns the stores that have a span.
func (db *DB) findStoreHosts(s partition.Span) (hosts []*node.StoreHost) {
	if all := db.node.StoreHosts(); len(all) == 1 {
		return all
	}
	for _, run := range db.node.SplitByStore(s) {
		if !slices.Contains(hosts, run.Host) {
			hosts = append(hosts, run.Host)
		}
	}
	return hosts
}

// tryScanWithoutSnapshot visits the rows of a span of one store without a snapshot, if it can. The
// clocks are looked at before and after the rows are taken, because what expires in
// between would belong to another moment than the rest.
func (w *itemScanner) tryScanWithoutSnapshot(h *node.StoreHost, s partition.Span) (done bool, err error) {
	if err := h.WaitReady(w.ctx); err != nil {
		return false, err
	}
	for range attemptsBeforeSnapshot {
		m := h.GroupStates()
		if m.HasLocks() {
			return false, nil // what is about to be written may have happened
		}
		if err := m.CheckServed(s); err != nil {
			return false, err
		}
		w.keyClock, w.isUnchanged = m.NowMS, m.IsUnchanged
		err := w.visitRows(h.Store, s)
		if w.isUnchanged != nil { // there was no row to look at
			w.changed, w.isUnchanged = !m.IsUnchanged(), nil
		}
		if err != nil || !w.changed {
			return true, err
		}
		w.changed = false
	}
	return false, nil
}

// scanSnapshot visits the rows of a span in a view, as a reader of it shows them.
func (w *itemScanner) scanSnapshot(v *node.Snapshot, from command.Reader, judge node.KeyClock, s partition.Span) error {
	if err := v.CheckServed(s); err != nil {
		return err
	}
	w.keyClock = judge
	return w.visitRows(from, s)
}

// visitRows visits the rows of a span.
func (w *itemScanner) visitRows(from command.Reader, s partition.Span) error {
	return from.Scan(effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End), w.o.Reverse, w.visitRow)
}

// arena makes copies of short pieces in common blocks: a scan would otherwise
// allocate twice for each row. What one copy keeps in memory is bounded by the
// size of a block.
type arena struct {
	free       []byte // of the newest block
	blockBytes int    // its size
}

const (
	maxArenaBlockBytes = 4 << 10 // the largest block
	// maxArenaCopyBytes is the longest piece that goes into a block: at most that much
	// of it is lost. It is also the size of the first block, as a scan may be of
	// a few rows.
	maxArenaCopyBytes = 1 << 10
)

// clone returns a copy of b that can be appended to without harm to others. It
// is never nil.
func (a *arena) clone(b []byte) []byte {
	if len(b) > maxArenaCopyBytes {
		return append([]byte(nil), b...)
	}
	if len(b) > len(a.free) || a.free == nil {
		a.blockBytes = min(max(2*a.blockBytes, maxArenaCopyBytes), maxArenaBlockBytes)
		a.free = make([]byte, a.blockBytes)
	}
	n := copy(a.free, b)
	c := a.free[:n:n]
	a.free = a.free[n:]
	return c
}
