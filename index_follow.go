package cleave

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/wal"
)

// followState is how far an asynchronous index has come. It is written in the same batch
// as the entries that it stands for.
type followState struct {
	// Cursor is the place in the feed from which to follow.
	Cursor Cursor
	Phase  followPhase
	// After is where the phase goes on, if it goes by pages.
	After []byte
}

// followPhase is what an asynchronous index is doing.
type followPhase uint8

const (
	// byRows looks at all rows there are.
	byRows followPhase = iota
	// byRecords looks at all rows that there were: those that are gone since.
	byRecords
	// byFeed looks at the rows that change.
	byFeed
)

var stateKey = index.Meta("state")

// follower is the work of a keeper of an asynchronous index.
type follower struct {
	*keeper
	x     *node.Index
	set   *node.Indexes // of x alone
	state followState
	// kept is the place in the feed that the state on disk has.
	kept []wal.Position
}

// follow builds the index if need be, and keeps it up with its rows until the DB is
// closed. It is the only writer of the entries.
func (k *keeper) follow() error {
	x, err := k.ix.now()
	if err != nil {
		return err
	}
	f := &follower{keeper: k, x: x, set: node.IndexesOf(x)}
	text, err := k.ix.entries.Get(k.ctx, stateKey)
	switch {
	case errors.Is(err, ErrNotFound):
		f.state.Cursor = k.ix.db.Now()
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
		_, err := k.ix.db.positions(f.state.Cursor)
		if err == nil {
			err = f.build()
		}
		if err == nil {
			err = f.feed()
		}
		if !errors.Is(err, ErrGone) {
			return err
		}
		if err := f.again(); err != nil {
			return err
		}
	}
}

// again makes the index one that is to be built: the feed does not reach back to where
// it was.
func (f *follower) again() error {
	if err := f.ix.db.node.MarkIndex(f.ctx, f.x, false); err != nil {
		return err
	}
	f.note(func(s *keeperStatus) { s.rebuilt, s.at = s.rebuilt+1, nil })
	f.state = followState{Cursor: f.ix.db.Now(), Phase: byRows}
	return f.refresh(nil)
}

// build looks at all rows that there are, and then at all that it has entries of, a page
// at a time, each with a piece of the feed: if it stayed where it began, the feed would have
// left that behind before a long build ends, each time anew.
func (f *follower) build() error {
	if f.state.Phase == byFeed {
		return f.ready()
	}
	r, err := f.reader()
	if err != nil {
		return err
	}
	for f.state.Phase != byFeed {
		began := time.Now()
		keys, next, err := f.page()
		if err != nil {
			return err
		}
		if f.state.After = next; next == nil {
			f.state.Phase++
		}
		if _, err := r.round(f.ctx, f.ix.db.node.Hosts()); err != nil {
			return public(err)
		}
		f.state.Cursor = f.ix.db.cursorOf(r.At)
		for _, key := range keys {
			r.want(key)
		}
		if err := f.refresh(r.take()); err != nil {
			return err
		}
		f.note(func(s *keeperStatus) { s.err, s.built = nil, s.built+uint64(len(keys)) })
		if r.behind() < keepBytes { // else the feed may leave it behind meanwhile
			f.rest(time.Since(began))
		}
	}
	return f.ready()
}

// ready notes that all rows have their entries.
func (f *follower) ready() error {
	if f.x.IsReady() {
		return nil
	}
	return f.ix.db.node.MarkIndex(f.ctx, f.x, true)
}

// page returns the next rows to look at.
func (f *follower) page() (keys [][]byte, next []byte, err error) {
	o := ScanOptions{After: f.state.After, Limit: buildPage, KeysOnly: true}
	from := f.ix.rows
	if f.state.Phase == byRecords {
		from = f.ix.entries
		o.Start, o.End = index.Records()
	}
	page, err := from.Scan(f.ctx, o)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range page.Items {
		key := item.Key
		if f.state.Phase == byRecords {
			if key, err = index.RecordRow(item.Key); err != nil {
				return nil, nil, fmt.Errorf("%w: index %s: %w", ErrCorrupt, f.x.Name, err)
			}
		}
		keys = append(keys, key)
	}
	return keys, page.Next, nil
}

// keepBytes is how much of the log is passed by, without a change to the rows, before
// the place in the feed is written down all the same.
const keepBytes = 4 << 20

// feed follows the feed.
func (f *follower) feed() error {
	db := f.ix.db
	r, err := f.reader()
	if err != nil {
		return err
	}
	f.kept = append(f.kept[:0], r.At...)
	fresh := time.Now()
	for {
		more := db.node.Committed() // before it looks, so that nothing slips through
		looked := time.Now()
		found, err := r.round(f.ctx, db.node.Hosts())
		if err != nil {
			return public(err)
		}
		f.state.Cursor = db.cursorOf(r.At)
		if len(r.keys) > 0 || f.passed(r.At) > keepBytes {
			if err := f.refresh(r.take()); err != nil {
				return err
			}
			f.kept = append(f.kept[:0], r.At...)
		}
		if !found {
			fresh = looked
		}
		f.note(func(s *keeperStatus) { s.err, s.at, s.freshAt = nil, append([]wal.Position{}, r.At...), fresh })
		if found {
			continue
		}
		select {
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-more:
			// Nothing was committed before this moment.
			fresh = time.Now()
			f.note(func(s *keeperStatus) { s.freshAt = fresh })
		}
	}
}

// passed is how much of the log was looked at since the state was written.
func (f *follower) passed(pos []wal.Position) (bytes int64) {
	for i, h := range f.ix.db.node.Hosts() {
		bytes += h.Store.Behind(f.kept[i]) - h.Store.Behind(pos[i])
	}
	return bytes
}

// rowReader reads the feed for the keys of rows to look at, each once.
type rowReader struct {
	feedReader
	keys [][]byte
	seen map[string]bool
}

// reader begins to read at the place of the index.
func (f *follower) reader() (r *rowReader, err error) {
	r = &rowReader{seen: map[string]bool{}}
	r.feedReader, err = f.ix.db.feedReader(f.state.Cursor, func(c Change, _ error) bool {
		for _, op := range c.Ops {
			r.want(op.Key)
		}
		return true
	})
	r.only = f.ix.rows.space
	return r, err
}

func (r *rowReader) want(key []byte) {
	if !r.seen[string(key)] {
		r.seen[string(key)], r.keys = true, append(r.keys, key)
	}
}

// take returns the keys since the last time. They are good until the next is wanted.
func (r *rowReader) take() [][]byte {
	keys := r.keys
	clear(r.seen)
	r.keys = r.keys[:0]
	return keys
}

// behind is how much of the log was not read yet.
func (r *rowReader) behind() (bytes int64) {
	for i, h := range r.db.node.Hosts() {
		bytes += h.Store.Behind(r.At[i])
	}
	return bytes
}
