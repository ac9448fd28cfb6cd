package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
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

// Change is what one commit changed in one store: a command, a batch or a
// transaction, or several that were committed together. All of it happened at once.
// A transaction across stores is a change in each of them, and these do not name each
// other: who needs it whole keeps what belongs together in one store, or writes an id
// of its own into the rows.
type Change struct {
	Ops []ChangeOp
	// After is the place in the feed behind this change: keep it with what you
	// made of the change.
	After Cursor

	store int // whose commit it is
}

// ChangeOp is one key, or one field of a hash, that was written or deleted.
type ChangeOp struct {
	Keyspace string
	Key      []byte
	// Field is the field of a hash; nil if it is about the key itself.
	Field []byte
	// Deleted means that it is gone: deleted, or expired some time ago. The fields
	// of a hash that is deleted or replaced by another type are gone with it; they
	// may be named later as deleted, when the room that they take is given back.
	Deleted bool
	// Created tells that this is a hash that was made just now: it has no fields
	// but those that are named after it. An older one that had expired may have
	// had others, which are not named.
	Created bool
	// Large tells that the key holds a long string that was changed in place, by APPEND
	// or SETRANGE say: the feed does not have all of the value, and Item.Value is nil.
	// Read the key.
	Large bool
	// Item is its value, version and expiry. A field has a value alone. The Value
	// of a hash itself is nil.
	Item Item
}

// Feed yields what is committed after a place, in the order of the commits, and
// waits for more until ctx ends, whose error it then yields. Every commit to one
// store comes once and in order; those to different stores come in any order, but
// those to one key in theirs, wherever it is moved. Keys of keyspaces that were
// dropped since are left out, and so are the entries of indexes: they follow from the
// rows. If the place is no longer kept, the error is
// ErrGone: read the data, and follow the feed from a Cursor that Head returned
// before you began, or from that of the [Txn] that has read it. Each reader reads the
// log by itself: for many who wait for some keys, package watch has one for all.
func (db *DB) Feed(ctx context.Context, from Cursor) iter.Seq2[Change, error] {
	return db.readFeed(ctx, from, nil, false)
}

// FeedUntil yields what is committed after a place and up to another one, as Feed
// does, and ends there. It waits only for what is not committed yet. That of
// [DB.Settled] has all that was acknowledged before.
func (db *DB) FeedUntil(ctx context.Context, from, to Cursor) iter.Seq2[Change, error] {
	return db.readFeed(ctx, from, &to, false)
}

// Progress is Feed that also tells how far it has come when nothing was changed: the
// store commits things of its own, and a reader who waits until it has seen all up to
// a Cursor of Head would wait for ever behind one. Such a Change has a place and no Ops.
func (db *DB) Progress(ctx context.Context, from Cursor) iter.Seq2[Change, error] {
	return db.readFeed(ctx, from, nil, true)
}

// readFeed reads from a place on, up to another one if there is one.
func (db *DB) readFeed(ctx context.Context, from Cursor, to *Cursor, progress bool) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		r, err := db.newFeedReader(from, yield)
		if r.reportsProgress = progress; err == nil && to != nil {
			r.Until, err = db.parseCursor(*to)
		}
		if err != nil {
			yield(Change{}, err)
			return
		}
		for {
			more := db.node.NextCommit() // before it looks, so that nothing slips through
			found, err := r.readNext(ctx, db.node.StoreHosts())
			switch {
			case errors.Is(err, errStop):
				return
			case err != nil:
				yield(Change{}, toPublicError(err))
				return
			case r.IsDone():
				return
			case found:
				continue
			}
			select {
			case <-ctx.Done():
				yield(Change{}, ctx.Err())
				return
			case <-more:
			}
		}
	}
}

// newFeedReader reads ahead of its consumer, who may take its time: meanwhile the
// store is free to recycle its log, and to close.
type feedReader struct {
	feed.Reader
	db    *DB
	yield func(Change, error) bool
	// keyspace is the keyspace that the changes are of; nil for all of users.
	keyspace *node.Keyspace
	// reportsProgress tells that places are yielded without changes too. Then silent is
	// whether the last one was not.
	reportsProgress, unreported bool
}

// newFeedReader returns a reader from a place on.
func (db *DB) newFeedReader(from Cursor, yield func(Change, error) bool) (feedReader, error) {
	at, err := db.parseCursor(from)
	if err == nil {
		err = db.checkRetained(at)
	}
	return feedReader{db: db, yield: yield, Reader: feed.Reader{Positions: at, MaxCommits: readAheadCommits, MaxBytes: readAheadBytes}}, err
}

// checkRetained returns ErrGone if a place is not kept by one of the stores. Who begins to read is
// told so before it hears of what others have.
func (db *DB) checkRetained(at []wal.Position) error {
	for i, h := range db.node.StoreHosts() {
		_, err := h.Store.Feed(at[i], func(store.FeedEntry) error { return errStop })
		if err != nil && !errors.Is(err, errStop) {
			return toPublicError(err)
		}
	}
	return nil
}

var errStop = errors.New("cleave: the reader has stopped")

// readNext yields the next changes of each store, and reports whether there were any.
func (r *feedReader) readNext(ctx context.Context, hosts []*node.StoreHost) (found bool, err error) {
	for i, h := range hosts {
		if r.IsStoreDone(i) {
			continue
		}
		before := r.Positions[i]
		batch, err := feed.ReadBatch(&r.Reader, i, h.Store, ctx.Err, r.appendEffect)
		r.unreported = r.unreported || r.Positions[i] != before // there was no commit to tell
		found = found || len(batch) > 0
		if !feed.Deliver(&r.Reader, i, batch, func(c *Change) bool { return r.yieldChange(i, c) }) {
			return found, errStop
		}
		if err != nil {
			return found, err
		}
		if r.reportsProgress && r.unreported {
			r.unreported = false
			if !r.yield(Change{After: r.db.formatCursor(r.Positions)}, nil) {
				return found, errStop
			}
		}
	}
	return found, nil
}

// yieldChange yields a change of a store, unless it is of the system.
func (r *feedReader) yieldChange(store int, c *Change) bool {
	if r.unreported = len(c.Ops) == 0; r.unreported {
		return true
	}
	c.After, c.store = r.db.formatCursor(r.Positions), store
	return r.yield(*c, nil)
}

const (
	// readAheadCommits and readAheadBytes bound what is read ahead, unless one change
	// is larger.
	readAheadCommits = 1024
	readAheadBytes   = 1 << 20
)

// appendEffect turns an effect on a row of a user's keyspace into an operation.
func (r *feedReader) appendEffect(change *Change, op effect.Op) error {
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := r.db.node.KeyspaceByID(id)
	if space == nil || space.OwningIndex() != "" || r.keyspace != nil && space != r.keyspace {
		return nil // of the system, or dropped since, or what others follow
	}
	out := ChangeOp{Keyspace: space.Name, Deleted: op.Delete}
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
		out.Item = Item{Key: key, Expires: toExpiryTime(row.ExpiryMS)}
		if row.Kind == command.String || row.Kind == command.Element {
			out.Item.Value = append([]byte{}, row.Payload...)
		}
		out.Large = row.Kind == command.Chunked
		if row.Kind != command.Element {
			out.Item.Version = row.Version
		}
		out.Created = row.Kind == command.Hash && row.Generation == row.Version
	}
	change.insertOp(out)
	return nil
}

// insertOp adds an operation. A hash is written after the fields that it is made
// with, but told before them.
func (c *Change) insertOp(op ChangeOp) {
	at := len(c.Ops)
	for op.Created && at > 0 && c.Ops[at-1].Field != nil && c.Ops[at-1].Keyspace == op.Keyspace && bytes.Equal(c.Ops[at-1].Key, op.Key) {
		at--
	}
	c.Ops = slices.Insert(c.Ops, at, op)
}

// Cursor is a place in the feed. It may be kept anywhere and used again, also
// by another process. Empty means the beginning of the store.
type Cursor string

// Covers reports whether all that comes before the other place in the feed comes before
// this one too. Of two places each may have something before it that the other has
// not: commits to different stores come in any order. It is false for places of the
// feeds of two stores, and for what is no place.
func (c Cursor) Covers(other Cursor) bool {
	if other == "" {
		return true
	}
	tag, mine, _ := strings.Cut(string(c), "-")
	otherTag, theirs, more := strings.Cut(string(other), "-")
	same := tag == otherTag
	for same && more {
		var a, b string
		var left bool
		a, mine, left = strings.Cut(mine, "-")
		b, theirs, more = strings.Cut(theirs, "-")
		same = isAtOrAfter(a, b) && left == more
	}
	return same
}

// Join returns the place behind all that comes before this place or before the other one:
// where somebody goes on who knows both. If they are of different feeds, or one of them is
// no place, it is this one.
func (c Cursor) Join(other Cursor) Cursor {
	if c.Covers(other) {
		return c
	}
	if other.Covers(c) {
		return other
	}
	mine, theirs := strings.Split(string(c), "-"), strings.Split(string(other), "-")
	if len(mine) != len(theirs) || mine[0] != theirs[0] {
		return c
	}
	for i := 1; i < len(mine); i++ {
		switch {
		case isAtOrAfter(mine[i], theirs[i]):
		case isAtOrAfter(theirs[i], mine[i]):
			mine[i] = theirs[i]
		default:
			return c
		}
	}
	return Cursor(strings.Join(mine, "-"))
}

// isAtOrAfter reports whether a position is not before another, as they are in cursors.
func isAtOrAfter(a, b string) bool {
	p, err1 := strconv.ParseUint(a, 16, 64)
	q, err2 := strconv.ParseUint(b, 16, 64)
	return err1 == nil && err2 == nil && p >= q
}

// Before reports whether the change comes before a place in the same feed: whoever goes
// on from there does not meet it. It is false if the place is of another feed.
func (c *Change) Before(place Cursor) bool {
	tag, there, _ := strings.Cut(string(place), "-")
	myTag, mine, _ := strings.Cut(string(c.After), "-")
	var a, b string
	for range c.store + 1 {
		a, there, _ = strings.Cut(there, "-")
		b, mine, _ = strings.Cut(mine, "-")
	}
	return tag == myTag && isAtOrAfter(a, b)
}

// Head returns the place in the feed behind all that is in it, to follow it from there on.
// After Close that is the place from which to go on when the store is open again. Who
// waits for his own writes wants [DB.Settled].
func (db *DB) Head() Cursor {
	var stores []*store.Store
	for _, h := range db.node.StoreHosts() {
		stores = append(stores, h.Store)
	}
	return db.formatCursor(store.PositionsOf(stores...)) // also of closed stores
}

// Settled returns a place in the feed behind all that was acknowledged before the call:
// who has come that far in the feed knows of it. What a transaction across stores has
// written reaches the feed a moment after it was acknowledged; Settled waits for that.
func (db *DB) Settled(ctx context.Context) (Cursor, error) {
	if err := db.node.ResolveDecided(ctx); err != nil {
		return "", toPublicError(err)
	}
	return db.Head(), nil
}

// formatCursor returns the cursor of positions in the logs of the stores. It begins with
// a piece of the first one's identity: a copy that was restored from a backup goes on
// with other changes at the same positions.
func (db *DB) formatCursor(pos []wal.Position) Cursor {
	var room [64]byte // of most: it is made for each change
	b := append(room[:0], db.cursorTag...)
	for _, p := range pos {
		b = strconv.AppendUint(append(b, '-'), uint64(p), 16)
	}
	return Cursor(b)
}

func (db *DB) parseCursor(c Cursor) ([]wal.Position, error) {
	pos := make([]wal.Position, len(db.node.StoreHosts()))
	if c == "" {
		return pos, nil
	}
	words := strings.Split(string(c), "-")
	if len(words) != len(pos)+1 || len(words[0]) != len(db.cursorTag) {
		return nil, optionErrorf("cursor %q is not of this store: use one of its feed or of Head, or an empty one", c)
	}
	if words[0] != db.cursorTag {
		return nil, fmt.Errorf("%w: cursor %q is of another store, or of the one that this was restored from: read the data, and follow the feed from where you read", ErrGone, c)
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
