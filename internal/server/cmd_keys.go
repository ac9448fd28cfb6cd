package server

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/glob"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	registerBlockingHandlers(map[string]func(*call){"keys": handleKeys, "randomkey": handleRandomKey, "dbsize": handleDBSize,
		"cluster|countkeysinslot": handleCountKeysInSlot, "cluster|getkeysinslot": handleGetKeysInSlot})
}

// maxKeysBytes is how long the keys of one answer are together.
const maxKeysBytes = 256 << 20

func handleKeys(t *call) {
	pattern := t.Args[1]
	if err := checkNames("pattern", pattern); err != nil {
		t.out.Fail(err)
		return
	}
	if name, ok := glob.Literal(pattern); ok && command.CheckKey(name) == nil {
		t.writeKeyNames(t.findKey(name))
	} else {
		t.writeKeyNames(t.matchKeys(pattern))
	}
}

// findKey is the key of a name, if there is one.
func (t *call) findKey(name []byte) (found [][]byte, err error) {
	p := t.c.keyspace.AppendPosition(nil, name)
	err = t.s.withGroup(t.ctx, p, func(part *node.GroupHost) error {
		_, ok, err := part.Group.Read(t.ctx, p, nil)
		if found = nil; ok {
			found = [][]byte{name}
		}
		return err
	})
	return found, err
}

// matchKeys are the keys that fit a pattern.
func (t *call) matchKeys(pattern []byte) (found [][]byte, err error) {
	all, size := string(pattern) == "*", 0
	err = t.s.scanKeys(t.ctx, t.c.keyspace, t.c.keyspace.Span(), 0, func(k foundKey) bool {
		if all || glob.Match(pattern, k.name) {
			size += len(k.name)
			found = append(found, k.name)
		}
		return size <= maxKeysBytes
	})
	if size > maxKeysBytes {
		return nil, redis.Error("ERR too many keys for one answer: use SCAN")
	}
	return found, err
}

// writeKeyNames answers with names of keys.
func (t *call) writeKeyNames(names [][]byte, err error) {
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.out.Array(len(names))
	for _, n := range names {
		t.out.Bulk(n)
	}
}

// handleRandomKey returns the first key behind a position by chance: those behind a gap come
// more often than others.
func handleRandomKey(t *call) {
	space := t.c.keyspace
	from := space.Span().Start
	if space.Kind == partition.Hash {
		from = space.SlotSpan(uint16(rand.IntN(space.SlotCount()))).Start
	}
	var some []foundKey
	look := func(from partition.Position) error {
		return t.s.scanKeys(t.ctx, space, partition.Span{Start: from, End: space.Span().End}, 16, func(k foundKey) bool {
			some = append(some, k)
			return true
		})
	}
	err := look(from)
	if err == nil && len(some) == 0 {
		err = look(space.Span().Start)
	}
	switch {
	case err != nil:
		t.out.Fail(err)
	case len(some) == 0:
		t.out.Null()
	default:
		t.out.Bulk(some[rand.IntN(len(some))].name)
	}
}

func handleDBSize(t *call) {
	n := int64(0)
	err := t.s.surveyKeys(t.ctx, t.c.keyspace, t.c.keyspace.Span(), 0, func(foundKey) bool { n++; return true })
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.out.Int(n)
}

// parseSlot reads a slot.
func parseSlot(t *call) (slot uint16, ok bool) {
	n, err := strconv.Atoi(string(t.Args[2]))
	if err != nil || n < 0 || n >= t.c.keyspace.SlotCount() {
		t.out.Fail(redis.Error("ERR Invalid slot"))
		return 0, false
	}
	return uint16(n), true
}

func handleCountKeysInSlot(t *call) {
	if slot, ok := parseSlot(t); ok {
		n := int64(0)
		err := t.s.surveyKeys(t.ctx, t.c.keyspace, t.c.keyspace.SlotSpan(slot), 0, func(foundKey) bool { n++; return true })
		if err != nil {
			t.out.Fail(err)
			return
		}
		t.out.Int(n)
	}
}

func handleGetKeysInSlot(t *call) {
	slot, ok := parseSlot(t)
	if !ok {
		return
	}
	most, err := strconv.Atoi(string(t.Args[3]))
	if err != nil || most < 0 {
		t.out.Fail(redis.Error("ERR Invalid number of keys"))
		return
	}
	var found [][]byte
	if most > 0 {
		err = t.s.scanKeys(t.ctx, t.c.keyspace, t.c.keyspace.SlotSpan(slot), min(most, maxPageKeys), func(k foundKey) bool {
			found = append(found, k.name)
			return true
		})
	}
	t.writeKeyNames(found, err)
}

func init() {
	registerBlockingHandlers(map[string]func(*call){"scan": handleScan, "hscan": handleHScan})
}

// scanOptions are what a SCAN asks for.
type scanOptions struct {
	count     int
	pattern   []byte // nil for all
	kind      string // of values, empty for all
	namesOnly bool   // no values: of HSCAN
}

// maxPageKeys is how many keys a page looks at, whatever is asked for.
const maxPageKeys = 100_000

func parseScan(words [][]byte, of string) (o scanOptions, err error) {
	o.count = 10
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case redis.IsKeyword(word, "COUNT") && i+1 < len(words):
			i++
			n, ok := redis.Integer(words[i])
			if !ok {
				return o, redis.ErrNotInteger
			}
			if n < 1 {
				return o, redis.ErrSyntax
			}
			o.count = int(min(n, maxPageKeys))
		case redis.IsKeyword(word, "MATCH") && i+1 < len(words):
			i++
			if err := checkNames("pattern", words[i]); err != nil {
				return o, err
			}
			if o.pattern = words[i]; string(o.pattern) == "*" {
				o.pattern = nil
			}
		case redis.IsKeyword(word, "TYPE") && i+1 < len(words) && of == "scan":
			i++
			o.kind = strings.ToLower(string(words[i]))
		case redis.IsKeyword(word, "NOVALUES") && of == "hscan":
			o.namesOnly = true
		default:
			return o, redis.ErrSyntax
		}
	}
	return o, nil
}

func (o *scanOptions) matchesPattern(name []byte) bool {
	return o.pattern == nil || glob.Match(o.pattern, name)
}

// parseCursor reads a cursor as strtoul of C does, which Redis uses: a sign may be in front, a negative one counts from
// the end of 64 bits, and what follows a zero byte is not looked at.
func parseCursor(word []byte) (uint64, error) {
	digits, _, _ := strings.Cut(string(word), "\x00")
	if digits == "" {
		return 0, nil
	}
	negative := digits[0] == '-'
	if negative || digits[0] == '+' {
		digits = digits[1:]
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, redis.Error("ERR invalid cursor")
	}
	if negative {
		n = -n
	}
	return n, nil
}

// handleScan returns some keys. A page ends where a slot ends, so that the number of the next
// slot is a cursor that stays good whatever happens to the keys, and to the server. See
// scanCursors for slots with many keys.
func handleScan(t *call) {
	cursor, err := parseCursor(t.Args[1])
	var o scanOptions
	if err == nil {
		o, err = parseScan(t.Args[2:], "scan")
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	space := t.c.keyspace
	from, ok := t.s.scanCursors.startPosition(space, cursor)
	if !ok {
		t.writeScanPage(0, nil)
		return
	}
	var found []foundKey
	next, err := t.s.readPage(t.ctx, space, from, o.count, func(k foundKey) {
		if o.matchesPattern(k.name) && (o.kind == "" || o.kind == redis.TypeName(k.kind)) {
			found = append(found, k)
		}
	})
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.writeScanPage(t.s.scanCursors.cursorFor(space, next), found)
}

// writeScanPage writes a page.
func (t *call) writeScanPage(cursor uint64, found []foundKey) {
	t.out.Array(2)
	t.out.Text(strconv.FormatUint(cursor, 10))
	t.out.Array(len(found))
	for _, k := range found {
		t.out.Bulk(k.name)
	}
}

// handleHScan returns fields of a hash. A small one comes whole.
func handleHScan(t *call) {
	cursor, err := parseCursor(t.Args[2])
	if err == nil {
		err = command.CheckKey(t.Args[1])
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	o, unread := parseScan(t.Args[3:], "hscan") // reported once the key is known to be a hash
	p := t.c.keyspace.AppendPosition(nil, t.Args[1])
	var after []byte
	if cursor != 0 {
		if at := t.s.scanCursors.get(cursor); bytes.HasPrefix(at, p) {
			after = at[len(p):]
		} // else it is forgotten: all again, which a client must expect
	}
	var reply command.Reply
	err = t.s.withKeyspace(t.ctx, t.c.keyspace, func() (err error) {
		// It is read past the queue: others need not wait for a large page.
		reply, err = t.s.readSnapshot(t.ctx, t.c.keyspace, p, &command.HScan{Key: p, After: after, Limit: max(o.count, minHScanFields), MaxBytes: maxPageBytes})
		return err
	})
	if err != nil {
		t.out.Fail(err)
		return
	}
	if unread != nil && len(reply.Items) > 0 {
		t.out.Fail(unread)
		return
	}
	next := uint64(0)
	if reply.More {
		next = t.s.scanCursors.put(append(bytes.Clone(p), reply.Bytes...), 0)
	}
	fields := reply.Items[:0:0]
	for _, item := range reply.Items {
		if o.matchesPattern(item.Field) {
			fields = append(fields, item)
		}
	}
	t.out.Array(2)
	t.out.Text(strconv.FormatUint(next, 10))
	if o.namesOnly {
		t.out.Array(len(fields))
	} else {
		t.out.Array(2 * len(fields))
	}
	for _, item := range fields {
		t.out.Bulk(item.Field)
		if !o.namesOnly {
			t.out.Bulk(item.Value)
		}
	}
}

// minHScanFields is how many fields a page of HSCAN has at least.
const minHScanFields = 512

// maxExtraSlotKeys is how many keys of one slot a page has beyond what was asked for.
const maxExtraSlotKeys = 10_000

// pageStart is where a page begins: at a slot, or within one.
type pageStart struct {
	position     partition.Position
	isInsideSlot bool
}

// readPage visits the live keys from a position on: so many, and the others of the last
// one's slot. It returns where the next page begins, with a nil position at the end.
func (s *Server) readPage(ctx context.Context, k *node.Keyspace, from partition.Position, count int, visit func(foundKey)) (next pageStart, err error) {
	n, slot := 0, -1
	err = s.scanKeys(ctx, k, partition.Span{Start: from, End: k.Span().End}, 0, func(found foundKey) bool {
		p := k.AppendPosition(nil, found.name)
		at := slotAt(k, p)
		if n >= count && (at != slot || k.Kind != partition.Hash || n-count >= maxExtraSlotKeys) {
			next = pageStart{p, at == slot}
			return false
		}
		n, slot = n+1, at
		visit(found)
		return true
	})
	return next, err
}

// slotAt is the slot of a position, -1 in a keyspace that has none.
func slotAt(k *node.Keyspace, p partition.Position) int {
	if k.Kind == partition.Hash {
		return k.SlotAt(p)
	}
	return -1
}
