package server

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
)

func init() { registerBlockingHandlers(map[string]func(*call){"cleave.range": handleRange}) }

const (
	// defaultPageItems is how many a page has if nobody says, and maxPageBytes how much it
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

// redactRows is an error without the keys and values of rows that the client may not be allowed to read.
func redactRows(err error) error {
	var unique *cleave.UniqueError
	if errors.As(err, &unique) {
		return redis.Error(fmt.Sprintf("ERR another row has the same entry in a unique index: index %q of keyspace %q", unique.Index, unique.Keyspace))
	}
	return err
}

// clientError is an error of package cleave as clients are told of it.
func clientError(err error) error {
	var known redis.Error
	err = redactRows(err)
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

// cursorCipher seal the places at which CLEAVE.RANGE and CLEAVE.INDEX SCAN go on. A place is a key or an indexed
// value of the last row that was looked at, and the client may not be allowed to read that row.
//
// A cursor is encrypted and authenticated, and bound to what it was made for: command, keyspace, index and
// direction. It is not bound to a user: it reveals nothing, and whoever goes on with it sees what it may read
// itself. The key is kept beside the data, so a cursor outlives a restart; if the key is lost or damaged, another one takes its
// place, and older cursors are refused.
type cursorCipher struct{ aead cipher.AEAD }

const (
	// cursorKeyFile has the key, in the directory of the data, and cursorKeyBytes is how long it is.
	cursorKeyFile  = "cursor-key"
	cursorKeyBytes = 32
	// cursorPadBytes is what the length of a place is rounded up to: how long a key is would tell something of it.
	cursorPadBytes = 64
)

const errCursor = redis.Error("ERR invalid cursor: it is none, is of another command, keyspace, index or direction, or the server has another key since: begin again with CURSOR 0")

// init makes the cursors of a server.
func (c *cursorCipher) init(s *Server) {
	key := make([]byte, cursorKeyBytes)
	_, _ = rand.Read(key) // never fails
	if s.opts.Dir != "" {
		key = loadCursorKey(s, filepath.Join(s.opts.Dir, cursorKeyFile), key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("serve: " + err.Error()) // the length is right
	}
	if c.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		panic("serve: " + err.Error())
	}
}

// loadCursorKey returns the key that is kept in a file, or keeps another one there.
func loadCursorKey(s *Server, path string, fresh []byte) []byte {
	text, err := os.ReadFile(path)
	if err == nil {
		if key, bad := hex.DecodeString(strings.TrimSpace(string(text))); bad == nil && len(key) == cursorKeyBytes {
			return key
		}
		s.opts.Log.Warn("the key of cursors is damaged: another one takes its place, and older cursors are refused", "file", path)
	}
	temporary := path + ".new"
	_ = os.Remove(temporary)
	err = os.WriteFile(temporary, []byte(hex.EncodeToString(fresh)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		s.opts.Log.Warn("the key of cursors cannot be kept: cursors are refused after a restart", "error", err)
	}
	return fresh
}

// seal returns the cursor of a place, which is some bytes that are not empty.
func (c *cursorCipher) seal(place []byte, of string) string {
	plain := append(append(make([]byte, 0, len(place)+cursorPadBytes), place...), 1)
	for len(plain)%cursorPadBytes != 0 {
		plain = append(plain, 0)
	}
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nil, nil, plain, []byte(of)))
}

// open is the opposite of seal. "0" is the beginning: nil.
func (c *cursorCipher) open(word []byte, of string) ([]byte, error) {
	if string(word) == "0" {
		return nil, nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(string(word))
	if err != nil {
		return nil, errCursor
	}
	plain, err := c.aead.Open(nil, nil, sealed, []byte(of))
	if err != nil {
		return nil, errCursor
	}
	return plain[:strings.LastIndexByte(string(plain), 1)], nil
}

// cursorBinding is what a cursor is bound to. No name has a zero byte.
func cursorBinding(command, keyspace, index string, reverse bool) string {
	direction := "forward"
	if reverse {
		direction = "reverse"
	}
	return strings.Join([]string{command, keyspace, index, direction}, "\x00")
}
