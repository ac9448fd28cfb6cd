package cleave

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/engine"
)

// Change is what one commit changed in one store: a command, a batch or a
// transaction, or several that were committed together. All of it happened at once.
// A transaction across stores is a change in each of them, and these do not name each
// other: a reader that needs it whole keeps what belongs together in one store, or writes an id
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
	// Created reports whether this is a hash that was made just now: it has no fields
	// but those that are named after it. An older one that had expired may have
	// had others, which are not named.
	Created bool
	// Large reports whether the key holds a long string that was changed in place, by APPEND
	// or SETRANGE say: the feed does not have all of the value, and Item.Value is nil.
	// Read the key.
	Large bool
	// Item is its value, version and expiry. A field has a value alone. The Value
	// of a hash itself is nil.
	Item Item
}

// FeedOptions specify what of the feed is read. The zero value is all, from the beginning of
// the store on, without an end.
type FeedOptions struct {
	// From is the place behind which reading begins. Default the beginning of the store.
	From Cursor
	// Until is the place at which the feed ends: it waits only for what is not committed
	// yet. That of [DB.StableHead] has all that was acknowledged before. Default no end.
	Until Cursor
	// Progress also reports how far the feed has come when nothing was changed, by a Change
	// that has a place and no Ops. The store commits things of its own: without Progress
	// a reader that waits until it has seen all up to a Cursor of Head may wait for ever.
	Progress bool
}

// Feed yields what is committed after a place, in the order of the commits, up to another
// one if o.Until is set. Without it Feed waits for more until ctx ends, whose error it then
// yields. Every commit to one store comes once and in order; those to different stores come
// in any order, but those to one key in theirs, wherever it is moved. Keys of keyspaces that
// were dropped since are left out, and so are the entries of indexes: they follow from the
// rows. If the place is no longer kept, the error is ErrGone: read the data, and follow the
// feed from a Cursor that Head returned before you began, or from that of the [Txn] that has
// read it. Each reader reads the log by itself: for many that wait for some keys, package
// watch has one for all.
func (db *DB) Feed(ctx context.Context, o FeedOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		r := engine.FeedReader[Change]{Progress: o.Progress}
		r.Append = func(c *Change, op engine.FeedOp) { c.insertOp(toChangeOp(op)) }
		r.Yield = func(store int, after string, c *Change) bool {
			if c == nil {
				c = new(Change)
			}
			c.After, c.store = Cursor(after), store
			return yield(*c, nil)
		}
		err := r.Open(db.engine, string(o.From), string(o.Until))
		if err == nil {
			err = r.Run(ctx)
		}
		if err != nil {
			yield(Change{}, toPublicError(err))
		}
	}
}

func toChangeOp(op engine.FeedOp) ChangeOp {
	out := ChangeOp{Keyspace: op.Keyspace, Key: op.Key, Field: op.Field, Deleted: op.Deleted, Created: op.Created, Large: op.Large}
	if !op.Deleted {
		out.Item = Item{Key: op.Key, Value: op.Value, Version: op.Version, Expires: toExpiryTime(op.ExpiryMS)}
	}
	return out
}

// insertOp adds an operation. A hash is written after the fields that it is made
// with, but yielded before them.
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
// where a reader of both goes on. If they are of different feeds, or one of them is
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

// Before reports whether the change comes before a place in the same feed: a reader that
// goes on from there does not meet it. It is false if the place is of another feed.
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
// After Close that is the place from which to go on when the store is open again. A caller that
// waits for its own writes uses [DB.StableHead].
func (db *DB) Head() Cursor { return Cursor(db.engine.Head()) }

// StableHead returns a place in the feed behind all that was acknowledged before the call:
// a reader that has come that far in the feed has seen it. What a transaction across stores has
// written reaches the feed a moment after it was acknowledged; StableHead waits for that.
func (db *DB) StableHead(ctx context.Context) (Cursor, error) {
	c, err := db.engine.StableHead(ctx)
	return Cursor(c), toPublicError(err)
}
