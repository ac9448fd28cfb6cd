package serve

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() { handleSlow(map[string]func(*turn){"cleave.range": keyRange}) }

const (
	// usualPage is how many a page has if nobody says, and maxPageBytes how much it
	// may have before it ends.
	usualPage    = 100
	maxPageBytes = 32 << 20
)

// rangeOptions are what a CLEAVE.RANGE asks for.
type rangeOptions struct {
	cleave.ScanOptions
	values bool
}

// keyRange returns keys in order. The cursor is the last key, so it stays good whatever
// happens to the keys, the shards and the server.
func keyRange(t *turn) {
	space, err := t.s.db.Keyspace(t.c.space.Name)
	var o rangeOptions
	if err == nil {
		o, err = readRange(space, t.Args[1:])
	}
	var items []cleave.Item
	next := "0"
	if err == nil {
		err = t.s.within(t.ctx, t.c.space, func() (err error) {
			items, next, err = t.rangePage(space, o)
			return err
		})
	}
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	t.out.Array(2)
	t.out.Text(next)
	if !o.values {
		t.out.Array(len(items))
	} else {
		t.out.Array(2 * len(items))
	}
	for _, item := range items {
		t.out.Bulk(item.Key)
		switch {
		case o.values && item.Value == nil:
			t.out.Null() // a hash: HGETALL has its fields
		case o.values:
			t.out.Bulk(item.Value)
		}
	}
}

// rangePage reads a page, and returns the cursor of the next one.
func (t *turn) rangePage(space *cleave.Keyspace, o rangeOptions) (items []cleave.Item, next string, err error) {
	limit, size, seen := o.Limit, 0, 0
	if o.Limit++; o.values {
		o.Limit = 0 // values may be large: they come one by one, and the page ends in time
	}
	var last []byte
	for item, err := range space.All(t.ctx, o.ScanOptions) {
		if err != nil {
			return nil, "0", err
		}
		if seen == limit || size > maxPageBytes {
			return items, cursorText(last), nil
		}
		last, seen, size = item.Key, seen+1, size+len(item.Key)+len(item.Value)
		if t.mayRead(item.Key) {
			items = append(items, item)
		}
	}
	return items, "0", nil
}

// mayRead tells whether the client may see a key that it has not named.
func (t *turn) mayRead(key []byte) bool {
	u := t.c.account.User()
	return u.All() || u.MayKey(key, acl.Read)
}

// readRange reads the bounds and the options.
func readRange(space *cleave.Keyspace, words [][]byte) (o rangeOptions, err error) {
	o.Limit, o.KeysOnly = usualPage, true
	if o.Start, err = lowerBound(words[0]); err != nil {
		return o, err
	}
	if o.End, err = upperBound(words[1]); err != nil {
		return o, err
	}
	for words = words[2:]; len(words) > 0; words = words[1:] {
		more := len(words) > 1
		switch word := words[0]; {
		case redis.Is(word, "REV"):
			o.Reverse = true
		case redis.Is(word, "WITHVALUES"):
			o.values, o.KeysOnly = true, false
		case redis.Is(word, "PREFIX") && more:
			o.Prefix, words = words[1], words[1:]
		case redis.Is(word, "LIMIT") && more:
			if o.Limit, err = limitOf(words[1]); err != nil {
				return o, err
			}
			words = words[1:]
		case redis.Is(word, "CURSOR") && more:
			key, err := readCursor(words[1])
			if err != nil {
				return o, err
			}
			if key != nil {
				o.After = space.After(key)
			}
			words = words[1:]
		default:
			return o, redis.ErrSyntax
		}
	}
	return o, nil
}

// limitOf reads how many a page is to have.
func limitOf(word []byte) (int, error) {
	n, err := strconv.Atoi(string(word))
	if err != nil || n < 1 {
		return 0, redis.Error("ERR LIMIT is not a number from 1 on")
	}
	return min(n, maxCount), nil
}

const errBound = redis.Error("ERR min or max not valid string range item")

// lowerBound reads where keys begin: "-" for all, "[key" for a key and those behind it,
// "(key" for those behind it alone.
func lowerBound(word []byte) ([]byte, error) {
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

// upperBound reads where keys end: "+" for all, "[key" for a key and those before it,
// "(key" for those before it alone.
func upperBound(word []byte) ([]byte, error) {
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

// cursorText is the cursor behind a place, which is some bytes that are not empty.
func cursorText(place []byte) string { return hex.EncodeToString(place) }

// readCursor is the opposite of cursorText. "0" is the beginning: nil.
func readCursor(word []byte) ([]byte, error) {
	if string(word) == "0" {
		return nil, nil
	}
	place, err := hex.DecodeString(string(word))
	if err != nil || len(place) == 0 {
		return nil, redis.Error("ERR invalid cursor")
	}
	return place, nil
}

// refused is an error of package cleave as clients are told of it.
func refused(err error) error {
	var known redis.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, cleave.ErrOverflow):
		return command.ErrOverflow
	case errors.Is(err, cleave.ErrNotInteger):
		return command.ErrNotInteger
	case errors.Is(err, cleave.ErrWrongType):
		return command.ErrWrongType
	}
	text := strings.TrimPrefix(err.Error(), "cleave: ")
	if errors.Is(err, cleave.ErrIndexBuilding) {
		text = strings.TrimSuffix(text, "use Wait") + "CLEAVE.INDEX INFO says when it is ready"
	}
	return redis.Error("ERR " + text)
}
