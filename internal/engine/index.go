package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/key"
)

// Index is an index on a keyspace. Its methods may be called by any goroutine.
type Index struct {
	db      *DB
	rows    *node.Keyspace
	entries *node.Keyspace
	name    string
}

func (db *DB) newIndex(x *node.IndexInfo) *Index {
	return &Index{db: db, name: x.Name, rows: x.Rows, entries: x.Entries}
}

// CreateIndex makes an index on a keyspace. When it returns, writes maintain it, if it is
// transactional; a worker gives the rows that are there already their entries.
func (db *DB) CreateIndex(ctx context.Context, rows *node.Keyspace, d index.Definition, extract index.Extractor) (*Index, error) {
	x, err := db.node.CreateIndex(ctx, rows, d, extract)
	if x != nil { // also if the caller did not wait for the end
		db.indexWorkers.startOrWake(db, x)
	}
	if err != nil {
		return nil, err
	}
	return db.newIndex(x), nil
}

// DeclareIndex gives an index its function, and wakes its worker.
func (db *DB) DeclareIndex(x *node.IndexInfo, extract index.Extractor) (*Index, error) {
	x, err := db.node.DeclareIndex(x, extract)
	if err != nil {
		return nil, err
	}
	db.indexWorkers.startOrWake(db, x)
	return db.newIndex(x), nil
}

// Index returns the index of a name on a keyspace.
func (db *DB) Index(keyspace, name string) (*Index, error) {
	x, err := db.node.Index(keyspace, name)
	if err != nil {
		return nil, err
	}
	return db.newIndex(x), nil
}

// Indexes returns all indexes by keyspace and name.
func (db *DB) Indexes() (all []*Index) {
	for _, x := range db.node.AllIndexes() {
		all = append(all, db.newIndex(x))
	}
	return all
}

// DropIndex removes an index.
func (db *DB) DropIndex(ctx context.Context, keyspace, name string) error {
	err := db.node.DropIndex(ctx, keyspace, name)
	db.indexWorkers.stopDropped()
	return err
}

// Name is the name of the index.
func (ix *Index) Name() string { return ix.name }

// DB is the store that the index is of.
func (ix *Index) DB() *DB { return ix.db }

// Rows is the keyspace that it is about.
func (ix *Index) Rows() *node.Keyspace { return ix.rows }

// Entries is the keyspace of its entries.
func (ix *Index) Entries() *node.Keyspace { return ix.entries }

// Lookup returns the index as it is now.
func (ix *Index) Lookup() (*node.IndexInfo, error) {
	x, err := ix.db.node.Index(ix.rows.Name, ix.name)
	if err == nil && x.Entries != ix.entries {
		err = fmt.Errorf("%w: %q of keyspace %q was dropped", node.ErrNoIndex, ix.name, ix.rows.Name)
	}
	return x, err
}

// newUndeclaredError is the error for a missing function.
func newUndeclaredError(x *node.IndexInfo) error {
	return fmt.Errorf("%w: index %q of keyspace %q needs function %q of version %q: use OpenIndex with it, or drop the index",
		ErrUndeclared, x.Name, x.Keyspace, x.Function, x.Version)
}

// IndexStatus is how an index is.
type IndexStatus struct {
	Ready bool   // all rows have their entries
	Built uint64 // rows that were looked at since the store was opened, to build it
	Err   error  // why it stands still, nil if it does not

	// Of asynchronous indexes: how old the state of the rows is at most that the entries are of, how
	// much of the log was not looked at since, how many rows have no entry because of a mistake in
	// them, and how often it was built anew.
	Behind      time.Duration
	BehindBytes int64
	Refused     uint64
	Rebuilt     uint64
}

// Status returns the state of the index.
func (ix *Index) Status() (IndexStatus, error) {
	x, err := ix.Lookup()
	if err != nil {
		return IndexStatus{}, err
	}
	s, _ := ix.db.indexWorkers.find(ix).loadStatus()
	status := IndexStatus{Ready: x.IsReady(), Built: s.builtRows, Err: s.err, Refused: s.refusedRows, Rebuilt: s.rebuilds}
	if x.Extract == nil && status.Err == nil {
		status.Err = newUndeclaredError(x) // though no worker runs for one that is ready
	}
	if x.Mode == index.Asynchronous {
		status.Behind, status.BehindBytes = ix.measureLag(&s)
	}
	return status, nil
}

// measureLag returns how far an index is behind its rows.
func (ix *Index) measureLag(s *indexWorkerStatus) (age time.Duration, bytes int64) {
	hosts := ix.db.node.StoreHosts()
	if len(s.positions) == len(hosts) {
		for i, h := range hosts {
			bytes += max(h.Store.LogBytesAfter(s.positions[i]), 0)
		}
		if bytes == 0 {
			return 0, 0
		}
	}
	if !s.freshAt.IsZero() {
		age = max(time.Since(s.freshAt), 1)
	}
	return age, bytes
}

// WaitFresh waits until an asynchronous index has all that was committed up to a place in the feed. A
// transactional index is always fresh. If ctx ends first, the error is a [StalledError] if the index
// stands still.
func (ix *Index) WaitFresh(ctx context.Context, c string) error {
	x, err := ix.Lookup()
	if err != nil {
		return err
	}
	if x.Mode == index.Transactional {
		return nil
	}
	want, err := ix.db.parseCursor(c)
	if err != nil {
		return err
	}
	for {
		s, changed := ix.db.indexWorkers.find(ix).loadStatus()
		if x.IsReady() && hasReached(s.positions, want) {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(minIndexPause):
			if _, err := ix.Lookup(); err != nil {
				return err
			}
			if err := ix.db.node.CheckOpen(); err != nil {
				return err
			}
		case <-ctx.Done():
			return waitError(ctx, s.err)
		}
	}
}

// WaitCaughtUp waits until an asynchronous index has all that was acknowledged before the call.
func (ix *Index) WaitCaughtUp(ctx context.Context) error {
	if now, err := ix.Lookup(); err != nil || now.Mode == index.Transactional {
		return err
	}
	c, err := ix.db.StableHead(ctx)
	if err != nil {
		return err
	}
	return ix.WaitFresh(ctx, c)
}

// hasReached reports whether a place in the feed has all that is before another.
func hasReached(at, want []wal.Position) bool {
	for i := range want {
		if i >= len(at) || at[i] < want[i] {
			return false
		}
	}
	return true
}

// Wait waits until all rows have their entries. If ctx ends first, the error is a [StalledError] if
// the index stands still.
func (ix *Index) Wait(ctx context.Context) error {
	for {
		status, changed := ix.db.indexWorkers.find(ix).loadStatus()
		x, err := ix.Lookup()
		if err != nil {
			return err
		}
		if x.IsReady() {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(minIndexPause): // it may be dropped
			if err := ix.db.node.CheckOpen(); err != nil {
				return err
			}
		case <-ctx.Done():
			return waitError(ctx, status.err)
		}
	}
}

// waitError is the error of a caller that has waited for too long for an index, with the reason why
// it stands still if it does.
func waitError(ctx context.Context, why error) error {
	if why != nil {
		return &StalledError{Ended: ctx.Err(), Stalled: why}
	}
	return ctx.Err()
}

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
