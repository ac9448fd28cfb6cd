package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// followerState is how far an asynchronous index has come. It is written in the same batch
// as the entries that it stands for.
type followerState struct {
	// Cursor is the place in the feed from which to follow.
	Cursor string
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

// next is the phase behind one that scans.
func (p followerPhase) next() followerPhase {
	if p == scanningRows {
		return scanningRecords
	}
	return followingFeed
}

var followerStateKey = index.MetaKey("state")

// indexFollower is the work of a keeper of an asynchronous index.
type indexFollower struct {
	*indexWorker
	x       *node.IndexInfo
	indexes *node.IndexSet // of x alone
	state   followerState
	// savedPositions is the place in the feed that the state on disk has.
	savedPositions []wal.Position
}

// runFollower builds the index if need be, and keeps it up with its rows until the DB is
// closed. It is the only writer of the entries.
func (k *indexWorker) runFollower() error {
	x, err := k.ix.Lookup()
	if err != nil {
		return err
	}
	f := &indexFollower{indexWorker: k, x: x, indexes: node.NewIndexSet(x)}
	text, found, err := k.ix.db.getString(k.ctx, k.ix.entries, followerStateKey)
	switch {
	case err != nil:
		return err
	case !found:
		f.state.Cursor = k.ix.db.Head()
	default:
		if err := json.Unmarshal(text, &f.state); err != nil {
			return fmt.Errorf("%w: the state of index %s: %w", store.ErrCorrupt, x.Name, err)
		}
	}
	for {
		// That of a store that was restored is gone: changes since the build
		// began are no longer in a feed, so the build is not worth going on with.
		_, err := k.ix.db.parseCursor(f.state.Cursor)
		if err == nil {
			err = f.buildByPages()
		}
		if err == nil {
			err = f.followFeed()
		}
		if !errors.Is(err, store.ErrGone) {
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
			f.state.Phase = f.state.Phase.next()
		}
		if _, err := r.readNext(f.ctx); err != nil {
			return err
		}
		f.state.Cursor = f.ix.db.FormatCursor(r.log.Positions)
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
	if f.state.Phase == scanningRows {
		return f.ix.db.scanKeyPage(f.ctx, f.ix.rows, KeyspaceSpan(f.ix.rows), f.state.After, buildPageRows)
	}
	start, end := index.RecordsSpan()
	records, next, err := f.ix.db.scanKeyPage(f.ctx, f.ix.entries, KeyRange(f.ix.entries, start, end), f.state.After, buildPageRows)
	for _, record := range records {
		key, err := index.DecodeRecordKey(record)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: index %s: %w", store.ErrCorrupt, f.x.Name, err)
		}
		keys = append(keys, key)
	}
	return keys, next, err
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
	f.savedPositions = append(f.savedPositions[:0], r.log.Positions...)
	fresh := time.Now()
	for {
		more := db.node.NextCommit() // before it looks, so that nothing slips through
		looked := time.Now()
		found, err := r.readNext(f.ctx)
		if err != nil {
			return err
		}
		f.state.Cursor = db.FormatCursor(r.log.Positions)
		if len(r.keys) > 0 || f.countUnsavedBytes(r.log.Positions) > maxUnsavedBytes {
			if err := f.refreshRows(r.takeKeys()); err != nil {
				return err
			}
			f.savedPositions = append(f.savedPositions[:0], r.log.Positions...)
		}
		if !found {
			fresh = looked
		}
		f.updateStatus(func(s *indexWorkerStatus) {
			s.err, s.positions, s.freshAt = nil, append([]wal.Position{}, r.log.Positions...), fresh
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
	FeedReader[struct{}]
	keys [][]byte
	seen map[string]bool
}

// newKeyReader begins to read at the place of the index.
func (f *indexFollower) newKeyReader() (*changedKeyReader, error) {
	r := &changedKeyReader{seen: map[string]bool{}}
	r.Keyspace = f.ix.rows
	r.Append = func(_ *struct{}, op FeedOp) { r.addKey(op.Key) }
	r.Yield = func(int, string, *struct{}) bool { return true }
	return r, r.Open(f.ix.db, f.state.Cursor, "")
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
		bytes += h.Store.LogBytesAfter(r.log.Positions[i])
	}
	return bytes
}
