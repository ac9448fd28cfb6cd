package server

import (
	"bytes"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() { registerBlockingHandlers(map[string]func(*call){"cleave.range": handleRange}) }

const (
	// defaultPageItems is how many a page has if the request has no limit, and maxPageBytes how much it
	// may have before it ends.
	defaultPageItems = 100
	maxPageBytes     = 32 << 20
)

// rangeOptions are what a CLEAVE.RANGE asks for.
type rangeOptions struct {
	cleave.ScanOptions
	withValues bool
	cursor     []byte // as the client has given it
}

// cursorBinding is what the cursors of a request are bound to.
func (o *rangeOptions) cursorBinding(space *cleave.Keyspace) string {
	return cursorBinding("range", space.Name(), "", o.Reverse)
}

// handleRange returns keys in order. The cursor is the last key, sealed, so it stays good whatever
// happens to the keys, the shards and the server.
func handleRange(t *call) {
	space, err := t.s.db.Keyspace(t.c.keyspace.Name)
	var o rangeOptions
	if err == nil {
		o, err = parseRange(t.Args[1:])
	}
	if err == nil {
		var place []byte
		if place, err = t.s.cursorCipher.open(o.cursor, o.cursorBinding(space)); place != nil {
			o.After = space.After(place)
		}
	}
	var items []cleave.Item
	next := "0"
	if err == nil {
		err = t.s.withKeyspace(t.ctx, t.c.keyspace, func() (err error) {
			items, next, err = t.readRangePage(space, o)
			return err
		})
	}
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	t.out.Array(2)
	t.out.Text(next)
	if !o.withValues {
		t.out.Array(len(items))
	} else {
		t.out.Array(2 * len(items))
	}
	for _, item := range items {
		t.out.Bulk(item.Key)
		switch {
		case o.withValues && item.Value == nil:
			t.out.Null() // a hash: HGETALL has its fields
		case o.withValues:
			t.out.Bulk(item.Value)
		}
	}
}

// readRangePage reads a page, and returns the cursor of the next one.
func (t *call) readRangePage(space *cleave.Keyspace, o rangeOptions) (items []cleave.Item, next string, err error) {
	limit, size, seen := o.Limit, 0, 0
	if o.Limit++; o.withValues {
		o.Limit = 0 // values may be large: they come one by one, and the page ends in time
	}
	var last []byte
	for item, err := range space.Scan(t.ctx, o.ScanOptions) {
		if err != nil {
			return nil, "0", err
		}
		if seen == limit || size > maxPageBytes {
			return items, t.s.cursorCipher.seal(last, o.cursorBinding(space)), nil
		}
		last, seen, size = item.Key, seen+1, size+len(item.Key)+len(item.Value)
		if t.canRead(item.Key) {
			items = append(items, item)
		}
	}
	return items, "0", nil
}

// canRead reports whether the client may see a key that it has not named.
func (t *call) canRead(key []byte) bool {
	u := t.c.account.User()
	return u.IsUnlimited() || u.CanAccessKey(key, acl.Read)
}

// parseRange reads the bounds and the options.
func parseRange(words [][]byte) (o rangeOptions, err error) {
	o.Limit, o.KeysOnly, o.cursor = defaultPageItems, true, firstCursor
	if o.Start, err = parseLowerBound(words[0]); err != nil {
		return o, err
	}
	if o.End, err = parseUpperBound(words[1]); err != nil {
		return o, err
	}
	for words = words[2:]; len(words) > 0; words = words[1:] {
		more := len(words) > 1
		switch word := words[0]; {
		case redis.IsKeyword(word, "REV"):
			o.Reverse = true
		case redis.IsKeyword(word, "WITHVALUES"):
			o.withValues, o.KeysOnly = true, false
		case redis.IsKeyword(word, "PREFIX") && more:
			o.Prefix, words = words[1], words[1:]
		case redis.IsKeyword(word, "LIMIT") && more:
			if o.Limit, err = parseLimit(words[1]); err != nil {
				return o, err
			}
			words = words[1:]
		case redis.IsKeyword(word, "CURSOR") && more:
			o.cursor, words = words[1], words[1:]
		default:
			return o, redis.ErrSyntax
		}
	}
	if o.Prefix != nil && (o.Start != nil || o.End != nil) {
		return o, redis.Error("ERR PREFIX goes with the bounds - and + alone")
	}
	return o, nil
}

// parseLimit reads how many a page is to have.
func parseLimit(word []byte) (int, error) {
	n, err := strconv.Atoi(string(word))
	if err != nil || n < 1 {
		return 0, redis.Error("ERR LIMIT is not a number from 1 on")
	}
	return min(n, maxPageKeys), nil
}

const errBound = redis.Error("ERR min or max not valid string range item")

// parseLowerBound reads where keys begin: "-" for all, "[key" for a key and those behind it,
// "(key" for those behind it alone.
func parseLowerBound(word []byte) ([]byte, error) {
	switch {
	case string(word) == "-":
		return nil, nil
	case len(word) > 1 && word[0] == '[':
		return word[1:], nil
	case len(word) > 1 && word[0] == '(':
		return append(bytes.Clone(word[1:]), 0), nil
	}
	return nil, errBound
}

// parseUpperBound reads where keys end: "+" for all, "[key" for a key and those before it,
// "(key" for those before it alone.
func parseUpperBound(word []byte) ([]byte, error) {
	switch {
	case string(word) == "+":
		return nil, nil
	case len(word) > 1 && word[0] == '[':
		return append(bytes.Clone(word[1:]), 0), nil
	case len(word) > 1 && word[0] == '(':
		return word[1:], nil
	}
	return nil, errBound
}

// firstCursor is the beginning.
var firstCursor = []byte("0")
