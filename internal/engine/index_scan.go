package engine

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/key"
)

// IndexScan specifies which entries of an index a scan visits.
type IndexScan struct {
	ScanOptions // of the keyspace of entries
	// Rows reads the rows too, in the same moment.
	Rows bool
}

// IndexEntry is an entry of an index.
type IndexEntry struct {
	ScanItem
	Tuple  key.Tuple // what the row was found by
	RowKey []byte
	// Row is the row, if it was asked for: nil if there is none, as may be with an asynchronous index.
	Row *index.Row
}

// Readable returns the index as it is now, if it may be read. If it is being built the error is a
// [BuildingError], unless building is set.
func (ix *Index) Readable(building bool) (*node.IndexInfo, error) {
	x, err := ix.Lookup()
	if err == nil && !building && !x.IsReady() {
		s, _ := ix.db.indexWorkers.find(ix).loadStatus()
		err = &BuildingError{Keyspace: ix.rows.Name, Index: ix.name, Stalled: s.err}
	}
	return x, err
}

// Scan visits entries in order, all as of one moment, until visit returns false: in one View, or
// without one if nothing but the entries counts.
func (ix *Index) Scan(ctx context.Context, x *node.IndexInfo, o IndexScan, visit func(IndexEntry) bool) error {
	if o.Limit > 0 && o.Limit <= smallScanItems && !o.Rows {
		done, err := ix.tryScanWithoutSnapshot(ctx, x, o, visit)
		if done || err != nil {
			return err
		}
	}
	return ix.db.View(ctx, func(tx *Txn) error { return tx.ScanIndex(ix, x, o, visit) })
}

// tryScanWithoutSnapshot visits few entries without a View. It gives up if one of them may be of no
// row.
func (ix *Index) tryScanWithoutSnapshot(ctx context.Context, x *node.IndexInfo, o IndexScan, visit func(IndexEntry) bool) (done bool, err error) {
	var items []ScanItem
	for item, err := range ix.db.Scan(ctx, ix.entries, o.ScanOptions) {
		if err != nil {
			return false, ix.AsDroppedError(err)
		}
		if item.ExpiryMS != 0 && x.Mode == index.Transactional {
			return false, nil
		}
		items = append(items, item)
	}
	for _, item := range items {
		e, err := splitEntry(item)
		if err != nil {
			return false, err
		}
		if !visit(e) {
			break
		}
	}
	return true, nil
}

// splitEntry takes an entry apart.
func splitEntry(item ScanItem) (e IndexEntry, err error) {
	e.ScanItem = item
	e.Tuple, e.RowKey, err = index.SplitKey(item.Key)
	return e, err
}

// AsDroppedError is the error for an index that was dropped, where its keyspace is missing.
func (ix *Index) AsDroppedError(err error) error {
	if errors.Is(err, node.ErrNoKeyspace) {
		if _, gone := ix.Lookup(); gone != nil {
			return gone
		}
	}
	return err
}

// ScanIndex visits entries of an index in order until visit returns false. Those of a transactional one
// are exactly those of the rows as the transaction sees them. What was visited counts as read.
func (tx *Txn) ScanIndex(ix *Index, x *node.IndexInfo, o IndexScan, visit func(IndexEntry) bool) error {
	return ix.AsDroppedError(tx.scanIndex(ix, x, o, visit))
}

func (tx *Txn) scanIndex(ix *Index, x *node.IndexInfo, o IndexScan, visit func(IndexEntry) bool) error {
	if tx.err != nil {
		return tx.err
	}
	if err := tx.maintainIndexes(); err != nil {
		return err
	}
	s := o.ScanOptions
	for left := o.Limit; ; {
		s.Limit = left
		seen, counted, more := 0, 0, true
		behind := s.Span
		for item, err := range tx.Scan(ix.entries, s) {
			if err != nil {
				return err
			}
			seen++
			behind = SpanBehind(ix.entries, s.Span, item.Key, s.Reverse)
			e, counts, err := tx.makeIndexEntry(ix, x, item, o.Rows)
			if err != nil {
				return err
			}
			if counts {
				counted++
				if more = visit(e); !more {
					break
				}
			}
		}
		s.Span = behind
		// Entries that did not count have to be made up for.
		if left -= counted; !more || o.Limit == 0 || left == 0 || seen < s.Limit {
			return nil
		}
	}
}

// makeIndexEntry takes an entry apart, if it is of the row that there is.
func (tx *Txn) makeIndexEntry(ix *Index, x *node.IndexInfo, item ScanItem, rows bool) (e IndexEntry, counts bool, err error) {
	if e, err = splitEntry(item); err != nil {
		return e, false, err
	}
	if counts, err = tx.isLiveEntry(x, ix.rows, item, e.RowKey); err != nil || !counts || !rows {
		return e, counts, err
	}
	at, err := tx.locateKey(ix.rows, e.RowKey)
	if err != nil {
		return e, false, err
	}
	e.Row, _, err = tx.loadRow(at, e.RowKey, nil, true)
	return e, err == nil, err
}
