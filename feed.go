package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
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
// ErrGone: read the data, and follow the feed from a Cursor that Now returned
// before you began, or from that of the [Txn] that has read it. Each reader reads the
// log by itself: for many who wait for some keys, package watch has one for all.
func (db *DB) Feed(ctx context.Context, from Cursor) iter.Seq2[Change, error] {
	return db.feed(ctx, from, nil, false)
}

// FeedUntil yields what is committed after a place and up to another one, as Feed
// does, and ends there. It waits only for what is not committed yet. That of
// [DB.Settled] has all that was acknowledged before.
func (db *DB) FeedUntil(ctx context.Context, from, to Cursor) iter.Seq2[Change, error] {
	return db.feed(ctx, from, &to, false)
}

// Progress is Feed that also tells how far it has come when nothing was changed: the
// store commits things of its own, and a reader who waits until it has seen all up to
// a Cursor of Now would wait for ever behind one. Such a Change has a place and no Ops.
func (db *DB) Progress(ctx context.Context, from Cursor) iter.Seq2[Change, error] {
	return db.feed(ctx, from, nil, true)
}

// feed reads from a place on, up to another one if there is one.
func (db *DB) feed(ctx context.Context, from Cursor, to *Cursor, progress bool) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		r, err := db.feedReader(from, yield)
		if r.progress = progress; err == nil && to != nil {
			r.To, err = db.positions(*to)
		}
		if err != nil {
			yield(Change{}, err)
			return
		}
		for {
			more := db.node.Committed() // before it looks, so that nothing slips through
			found, err := r.round(ctx, db.node.Hosts())
			switch {
			case errors.Is(err, errStop):
				return
			case err != nil:
				yield(Change{}, public(err))
				return
			case r.AtEnd():
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

// feedReader reads ahead of its consumer, who may take its time: meanwhile the
// store is free to recycle its log, and to close.
type feedReader struct {
	feed.Reader
	db    *DB
	yield func(Change, error) bool
	// only is the keyspace that the changes are of; nil for all of users.
	only *node.Space
	// progress tells that places are yielded without changes too. Then silent is
	// whether the last one was not.
	progress, silent bool
}

// feedReader returns a reader from a place on.
func (db *DB) feedReader(from Cursor, yield func(Change, error) bool) (feedReader, error) {
	at, err := db.positions(from)
	if err == nil {
		err = db.kept(at)
	}
	return feedReader{db: db, yield: yield, Reader: feed.Reader{At: at, MaxCommits: feedAhead, MaxBytes: feedAheadBytes}}, err
}

// kept returns ErrGone if a place is not kept by one of the stores. Who begins to read is
// told so before it hears of what others have.
func (db *DB) kept(at []wal.Position) error {
	for i, h := range db.node.Hosts() {
		_, err := h.Store.Feed(at[i], func(store.Committed) error { return errStop })
		if err != nil && !errors.Is(err, errStop) {
			return public(err)
		}
	}
	return nil
}

var errStop = errors.New("cleave: the reader has stopped")

// round yields the next changes of each store, and tells whether there were any.
func (r *feedReader) round(ctx context.Context, hosts []*node.Host) (found bool, err error) {
	for i, h := range hosts {
		if r.Ended(i) {
			continue
		}
		before := r.At[i]
		batch, err := feed.Read(&r.Reader, i, h.Store, ctx.Err, r.add)
		r.silent = r.silent || r.At[i] != before // there was no commit to tell
		found = found || len(batch) > 0
		if !feed.Tell(&r.Reader, i, batch, func(c *Change) bool { return r.tell(i, c) }) {
			return found, errStop
		}
		if err != nil {
			return found, err
		}
		if r.progress && r.silent {
			r.silent = false
			if !r.yield(Change{After: r.db.cursorOf(r.At)}, nil) {
				return found, errStop
			}
		}
	}
	return found, nil
}

// tell yields a change of a store, unless it is of the system.
func (r *feedReader) tell(store int, c *Change) bool {
	if r.silent = len(c.Ops) == 0; r.silent {
		return true
	}
	c.After, c.store = r.db.cursorOf(r.At), store
	return r.yield(*c, nil)
}

const (
	// feedAhead and feedAheadBytes bound what is read ahead, unless one change
	// is larger.
	feedAhead      = 1024
	feedAheadBytes = 1 << 20
)

// add turns an effect on a row of a user's keyspace into an operation.
func (r *feedReader) add(change *Change, op effect.Op) error {
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := r.db.node.KeyspaceByID(id)
	if space == nil || space.OfIndex() != "" || r.only != nil && space != r.only {
		return nil // of the system, or dropped since, or what others follow
	}
	out := ChangeOp{Keyspace: space.Name, Deleted: op.Delete}
	key, element, err := space.Split(nil, p)
	if err != nil {
		return err
	}
	out.Key = key
	if len(element) > 0 {
		out.Field = append([]byte{}, command.FieldName(element)...)
	}
	if !op.Delete {
		row, err := command.DecodeRow(op.Value)
		if err != nil {
			return fmt.Errorf("feed of %s: %w", space.Name, err)
		}
		out.Item = Item{Key: key, Expires: expiryTime(row.ExpiryMS)}
		if row.Kind != command.Hash {
			out.Item.Value = append([]byte{}, row.Payload...)
		}
		if row.Kind != command.Element {
			out.Item.Version = row.Version
		}
		out.Created = row.Kind == command.Hash && row.Generation == row.Version
	}
	change.add(out)
	return nil
}

// add adds an operation. A hash is written after the fields that it is made
// with, but told before them.
func (c *Change) add(op ChangeOp) {
	at := len(c.Ops)
	for op.Created && at > 0 && c.Ops[at-1].Field != nil && c.Ops[at-1].Keyspace == op.Keyspace && bytes.Equal(c.Ops[at-1].Key, op.Key) {
		at--
	}
	c.Ops = slices.Insert(c.Ops, at, op)
}
