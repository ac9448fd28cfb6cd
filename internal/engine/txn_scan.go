package engine

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/key/fanout"
	"github.com/cleavekv/cleave/partition"
)

// Scan visits keys in order, those that the transaction wrote before the loop
// included; those that it writes in the loop may be visited or not. The version
// of what it wrote is 0: it is not known before the commit.
//
// What was visited counts as read: a key that comes or goes there before the
// commit is a conflict. With Limit, or a loop that ends early, that is up to the
// last key visited.
func (tx *Txn) Scan(k *node.Keyspace, o ScanOptions) iter.Seq2[ScanItem, error] {
	return func(yield func(ScanItem, error) bool) {
		r := &txnScan{tx: tx, k: k, o: o, span: o.Span}
		err := k.CheckOpen()
		if err == nil {
			tx.useKeyspace(k, readRow)
			err = tx.err
		}
		if err != nil {
			yield(ScanItem{}, err)
			return
		}
		r.run(yield)
		tx.openScans = slices.DeleteFunc(tx.openScans, func(x *txnScan) bool { return x == r })
		r.recordRead(r.stopped, r.last)
	}
}

// ScanPages reads the first keys of several scans, each of which has a limit. A transaction that only
// reads does so for all of them at the same time; in others what was visited counts as read, and they come
// one after another. The first error ends it.
func (tx *Txn) ScanPages(k *node.Keyspace, scans []ScanOptions) ([][]ScanItem, error) {
	err := k.CheckOpen()
	if err == nil {
		tx.useKeyspace(k, readRow)
		err = tx.err
	}
	if err != nil {
		return nil, err
	}
	var pages [][]ScanItem
	if tx.readOnly && len(scans) > 1 {
		pages, err = tx.scanTogether(k, scans)
	} else {
		pages, err = tx.scanInTurn(k, scans)
	}
	if err != nil && tx.err == nil {
		tx.err = err // what it would have read is unknown
	}
	return pages, err
}

// scanInTurn reads the first keys of several scans, one after another.
func (tx *Txn) scanInTurn(k *node.Keyspace, scans []ScanOptions) (pages [][]ScanItem, err error) {
	for _, o := range scans {
		r := &txnScan{tx: tx, k: k, o: o, span: o.Span}
		page, err := r.readPage(o.Limit)
		if err != nil {
			return nil, err
		}
		if r.stopped = len(page) == o.Limit; r.stopped {
			r.last = page[len(page)-1].Key
		}
		r.recordRead(r.stopped, r.last)
		pages = append(pages, page)
	}
	return pages, tx.err
}

// scanTogether reads the first keys of several scans at the same time. The transaction must not write.
func (tx *Txn) scanTogether(k *node.Keyspace, scans []ScanOptions) ([][]ScanItem, error) {
	if err := tx.extendSnapshot(); err != nil {
		return nil, err
	}
	return fanout.Read(tx.ctx, 0, len(scans), func(ctx context.Context, i int) (page []ScanItem, err error) {
		view, o := tx.snapshot.Fork(), scans[i]
		o.Uncounted = !tx.recordsLoad
		source := func(w *itemScanner, s partition.Span) error {
			err := w.scanSnapshot(view, view, view.NowMS, s)
			if errors.Is(err, ownership.ErrWrongGroup) { // it will not be served in this state
				return errRetry
			}
			return err
		}
		for item, err := range tx.db.scanItems(ctx, k, o, o.Limit, source) {
			if err != nil {
				return nil, err
			}
			page = append(page, item)
		}
		return page, nil
	})
}

// recordScans makes what scans that are under way have read so far, which is ahead of
// their loops, reads of the transaction: its state is about to be a newer one.
func (tx *Txn) recordScans() {
	for _, r := range tx.openScans {
		r.recordRead(r.hasMore, r.readAheadKey)
	}
}

// txnScan is what a scan of a transaction has seen.
type txnScan struct {
	tx   *Txn
	k    *node.Keyspace
	o    ScanOptions
	span partition.Span
	// stopped reports whether the scan ended at the last key and not at the end of
	// the span.
	stopped bool
	last    []byte
	// hasMore reports whether it was read up to the key ahead and not to the end.
	hasMore      bool
	readAheadKey []byte
}

// txnScanPageKeys is how many keys are read ahead of the loop. The loop may use the
// transaction, which a scan on its way does not bear.
const txnScanPageKeys = 256

func (r *txnScan) run(yield func(ScanItem, error) bool) {
	for left := r.o.Limit; ; {
		want := txnScanPageKeys
		if r.o.Limit > 0 {
			want = min(want, left)
		}
		page, err := r.readPage(want)
		if err != nil {
			r.tx.err = err // what it would have read is unknown
			yield(ScanItem{}, err)
			return
		}
		if r.hasMore = len(page) == want; r.hasMore {
			r.readAheadKey = append(r.readAheadKey[:0], page[want-1].Key...)
		}
		if !slices.Contains(r.tx.openScans, r) {
			r.tx.openScans = append(r.tx.openScans, r) // not before: nothing of a page that is being read counts
		}
		for _, item := range page {
			r.last, r.stopped = append(r.last[:0], item.Key...), true // the loop may change it
			if !yield(item, nil) {
				return
			}
		}
		if len(page) < want {
			r.stopped = false
			return
		}
		if left -= want; left == 0 {
			return
		}
		r.o.Span = SpanBehind(r.k, r.o.Span, r.last, r.o.Reverse)
	}
}

// readPage reads the next keys.
func (r *txnScan) readPage(want int) (page []ScanItem, err error) {
	r.o.Uncounted = !r.tx.recordsLoad
	if r.tx.err != nil {
		return nil, r.tx.err
	}
	for item, err := range r.tx.db.scanItems(r.tx.ctx, r.k, r.o, want, r.tx.scanWithWrites) {
		if err != nil {
			return nil, err
		}
		if item.Version >= FirstTxnVersion {
			item.Version = 0
		}
		page = append(page, item)
	}
	return page, nil
}

// scanWithWrites is the source of the transaction's state with its own writes. It takes that
// of the stores which have the span, and no others: most scans end before the rest.
func (tx *Txn) scanWithWrites(w *itemScanner, s partition.Span) error {
	if err := tx.extendSnapshot(tx.db.findStoreHosts(s)...); err != nil {
		return err
	}
	err := w.scanSnapshot(tx.snapshot, tx.env, tx.nowMSAt, s)
	if errors.Is(err, ownership.ErrWrongGroup) { // it was not there yet, or not any more
		tx.err = errRetry
		return tx.err
	}
	return err
}

// recordRead makes the span, or the part of it up to the last key, a read of the transaction.
func (r *txnScan) recordRead(part bool, last []byte) {
	if r.tx.readOnly || r.tx.err != nil {
		return
	}
	span := r.span
	if part {
		p := r.k.AppendPosition(nil, last)
		if r.o.Reverse {
			span.Start = p
		} else {
			span.End = command.NextPosition(p)
		}
	}
	for _, p := range r.tx.db.node.SplitByGroup(span) {
		read, err := r.tx.makeRangeRead(p.Span)
		if errors.Is(err, ownership.ErrWrongGroup) { // it has ended before it came there
			r.tx.err = errRetry
			return
		}
		if err != nil {
			r.tx.err = err
			return
		}
		r.tx.rangeReads = append(r.tx.rangeReads, read)
	}
}

// splitRanges returns the ranges that were read, cut where owners change in a map: each of
// them validates what it has. Mostly they were cut there when they were read.
func (tx *Txn) splitRanges(m *partition.Map) (ranges []command.RangeRead, err error) {
	for _, r := range tx.rangeReads {
		pieces := protocol.SplitByGroup(m, partition.Span{Start: r.Start, End: r.End})
		if len(pieces) == 1 {
			ranges = append(ranges, r)
			continue
		}
		for _, p := range pieces {
			read, err := tx.makeRangeRead(p.Span)
			if err != nil {
				return nil, err
			}
			ranges = append(ranges, read)
		}
	}
	return ranges, command.CheckTxn(len(tx.reads)+len(ranges), 0)
}

// makeRangeRead is the read of a span of the transaction's state.
func (tx *Txn) makeRangeRead(s partition.Span) (command.RangeRead, error) {
	digest, err := tx.digestSpan(s)
	return command.RangeRead{Start: s.Start, End: s.End, Digest: digest}, err
}

// digestSpan returns the digest of the keys of a span as the transaction has seen them.
func (tx *Txn) digestSpan(s partition.Span) (command.Digest, error) {
	return command.DigestRange(tx.snapshot, s.Start, s.End, func(p partition.Position, row *command.Row) bool {
		return row.ExpiryMS == 0 || row.IsAlive((*txnGuard)(tx).ExpiryCheckMS(p, tx.env.NowMS()))
	})
}
