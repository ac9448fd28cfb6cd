package engine

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// ScanItem is a key with what it holds.
type ScanItem struct {
	Key, Value []byte
	// Version is that of the row: 0 if the transaction that reads has written it.
	Version uint64
	// ExpiryMS is when the key expires, 0 for never.
	ExpiryMS int64
	Kind     command.Kind
}

// ScanOptions specify which keys a scan visits.
type ScanOptions struct {
	// Span has the keys. It is within the keyspace: see [KeyspaceSpan].
	Span partition.Span
	// Reverse visits the last key first.
	Reverse bool
	// Limit is the most keys that are visited, 0 for no limit.
	Limit int
	// KeysOnly leaves values out.
	KeysOnly bool
	// Uncounted leaves the rows out of what is asked of shards: it is background work.
	Uncounted bool
}

// KeyspaceSpan returns the span of all keys of a keyspace.
func KeyspaceSpan(k *node.Keyspace) partition.Span {
	span := k.Span()
	if k.Kind == partition.Hash {
		span.Start = k.SlotSpan(0).Start // nothing comes before, and a shard may begin here
	}
	return span
}

// SpanBehind returns the part of a span in which a scan goes on behind a key.
func SpanBehind(k *node.Keyspace, span partition.Span, key []byte, reverse bool) partition.Span {
	at := k.KeySpan(key)
	if reverse {
		if bytes.Compare(at.Start, span.End) < 0 {
			span.End = at.Start
		}
	} else if bytes.Compare(at.End, span.Start) > 0 {
		span.Start = at.End
	}
	return span
}

// KeyRange returns the span of the keys from start to before end of a range keyspace; nil for no bound.
func KeyRange(k *node.Keyspace, start, end []byte) partition.Span {
	span := KeyspaceSpan(k)
	if start != nil {
		span.Start = k.AppendPosition(nil, start)
	}
	if end != nil {
		span.End = k.AppendPosition(nil, end)
	}
	return span
}

// Scan visits live keys in order, all as of one moment. An error ends it.
func (db *DB) Scan(ctx context.Context, k *node.Keyspace, o ScanOptions) iter.Seq2[ScanItem, error] {
	return db.scanItems(ctx, k, o, o.Limit, scanCommitted)
}

// scanItems visits live keys, at most limit if it is positive.
func (db *DB) scanItems(ctx context.Context, k *node.Keyspace, o ScanOptions, limit int, from rowSource) iter.Seq2[ScanItem, error] {
	return func(yield func(ScanItem, error) bool) {
		span := o.Span
		err := k.CheckOpen()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(ScanItem{}, err)
			return
		}
		if bytes.Compare(span.Start, span.End) >= 0 {
			return
		}
		if shard := db.node.Map().Find(span.Start).Span; !shard.Covers(span) {
			db.node.Counters.MultiShardReads.Add(1)
		}
		if limit > 0 && limit <= smallScanItems {
			db.scanSmall(ctx, k, &o, limit, span, from, yield)
			return
		}
		w := itemScanner{db: db, k: k, ctx: ctx, o: &o, remaining: limit, yield: yield}
		w.scanSpan(span, from)
	}
}

const (
	// smallScanItems is how many keys are collected before the first is handed over: a
	// page of the default length with the one behind it.
	smallScanItems = 1001
	// smallScanShards is how many shards such a scan looks into at first. It is a multiple
	// of what most pages meet, and a fraction of what reading a page costs.
	smallScanShards = 16
)

// scanSmall visits few keys of a span that may have many shards, of which most are never
// come to: it looks into the first ones, and only if they have not enough into more,
// from the beginning, so that all are of one moment.
func (db *DB) scanSmall(ctx context.Context, k *node.Keyspace, o *ScanOptions, limit int, span partition.Span, from rowSource, yield func(ScanItem, error) bool) {
	for shards := smallScanShards; ; shards *= smallScanShards {
		part, rest := limitToShards(db.node.Map(), span, shards, o.Reverse)
		items := make([]ScanItem, 0, min(limit, 16))
		var failure error
		w := itemScanner{db: db, k: k, ctx: ctx, o: o, remaining: limit, isPage: true, yield: func(item ScanItem, err error) bool {
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
			yield(ScanItem{}, failure)
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

// itemScanner turns rows into items.
type itemScanner struct {
	db        *DB
	k         *node.Keyspace
	ctx       context.Context
	o         *ScanOptions
	remaining int // 0 for no limit
	yield     func(ScanItem, error) bool
	done      bool

	keyClock    node.KeyClock
	isUnchanged func() bool // if set, must still be so at the first row
	changed     bool        // it was not
	visited     int
	keyBuf      []byte // room for the key of a row
	arena       arena
	err         error

	// load counts the rows, nil if they do not count, and isPage reports whether nothing else is done between them.
	load   *scanLoad
	isPage bool

	chunks command.StringAssembler
	// pending is an item whose chunks are being passed.
	pending *ScanItem
}

// scanSpan visits the rows of a span.
func (w *itemScanner) scanSpan(span partition.Span, from rowSource) {
	for attempt := 0; ; attempt++ {
		version := w.db.node.Map().Version()
		err := from(w, span)
		if errors.Is(err, ownership.ErrWrongGroup) {
			if err = w.db.node.WaitForNewMap(w.ctx, version, attempt); err == nil {
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
	w.yield(ScanItem{}, err)
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
	w.err = w.k.CheckOpen()
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
	if w.load != nil {
		w.load.visit(key[1:], len(value))
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
	if w.keyBuf, _, w.err = w.k.Split(w.keyBuf[:0], key[1:]); w.err != nil {
		return false
	}
	item := ScanItem{Key: w.arena.clone(w.keyBuf), Version: row.Version, ExpiryMS: row.ExpiryMS, Kind: row.Type()}
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
func (w *itemScanner) yieldItem(item ScanItem) bool {
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

// rowSource hands the rows of a span as of one moment to w.visit. It sets the clock of
// their keys before it hands over the first. If it returns ownership.ErrWrongGroup it has handed
// over nothing.
type rowSource func(w *itemScanner, s partition.Span) error

// attemptsBeforeSnapshot is how often newest looks before it takes a snapshot.
const attemptsBeforeSnapshot = 3

// scanCommitted is the source of what is committed.
func scanCommitted(w *itemScanner, s partition.Span) error {
	n := w.db.node
	hosts := w.db.findStoreHosts(s)
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
func (w *itemScanner) scanSnapshot(v *node.Snapshot, from command.Reader, clock node.KeyClock, s partition.Span) error {
	if err := v.CheckServed(s); err != nil {
		return err
	}
	w.keyClock = clock
	return w.visitRows(from, s)
}

// visitRows visits the rows of a span.
func (w *itemScanner) visitRows(from command.Reader, s partition.Span) error {
	if !w.o.Uncounted {
		w.load = newScanLoad(w.db)
		began := time.Now()
		defer func() {
			took := time.Duration(0)
			if w.isPage {
				took = time.Since(began)
			}
			w.load.flush(took)
		}()
	}
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
