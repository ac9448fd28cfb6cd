package cleave

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// followerState is how far an asynchronous index has come. It is written in the same batch
// as the entries that it stands for.
type followerState struct {
	// Cursor is the place in the feed from which to follow.
	Cursor Cursor
	Phase  followerPhase
	// After is where the phase goes on, if it goes by pages.
	After []byte
}

// followerPhase is what an asynchronous index is doing.
type followerPhase uint8

const (
	// scanningRows looks at all rows there are.
	scanningRows followerPhase = iota
	// scanningRecords looks at all rows that there were: those that are gone since.
	scanningRecords
	// followingFeed looks at the rows that change.
	followingFeed
)

var followerStateKey = index.MetaKey("state")

// indexFollower is the work of a keeper of an asynchronous index.
type indexFollower struct {
	*indexWorker
	x       *node.Index
	indexes *node.IndexSet // of x alone
	state   followerState
	// savedPositions is the place in the feed that the state on disk has.
	savedPositions []wal.Position
}

// runFollower builds the index if need be, and keeps it up with its rows until the DB is
// closed. It is the only writer of the entries.
func (k *indexWorker) runFollower() error {
	x, err := k.ix.lookupCurrent()
	if err != nil {
		return err
	}
	f := &indexFollower{indexWorker: k, x: x, indexes: node.NewIndexSet(x)}
	text, err := k.ix.entries.Get(k.ctx, followerStateKey)
	switch {
	case errors.Is(err, ErrNotFound):
		f.state.Cursor = k.ix.db.Head()
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, &f.state); err != nil {
			return fmt.Errorf("%w: the state of index %s: %w", ErrCorrupt, x.Name, err)
		}
	}
	for {
		// That of a store that was restored is gone: what has changed since the build
		// began is not told any more, so the build is not worth going on with.
		_, err := k.ix.db.parseCursor(f.state.Cursor)
		if err == nil {
			err = f.buildByPages()
		}
		if err == nil {
			err = f.followFeed()
		}
		if !errors.Is(err, ErrGone) {
			return err
		}
		if err := f.restartBuild(); err != nil {
			return err
		}
	}
}

// restartBuild makes the index one that is to be built: the feed does not reach back to where
// it was.
func (f *indexFollower) restartBuild() error {
	if err := f.ix.db.node.SetIndexReady(f.ctx, f.x, false); err != nil {
		return err
	}
	f.indexLogger().Info("index is built anew: the feed does not reach back to where it was")
	f.updateStatus(func(s *indexWorkerStatus) { s.rebuilds, s.positions = s.rebuilds+1, nil })
	f.state = followerState{Cursor: f.ix.db.Head(), Phase: scanningRows}
	return f.refreshRows(nil)
}

// buildByPages looks at all rows that there are, and then at all that it has entries of, a page
// at a time, each with a piece of the feed: if it stayed where it began, the feed would have
// left that behind before a long build ends, each time anew.
func (f *indexFollower) buildByPages() error {
	if f.state.Phase == followingFeed {
		return f.markReady()
	}
	r, err := f.newKeyReader()
	if err != nil {
		return err
	}
	for f.state.Phase != followingFeed {
		began := time.Now()
		keys, next, err := f.nextPage()
		if err != nil {
			return err
		}
		if f.state.After = next; next == nil {
			f.state.Phase++
		}
		if _, err := r.readNext(f.ctx, f.ix.db.node.StoreHosts()); err != nil {
			return toPublicError(err)
		}
		f.state.Cursor = f.ix.db.formatCursor(r.Positions)
		for _, key := range keys {
			r.addKey(key)
		}
		if err := f.refreshRows(r.takeKeys()); err != nil {
			return err
		}
		f.updateStatus(func(s *indexWorkerStatus) { s.err, s.builtRows = nil, s.builtRows+uint64(len(keys)) })
		if r.measureLagBytes() < maxUnsavedBytes { // else the feed may leave it behind meanwhile
			f.yieldFor(time.Since(began))
		}
	}
	return f.markReady()
}

// markReady notes that all rows have their entries.
func (f *indexFollower) markReady() error {
	if f.x.IsReady() {
		return nil
	}
	return f.ix.db.node.SetIndexReady(f.ctx, f.x, true)
}

// nextPage returns the next rows to look at.
func (f *indexFollower) nextPage() (keys [][]byte, next []byte, err error) {
	o := ScanOptions{After: f.state.After, Limit: buildPageRows, KeysOnly: true}
	from := f.ix.rows
	if f.state.Phase == scanningRecords {
		from = f.ix.entries
		o.Start, o.End = index.RecordsSpan()
	}
	page, err := from.ScanPage(f.ctx, o)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range page.Items {
		key := item.Key
		if f.state.Phase == scanningRecords {
			if key, err = index.DecodeRecordKey(item.Key); err != nil {
				return nil, nil, fmt.Errorf("%w: index %s: %w", ErrCorrupt, f.x.Name, err)
			}
		}
		keys = append(keys, key)
	}
	return keys, page.Next, nil
}

// maxUnsavedBytes is how much of the log is passed by, without a change to the rows, before
// the place in the feed is written down all the same.
const maxUnsavedBytes = 4 << 20

// followFeed follows the feed.
func (f *indexFollower) followFeed() error {
	db := f.ix.db
	r, err := f.newKeyReader()
	if err != nil {
		return err
	}
	f.savedPositions = append(f.savedPositions[:0], r.Positions...)
	fresh := time.Now()
	for {
		more := db.node.NextCommit() // before it looks, so that nothing slips through
		looked := time.Now()
		found, err := r.readNext(f.ctx, db.node.StoreHosts())
		if err != nil {
			return toPublicError(err)
		}
		f.state.Cursor = db.formatCursor(r.Positions)
		if len(r.keys) > 0 || f.countUnsavedBytes(r.Positions) > maxUnsavedBytes {
			if err := f.refreshRows(r.takeKeys()); err != nil {
				return err
			}
			f.savedPositions = append(f.savedPositions[:0], r.Positions...)
		}
		if !found {
			fresh = looked
		}
		f.updateStatus(func(s *indexWorkerStatus) {
			s.err, s.positions, s.freshAt = nil, append([]wal.Position{}, r.Positions...), fresh
		})
		if found {
			continue
		}
		select {
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-more:
			// Nothing was committed before this moment.
			fresh = time.Now()
			f.updateStatus(func(s *indexWorkerStatus) { s.freshAt = fresh })
		}
	}
}

// countUnsavedBytes is how much of the log was looked at since the state was written.
func (f *indexFollower) countUnsavedBytes(pos []wal.Position) (bytes int64) {
	for i, h := range f.ix.db.node.StoreHosts() {
		bytes += h.Store.LogBytesAfter(f.savedPositions[i]) - h.Store.LogBytesAfter(pos[i])
	}
	return bytes
}

// changedKeyReader reads the feed for the keys of rows to look at, each once.
type changedKeyReader struct {
	feedReader
	keys [][]byte
	seen map[string]bool
}

// newKeyReader begins to read at the place of the index.
func (f *indexFollower) newKeyReader() (r *changedKeyReader, err error) {
	r = &changedKeyReader{seen: map[string]bool{}}
	r.feedReader, err = f.ix.db.newFeedReader(f.state.Cursor, func(c Change, _ error) bool {
		for _, op := range c.Ops {
			r.addKey(op.Key)
		}
		return true
	})
	r.keyspace = f.ix.rows.keyspace
	return r, err
}

func (r *changedKeyReader) addKey(key []byte) {
	if !r.seen[string(key)] {
		r.seen[string(key)], r.keys = true, append(r.keys, key)
	}
}

// takeKeys returns the keys since the last time. They are good until the next is wanted.
func (r *changedKeyReader) takeKeys() [][]byte {
	keys := r.keys
	clear(r.seen)
	r.keys = r.keys[:0]
	return keys
}

// measureLagBytes is how much of the log was not read yet.
func (r *changedKeyReader) measureLagBytes() (bytes int64) {
	for i, h := range r.db.node.StoreHosts() {
		bytes += h.Store.LogBytesAfter(r.Positions[i])
	}
	return bytes
}

// rowRefresh is what an asynchronous index has to do about a row.
type rowRefresh struct {
	key       []byte
	change    index.Change
	record    index.Record
	hadRecord bool // there was one
	isCurrent bool // it is as it should be
}

// refreshRows gives rows the entries that they should have now, and writes how far the index
// has come. It does not matter what has happened to the rows, or how often it is done.
func (f *indexFollower) refreshRows(keys [][]byte) error { return f.refreshOrSplit(keys, true) }

func (f *indexFollower) refreshOrSplit(keys [][]byte, last bool) error {
	err := f.tryRefreshRows(keys, last)
	if !errors.Is(err, ErrTooLarge) || len(keys) < 2 {
		return err
	}
	half := len(keys) / 2
	if err := f.refreshOrSplit(keys[:half], false); err != nil {
		return err
	}
	return f.refreshOrSplit(keys[half:], last)
}

// tryRefreshRows is refresh in one batch.
func (f *indexFollower) tryRefreshRows(keys [][]byte, last bool) error {
	db, entries := f.ix.db, f.ix.entries
	if last && plant.Bug("cleave-index-cursor-apart") {
		if text, err := json.Marshal(f.state); err == nil {
			_ = entries.Set(f.ctx, followerStateKey, text)
		}
	}
	var rows []rowRefresh
	refused := 0
	err := db.View(f.ctx, func(tx *Txn) error {
		for _, key := range keys {
			r, ok, err := f.compareRow(tx, key)
			if err != nil {
				return err
			}
			if !ok {
				refused++
			}
			rows = append(rows, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.ctx.Err(); err != nil {
		return err // whoever closes the store waits
	}
	if err := db.node.SyncStores(); err != nil {
		return toPublicError(err)
	}
	var b Batch
	for i := range rows {
		f.appendRefresh(&b, &rows[i])
	}
	if last {
		text, err := json.Marshal(f.state)
		if err != nil {
			return err
		}
		b.Set(entries, followerStateKey, text)
	}
	if err := db.Write(f.ctx, &b); err != nil {
		return f.ix.asDroppedError(err)
	}
	if refused > 0 {
		f.updateStatus(func(s *indexWorkerStatus) { s.refusedRows += uint64(refused) })
	}
	return nil
}

// appendRefresh adds what is to be done about a row to a batch.
func (f *indexFollower) appendRefresh(b *Batch, r *rowRefresh) {
	entries := f.ix.entries
	if r.isCurrent {
		return
	}
	b.Delete(entries, r.change.Delete...)
	for _, e := range r.change.Put {
		b.appendWrite(entries, e.Key, 1, len(e.Value), command.CheckValue(e.Value), func(p partition.Position) (command.Command, error) {
			return &command.Set{Key: p, Value: b.copyBytes(e.Value), Expiry: entryExpiry(f.x, r.record.ExpiryMS)}, nil
		})
	}
	if len(r.record.Entries) > 0 {
		b.Set(entries, index.RecordKey(r.key), r.record.Append(nil))
	} else {
		b.Delete(entries, index.RecordKey(r.key))
	}
}

// compareRow finds out what is to be done about a row. ok is false if there is a mistake in
// the row, so that it has no entries.
func (f *indexFollower) compareRow(tx *Txn, key []byte) (r rowRefresh, ok bool, err error) {
	r, ok = rowRefresh{key: key}, true
	p, err := tx.locateKey(f.ix.rows, key, false)
	if err != nil {
		return r, ok, err
	}
	row, _, err := tx.loadRow(keyRef{f.ix.rows, p}, key, f.indexes.Needs, f.indexes.Whole)
	if err != nil {
		return r, ok, err
	}
	var now []index.Entry
	expiryMS := int64(0)
	if row != nil {
		if now, err = f.x.Extract.ExtractEntries(row); err != nil {
			if !errors.Is(err, index.ErrEntry) {
				return r, ok, err
			}
			ok = false
		}
		expiryMS = row.ExpiryMS
	}
	if len(now) == 0 {
		expiryMS = 0
	}
	var old index.Record
	record := index.RecordKey(key)
	if len(record) > index.MaxKeyBytes {
		r.isCurrent = true // the keys of its entries would be longer still: it has none
		return r, ok, nil
	}
	text, err := tx.Get(f.ix.entries, record)
	switch {
	case err == nil:
		if old, err = index.DecodeRecord(text); err != nil {
			return r, ok, fmt.Errorf("%w: index %s: %w", ErrCorrupt, f.x.Name, err)
		}
		r.hadRecord = true
	case !errors.Is(err, ErrNotFound):
		return r, ok, err
	}
	r.change, r.record = old.Diff(now, expiryMS), index.NewRecord(now, expiryMS)
	r.isCurrent = len(r.change.Put) == 0 && len(r.change.Delete) == 0 && (len(now) > 0 || !r.hadRecord)
	return r, ok, nil
}
