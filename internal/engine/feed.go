package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// FeedOp is one key, or one field of a hash, that was written or deleted.
type FeedOp struct {
	Keyspace string
	Key      []byte
	Field    []byte // of a hash; nil if it is about the key itself
	Deleted  bool
	// Created means that this is a hash that was made just now: it has no fields but those of its
	// commit.
	Created bool
	// Large means that the key holds a string in chunks, so that Value is nil.
	Large    bool
	Value    []byte
	Version  uint64
	ExpiryMS int64
}

// FeedReader reads the feed. A commit to a store becomes a C: Append adds each of its operations, and
// Yield hands it over, and reports whether to go on.
//
// It reads ahead of its consumer, which may be slow: meanwhile the store is free to recycle its
// log, and to close.
type FeedReader[C any] struct {
	Append func(*C, FeedOp)
	// Yield gets the store, and the place in the feed behind the change.
	Yield func(store int, after string, change *C) bool
	// Progress yields nil where the reader has come further without a change.
	Progress bool
	// Keyspace is the keyspace that the changes are of; nil for all of users.
	Keyspace *node.Keyspace

	db  *DB
	log feed.Reader
	// unreported means that the reader has come further since the last Yield.
	unreported bool
}

// feedChange is a commit with how many operations it has.
type feedChange[C any] struct {
	ops    int
	change C
}

// Open begins to read at a place in the feed, and ends at another one if that is not empty.
func (r *FeedReader[C]) Open(db *DB, from, until string) (err error) {
	r.db = db
	if r.log, err = db.newLogReader(from); err == nil && until != "" {
		r.log.Until, err = db.parseCursor(until)
	}
	return err
}

// newLogReader returns a reader of the logs from a place on.
func (db *DB) newLogReader(from string) (feed.Reader, error) {
	at, err := db.parseCursor(from)
	if err == nil {
		err = db.checkRetained(at)
	}
	return feed.Reader{Positions: at, MaxCommits: readAheadCommits, MaxBytes: readAheadBytes}, err
}

const (
	// readAheadCommits and readAheadBytes bound what is read ahead, unless one change
	// is larger.
	readAheadCommits = 1024
	readAheadBytes   = 1 << 20
)

// checkRetained returns store.ErrGone if a place is not kept by one of the stores. A new reader gets
// this error before it gets changes of the other stores.
func (db *DB) checkRetained(at []wal.Position) error {
	for i, h := range db.node.StoreHosts() {
		_, err := h.Store.Feed(at[i], func(store.FeedEntry) error { return errStop })
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
	}
	return nil
}

// Run reads until ctx ends, whose error it then returns, until the place where it is to end, or until
// the consumer stops: then the error is nil.
func (r *FeedReader[C]) Run(ctx context.Context) error {
	for {
		more := r.db.node.NextCommit() // before it looks, so that nothing slips through
		found, err := r.readNext(ctx)
		switch {
		case errors.Is(err, errStop):
			return nil
		case err != nil:
			return err
		case r.log.IsDone():
			return nil
		case found:
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

// readNext yields the next changes of each store, and reports whether there were any.
func (r *FeedReader[C]) readNext(ctx context.Context) (found bool, err error) {
	for i, h := range r.db.node.StoreHosts() {
		if r.log.IsStoreDone(i) {
			continue
		}
		before := r.log.Positions[i]
		batch, err := feed.ReadBatch(&r.log, i, h.Store, ctx.Err, r.appendEffect)
		r.unreported = r.unreported || r.log.Positions[i] != before // there was no commit to report
		found = found || len(batch) > 0
		if !feed.Deliver(&r.log, i, batch, func(c *feedChange[C]) bool { return r.yieldChange(i, c) }) {
			return found, errStop
		}
		if err != nil {
			return found, err
		}
		if r.Progress && r.unreported {
			r.unreported = false
			if !r.Yield(i, r.db.FormatCursor(r.log.Positions), nil) {
				return found, errStop
			}
		}
	}
	return found, nil
}

// yieldChange yields a change of a store, unless it is of the system.
func (r *FeedReader[C]) yieldChange(store int, c *feedChange[C]) bool {
	if r.unreported = c.ops == 0; r.unreported {
		return true
	}
	return r.Yield(store, r.db.FormatCursor(r.log.Positions), &c.change)
}

// appendEffect turns an effect on a row of a user's keyspace into an operation.
func (r *FeedReader[C]) appendEffect(change *feedChange[C], op effect.Op) error {
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := r.db.node.KeyspaceByID(id)
	if space == nil || space.OwningIndex() != "" || r.Keyspace != nil && space != r.Keyspace {
		return nil // of the system, or dropped since, or what others follow
	}
	out := FeedOp{Keyspace: space.Name, Deleted: op.Delete}
	key, element, err := space.Split(nil, p)
	if err != nil {
		return err
	}
	out.Key = key
	if len(element) > 0 {
		name := command.FieldName(element)
		if name == nil {
			return nil // a chunk of a string, whose own row is written too
		}
		out.Field = append([]byte{}, name...)
	}
	if !op.Delete {
		row, err := command.DecodeRow(op.Value)
		if err != nil {
			return fmt.Errorf("feed of %s: %w", space.Name, err)
		}
		out.ExpiryMS = row.ExpiryMS
		if row.Kind == command.String || row.Kind == command.Element {
			out.Value = append([]byte{}, row.Payload...)
		}
		out.Large = row.Kind == command.Chunked
		if row.Kind != command.Element {
			out.Version = row.Version
		}
		out.Created = row.Kind == command.Hash && row.Generation == row.Version
	}
	change.ops++
	r.Append(&change.change, out)
	return nil
}

// Head returns the place in the feed behind all that is in it, also of a closed store.
func (db *DB) Head() string {
	var stores []*store.Store
	for _, h := range db.node.StoreHosts() {
		stores = append(stores, h.Store)
	}
	return db.FormatCursor(store.PositionsOf(stores...)) // also of closed stores
}

// StableHead returns a place in the feed behind all that was acknowledged before the call: it waits for
// the decided transactions across stores, whose writes reach the feed after they are acknowledged.
func (db *DB) StableHead(ctx context.Context) (string, error) {
	if err := db.node.ResolveDecided(ctx); err != nil {
		return "", err
	}
	return db.Head(), nil
}

// FormatCursor returns the cursor of positions in the logs of the stores. It begins with
// a piece of the first one's identity: a copy that was restored from a backup goes on
// with other changes at the same positions.
func (db *DB) FormatCursor(pos []wal.Position) string {
	var room [64]byte // of most: it is made for each change
	b := append(room[:0], db.cursorTag...)
	for _, p := range pos {
		b = strconv.AppendUint(append(b, '-'), uint64(p), 16)
	}
	return string(b)
}

// parseCursor is the inverse of FormatCursor. An empty cursor is the beginning of the store.
func (db *DB) parseCursor(c string) ([]wal.Position, error) {
	pos := make([]wal.Position, len(db.node.StoreHosts()))
	if c == "" {
		return pos, nil
	}
	words := strings.Split(string(c), "-")
	if len(words) != len(pos)+1 || len(words[0]) != len(db.cursorTag) {
		return nil, optionErrorf("cursor %q is not of this store: use one of its feed or of Head, or an empty one", c)
	}
	if words[0] != db.cursorTag {
		return nil, fmt.Errorf("%w: cursor %q is of another store, or of the one that this was restored from: read the data, and follow the feed from where you read", store.ErrGone, c)
	}
	for i, w := range words[1:] {
		n, err := strconv.ParseUint(w, 16, 64)
		if err != nil {
			return nil, optionErrorf("cursor %q is not of this store: use one of its feed or of Head, or an empty one", c)
		}
		pos[i] = wal.Position(n)
	}
	return pos, nil
}

// KeyEvent is what a command did to a key.
type KeyEvent struct {
	Keyspace string
	Key      []byte
	Event    command.Event
}

// FollowEvents visits the events of keys that are committed after a place in the feed, in the order
// of the commits, until ctx ends, whose error it then returns. Those that were committed while the
// node did not record them are missing: see [node.Node.RecordEvents].
func (db *DB) FollowEvents(ctx context.Context, from string, visit func(KeyEvent)) error {
	r, err := db.newLogReader(from)
	if err != nil {
		return err
	}
	r.KeyEvents = true
	for {
		more := db.node.NextCommit() // before it looks, so that nothing slips through
		found := false
		for i, h := range db.node.StoreHosts() {
			batch, err := feed.ReadBatch(&r, i, h.Store, ctx.Err, db.appendEvent)
			found = found || len(batch) > 0
			feed.Deliver(&r, i, batch, func(events *[]KeyEvent) bool {
				for _, e := range *events {
					visit(e)
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

// appendEvent adds the event of a key of a user's keyspace.
func (db *DB) appendEvent(events *[]KeyEvent, op effect.Op) error {
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := db.node.KeyspaceByID(id)
	if space == nil || space.OwningIndex() != "" || len(op.Value) != 1 {
		return nil // of the system, or dropped since, or what others follow, or of a newer version
	}
	key, _, err := space.Split(nil, p)
	if err != nil {
		return err
	}
	*events = append(*events, KeyEvent{Keyspace: space.Name, Key: key, Event: command.Event(op.Value[0])})
	return nil
}
