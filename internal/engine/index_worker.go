package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/throttle"
	"github.com/cleavekv/cleave/partition"
)

// indexWorkers are the goroutines of a DB that maintain indexes.
type indexWorkers struct {
	mu        sync.Mutex
	ctx       context.Context // ends when the DB is closed
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	byEntries map[*node.Keyspace]*indexWorker // by the keyspace of the entries
}

// startAll starts the workers of the existing indexes.
func (ks *indexWorkers) startAll(db *DB) {
	ks.ctx, ks.cancel = context.WithCancel(context.Background())
	ks.byEntries = map[*node.Keyspace]*indexWorker{}
	for _, x := range db.node.AllIndexes() {
		ks.startOrWake(db, x)
	}
}

// stopAll ends all of them.
func (ks *indexWorkers) stopAll() {
	ks.mu.Lock()
	ks.cancel()
	ks.mu.Unlock()
	ks.wg.Wait()
}

// startOrWake starts the worker of an index, or wakes the running one because the index has changed.
func (ks *indexWorkers) startOrWake(db *DB, x *node.IndexInfo) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if k := ks.byEntries[x.Entries]; k != nil {
		k.wake()
		return
	}
	k := &indexWorker{ix: db.newIndex(x), mode: x.Mode, wakeup: make(chan struct{}, 1), changed: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(ks.ctx)
	ks.byEntries[x.Entries] = k
	if x.Mode == index.Transactional && x.IsReady() || ks.ctx.Err() != nil {
		k.cancel()
		return
	}
	ks.wg.Go(func() {
		defer k.cancel()
		k.run()
	})
}

// stopDropped ends the workers of indexes that were dropped.
func (ks *indexWorkers) stopDropped() {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for entries, k := range ks.byEntries {
		if entries.CheckOpen() != nil {
			k.cancel()
			delete(ks.byEntries, entries)
		}
	}
}

// find returns the worker of an index, nil if there is none yet: the maker of an index
// starts it when others can see the index already.
func (ks *indexWorkers) find(ix *Index) *indexWorker {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return ks.byEntries[ix.entries]
}

// indexWorker builds an index, and follows the feed for an asynchronous one.
type indexWorker struct {
	ix     *Index
	mode   index.Mode
	ctx    context.Context
	cancel context.CancelFunc
	wakeup chan struct{}

	mu     sync.Mutex
	status indexWorkerStatus
	// changed is closed when status is another.
	changed chan struct{}
}

// indexWorkerStatus is what is known about the keeper's work.
type indexWorkerStatus struct {
	err         error  // why it stands still
	builtRows   uint64 // rows, since it began to build
	refusedRows uint64
	rebuilds    uint64
	// positions is the place in the feed up to which the index has everything, and since when
	// it is known to have been there; empty if it is not following.
	positions []wal.Position
	freshAt   time.Time
}

func (k *indexWorker) wake() {
	select {
	case k.wakeup <- struct{}{}:
	default:
	}
}

// updateStatus changes the status.
func (k *indexWorker) updateStatus(change func(*indexWorkerStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.status)
	close(k.changed)
	k.changed = make(chan struct{})
}

// loadStatus returns the status, and a channel that is closed when it is another; nothing if
// there is no keeper yet.
func (k *indexWorker) loadStatus() (indexWorkerStatus, <-chan struct{}) {
	if k == nil {
		return indexWorkerStatus{}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status, k.changed
}

// indexLogger is the log of the index.
func (k *indexWorker) indexLogger() *slog.Logger {
	return k.ix.db.log.With("keyspace", k.ix.rows.Name, "index", k.ix.Name())
}

// logError logs why the index stands still. That a row is refused may be said with its values:
// they are in its status and not in the log.
func (k *indexWorker) logError(err error) {
	if errors.Is(err, index.ErrEntry) {
		err = index.ErrEntry
	}
	k.indexLogger().Warn("index stands still and is tried again: its status says more", "error", err)
}

// How long a keeper waits after an error before it tries again.
const (
	minIndexPause = 50 * time.Millisecond
	maxIndexPause = 5 * time.Second
)

// run works until there is nothing more to do. An error is shown in the status, and
// tried again: an operator may repair the row, or the program declare the function.
func (k *indexWorker) run() {
	for pause := minIndexPause; ; pause = min(2*pause, maxIndexPause) {
		began := time.Now()
		err := k.runOnce()
		if k.ctx.Err() != nil || err == nil || errors.Is(err, node.ErrNoIndex) {
			return
		}
		if time.Since(began) > maxIndexPause {
			pause = minIndexPause // it has done something
		}
		if status, _ := k.loadStatus(); status.err == nil || status.err.Error() != err.Error() { // once for each cause
			k.logError(err)
		}
		k.updateStatus(func(s *indexWorkerStatus) { s.err = err })
		select {
		case <-k.ctx.Done():
			return
		case <-k.wakeup:
		case <-time.After(pause):
		}
	}
}

// runOnce builds the index, and follows.
func (k *indexWorker) runOnce() error {
	x, err := k.ix.Lookup()
	if err != nil {
		return err
	}
	if x.Extract == nil {
		return newUndeclaredError(x)
	}
	if k.mode == index.Asynchronous {
		return k.runFollower()
	}
	if x.IsReady() {
		return nil
	}
	began := time.Now()
	if status, _ := k.loadStatus(); status.err == nil { // once, not each time that it is tried again
		k.indexLogger().Info("index build begun")
	}
	if err := k.buildIndex(x); err != nil {
		return err
	}
	k.updateStatus(func(s *indexWorkerStatus) { s.err = nil })
	status, _ := k.loadStatus()
	k.indexLogger().Info("index build done", "rows", status.builtRows, "took", time.Since(began))
	return nil
}

// yieldFor lets others work for as long as something took.
func (k *indexWorker) yieldFor(took time.Duration) {
	select {
	case <-k.ctx.Done():
	case <-time.After(throttle.Rest(took, minIndexPause, 1)):
	}
}

// buildPageRows is how many rows one transaction of a build is about: so few that writers
// whom it meets wait for milliseconds.
const buildPageRows = 64

// buildProgressKey is where a build goes on: the Next of the last page, empty behind all of them.
var buildProgressKey = index.MetaKey("progress")

// buildIndex gives the rows that were there before a transactional index their entries, page
// by page, each in a transaction that reads the rows again. Writes maintain the index
// meanwhile, so a row that was looked at stays right, and one that is written is right
// whether it was looked at or not. It goes on where the last one ended.
func (k *indexWorker) buildIndex(x *node.IndexInfo) error {
	// The caller that made the index has waited for this too, unless its context had ended.
	if err := k.ix.db.node.Barrier(k.ctx); err != nil {
		return err
	}
	after, found, err := k.ix.db.getString(k.ctx, k.ix.entries, buildProgressKey)
	if err != nil {
		return err
	}
	if found && len(after) == 0 { // there was no next page: only the note is missing
		return k.ix.db.node.SetIndexReady(k.ctx, x, true)
	}
	for limit := buildPageRows; ; {
		began := time.Now()
		keys, next, err := k.ix.db.scanKeyPage(k.ctx, k.ix.rows, KeyspaceSpan(k.ix.rows), after, limit)
		if err == nil {
			// What is not in the page because it was deleted must not come back in a crash that
			// leaves the build behind it.
			err = k.ix.db.node.SyncStores()
		}
		if err == nil {
			err = k.ix.db.Update(k.ctx, func(tx *Txn) error { return k.buildPage(tx, keys, next) })
		}
		if errors.Is(err, command.ErrTooLarge) && limit > 1 {
			limit /= 2 // rows with many entries
			continue
		}
		if err != nil {
			return err
		}
		k.updateStatus(func(s *indexWorkerStatus) { s.err, s.builtRows = nil, s.builtRows+uint64(len(keys)) })
		if after = next; after == nil {
			break
		}
		k.yieldFor(time.Since(began))
	}
	return k.ix.db.node.SetIndexReady(k.ctx, x, true)
}

// buildPage gives rows their entries.
func (k *indexWorker) buildPage(tx *Txn, keys [][]byte, next []byte) error {
	x, err := k.ix.Lookup()
	if err != nil {
		return err
	}
	if x.Extract == nil {
		return newUndeclaredError(x)
	}
	set := node.NewIndexSet(x)
	tx.useKeyspace(k.ix.entries, readRow) // they must still be there at the commit
	for _, key := range keys {
		at, err := tx.locateKey(k.ix.rows, key)
		if err != nil {
			return err
		}
		r := &indexedRow{at: at, key: key, indexes: set}
		row, err := tx.loadIndexedRow(r)
		if err != nil {
			return err
		}
		if row == nil {
			continue // deleted meanwhile
		}
		entries, err := x.Extract.ExtractEntries(row)
		if err != nil {
			return indexRowError(x, r.at, err)
		}
		if err := tx.writeEntries(r, x, index.Change{Put: entries}, row.ExpiryMS); err != nil {
			return err
		}
	}
	return tx.writeEntryKey(k.ix.entries, buildProgressKey, func(p partition.Position) command.Command {
		return &command.Set{Key: p, Value: next}
	})
}

// getString returns the string that a key holds.
func (db *DB) getString(ctx context.Context, k *node.Keyspace, key []byte) (value []byte, found bool, err error) {
	p, err := AppendPosition(nil, k, key)
	if err != nil {
		return nil, false, err
	}
	row, found, err := db.Read(ctx, p)
	if err == nil && found && row.Kind == command.Chunked {
		row, found, err = db.ReadString(ctx, k, p)
	}
	return row.Payload, found, err
}

// scanKeyPage returns the next keys of a span behind a page, and where the next page goes on: nil at
// the end.
func (db *DB) scanKeyPage(ctx context.Context, k *node.Keyspace, span partition.Span, after []byte, limit int) (keys [][]byte, next []byte, err error) {
	if after != nil {
		key, element, err := k.Split(nil, after)
		if err != nil || len(element) > 0 {
			return nil, nil, fmt.Errorf("%w: keyspace %s has no page that ends at position %x", store.ErrCorrupt, k.Name, after)
		}
		span = SpanBehind(k, span, key, false)
	}
	for item, err := range db.Scan(ctx, k, ScanOptions{Span: span, Limit: limit + 1, KeysOnly: true, Uncounted: true}) {
		if err != nil {
			return nil, nil, err
		}
		if len(keys) == limit {
			return keys, k.AppendPosition(nil, keys[limit-1]), nil
		}
		keys = append(keys, item.Key)
	}
	return keys, nil, nil
}
