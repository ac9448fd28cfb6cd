package cleave

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// Cursor is a place in the feed. It may be kept anywhere and used again, also
// by another process. Empty means the beginning of the store.
type Cursor string

// Covers tells whether all that comes before the other place in the feed comes before
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
		same = reached(a, b) && left == more
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
		case reached(mine[i], theirs[i]):
		case reached(theirs[i], mine[i]):
			mine[i] = theirs[i]
		default:
			return c
		}
	}
	return Cursor(strings.Join(mine, "-"))
}

// reached tells whether a position is not before another, as they are in cursors.
func reached(a, b string) bool {
	p, err1 := strconv.ParseUint(a, 16, 64)
	q, err2 := strconv.ParseUint(b, 16, 64)
	return err1 == nil && err2 == nil && p >= q
}

// Before tells whether the change comes before a place in the same feed: whoever goes
// on from there does not meet it. It is false if the place is of another feed.
func (c *Change) Before(place Cursor) bool {
	tag, there, _ := strings.Cut(string(place), "-")
	myTag, mine, _ := strings.Cut(string(c.After), "-")
	var a, b string
	for range c.store + 1 {
		a, there, _ = strings.Cut(there, "-")
		b, mine, _ = strings.Cut(mine, "-")
	}
	return tag == myTag && reached(a, b)
}

// Now returns the place in the feed behind all that is in it, to follow it from there on.
// After Close that is the place from which to go on when the store is open again. Who
// waits for his own writes wants [DB.Settled].
func (db *DB) Now() Cursor {
	var stores []*store.Store
	for _, h := range db.node.Hosts() {
		stores = append(stores, h.Store)
	}
	return db.cursorOf(store.Positions(stores...)) // also of closed stores
}

// Settled returns a place in the feed behind all that was acknowledged before the call:
// who has come that far in the feed knows of it. What a transaction across stores has
// written reaches the feed a moment after it was acknowledged; Settled waits for that.
func (db *DB) Settled(ctx context.Context) (Cursor, error) {
	if err := db.node.SettleDecided(ctx); err != nil {
		return "", public(err)
	}
	return db.Now(), nil
}

// cursorOf returns the cursor of positions in the logs of the stores. It begins with
// a piece of the first one's identity: a copy that was restored from a backup goes on
// with other changes at the same positions.
func (db *DB) cursorOf(pos []wal.Position) Cursor {
	var room [64]byte // of most: it is made for each change
	b := append(room[:0], db.tag...)
	for _, p := range pos {
		b = strconv.AppendUint(append(b, '-'), uint64(p), 16)
	}
	return Cursor(b)
}

func (db *DB) positions(c Cursor) ([]wal.Position, error) {
	pos := make([]wal.Position, len(db.node.Hosts()))
	if c == "" {
		return pos, nil
	}
	words := strings.Split(string(c), "-")
	if len(words) != len(pos)+1 || len(words[0]) != len(db.tag) {
		return nil, optionError("cursor %q is not of this store: use one of its feed or of Now, or an empty one", c)
	}
	if words[0] != db.tag {
		return nil, fmt.Errorf("%w: cursor %q is of another store, or of the one that this was restored from: read the data, and follow the feed from where you read", ErrGone, c)
	}
	for i, w := range words[1:] {
		n, err := strconv.ParseUint(w, 16, 64)
		if err != nil {
			return nil, optionError("cursor %q is not of this store: use one of its feed or of Now, or an empty one", c)
		}
		pos[i] = wal.Position(n)
	}
	return pos, nil
}
