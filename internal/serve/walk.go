package serve

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/glob"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	handleSlow(map[string]func(*turn){"scan": scan, "hscan": hscan, "keys": keys, "randomkey": randomKey, "dbsize": dbSize,
		"cluster|countkeysinslot": countInSlot, "cluster|getkeysinslot": keysInSlot})
}

// scanOptions are what a SCAN asks for.
type scanOptions struct {
	count   int
	pattern []byte // nil for all
	kind    string // of values, empty for all
	names   bool   // no values: of HSCAN
}

// maxCount is how many keys a page looks at, whatever is asked for.
const maxCount = 100_000

func readScan(words [][]byte, of string) (o scanOptions, err error) {
	o.count = 10
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case redis.Is(word, "COUNT") && i+1 < len(words):
			i++
			n, err := strconv.ParseInt(string(words[i]), 10, 64)
			if err != nil {
				return o, redis.Error("ERR value is not an integer or out of range")
			}
			if n < 1 {
				return o, redis.ErrSyntax
			}
			o.count = int(min(n, maxCount))
		case redis.Is(word, "MATCH") && i+1 < len(words):
			i++
			if o.pattern = words[i]; string(o.pattern) == "*" {
				o.pattern = nil
			}
		case redis.Is(word, "TYPE") && i+1 < len(words) && of == "scan":
			i++
			o.kind = strings.ToLower(string(words[i]))
		case redis.Is(word, "NOVALUES") && of == "hscan":
			o.names = true
		default:
			return o, redis.ErrSyntax
		}
	}
	return o, nil
}

func (o *scanOptions) fits(name []byte) bool { return o.pattern == nil || glob.Match(o.pattern, name) }

// cursorOf reads a cursor.
func cursorOf(word []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(word), 10, 64)
	if err != nil {
		return 0, redis.Error("ERR invalid cursor")
	}
	return n, nil
}

// key is a key that a walk has found.
type key struct {
	name []byte
	kind command.Kind
}

// scan returns some keys. A page ends where a slot ends, so that the number of the next
// slot is a cursor that stays good whatever happens to the keys, and to the server. See
// DESIGN.md for what happens to slots with many keys.
func scan(t *turn) {
	cursor, err := cursorOf(t.Args[1])
	var o scanOptions
	if err == nil {
		o, err = readScan(t.Args[2:], "scan")
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	space := t.c.space
	from, ok := t.s.places.start(space, cursor)
	if !ok {
		t.writeKeys(0, nil)
		return
	}
	var found []key
	next, err := t.s.page(t.ctx, space, from, o.count, func(k key) {
		if o.fits(k.name) && (o.kind == "" || o.kind == redis.TypeName(k.kind)) {
			found = append(found, k)
		}
	})
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.writeKeys(t.s.places.cursor(space, next), found)
}

// writeKeys writes a page.
func (t *turn) writeKeys(cursor uint64, found []key) {
	t.out.Array(2)
	t.out.Text(strconv.FormatUint(cursor, 10))
	t.out.Array(len(found))
	for _, k := range found {
		t.out.Bulk(k.name)
	}
}

// slotRows is how many keys of one slot a page has beyond what was asked for.
const slotRows = 10_000

// place is where a page begins: at a slot, or within one.
type place struct {
	at     partition.Position
	within bool
}

// page visits the live keys from a position on: so many, and the others of the last
// one's slot. It returns where the next page begins, with a nil position at the end.
func (s *Server) page(ctx context.Context, k *node.Space, from partition.Position, count int, visit func(key)) (next place, err error) {
	n, slot := 0, -1
	err = s.walk(ctx, k, partition.Span{Start: from, End: k.Span().End}, 0, func(found key) bool {
		p := k.AppendPosition(nil, found.name)
		at := slotOf(k, p)
		if n >= count && (at != slot || k.Kind != partition.Hash || n-count >= slotRows) {
			next = place{p, at == slot}
			return false
		}
		n, slot = n+1, at
		visit(found)
		return true
	})
	return next, err
}

// slotOf is the slot of a position, -1 in a keyspace that has none.
func slotOf(k *node.Space, p partition.Position) int {
	if k.Kind == partition.Hash {
		return k.SlotAt(p)
	}
	return -1
}

// walk visits live keys of a span in order, so many if limit is positive.
func (s *Server) walk(ctx context.Context, k *node.Space, span partition.Span, limit int, visit func(key) bool) error {
	return inside.Scan(ctx, s.db, k, span, limit, func(name []byte, kind command.Kind) bool { return visit(key{name, kind}) })
}

func keys(t *turn) {
	pattern := t.Args[1]
	var found []key
	if name, ok := glob.Literal(pattern); ok && command.CheckKey(name) == nil {
		// Only one key can fit.
		p := t.c.space.AppendPosition(nil, name)
		err := t.s.routed(t.ctx, p, func(part *node.Part) error {
			_, ok, err := part.Group.Read(t.ctx, p, nil)
			if found = nil; ok {
				found = []key{{name: name}}
			}
			return err
		})
		if err != nil {
			t.out.Fail(err)
			return
		}
	} else {
		all := string(pattern) == "*"
		_, err := t.s.page(t.ctx, t.c.space, t.c.space.Span().Start, 1<<62, func(k key) {
			if all || glob.Match(pattern, k.name) {
				found = append(found, k)
			}
		})
		if err != nil {
			t.out.Fail(err)
			return
		}
	}
	t.out.Array(len(found))
	for _, k := range found {
		t.out.Bulk(k.name)
	}
}

// randomKey returns the first key behind a position by chance: those behind a gap come
// more often than others.
func randomKey(t *turn) {
	space := t.c.space
	from := space.Span().Start
	if space.Kind == partition.Hash {
		from = space.SlotSpan(uint16(rand.IntN(space.SlotCount()))).Start
	}
	var some []key
	look := func(from partition.Position) error {
		return t.s.walk(t.ctx, space, partition.Span{Start: from, End: space.Span().End}, 16, func(k key) bool {
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

func dbSize(t *turn) {
	n := int64(0)
	_, err := t.s.page(t.ctx, t.c.space, t.c.space.Span().Start, 1<<62, func(key) { n++ })
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.out.Int(n)
}

// hscan returns fields of a hash. A small one comes whole.
func hscan(t *turn) {
	cursor, err := cursorOf(t.Args[2])
	var o scanOptions
	if err == nil {
		o, err = readScan(t.Args[3:], "hscan")
	}
	if err == nil {
		err = command.CheckKey(t.Args[1])
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	p := t.c.space.AppendPosition(nil, t.Args[1])
	var after []byte
	if cursor != 0 {
		if at := t.s.places.get(cursor); bytes.HasPrefix(at, p) {
			after = at[len(p):]
		} // else it is forgotten: all again, which a client must expect
	}
	reply, err := t.s.do(t.ctx, p, group.Request{Key: p, Gate: t.c.space, Command: &command.HScan{Key: p, After: after, Limit: max(o.count, smallHash)}})
	if err != nil {
		t.out.Fail(err)
		return
	}
	next := uint64(0)
	if reply.More {
		next = t.s.places.put(append(bytes.Clone(p), reply.Bytes...), 0)
	}
	fields := reply.Items[:0:0]
	for _, item := range reply.Items {
		if o.fits(item.Field) {
			fields = append(fields, item)
		}
	}
	t.out.Array(2)
	t.out.Text(strconv.FormatUint(next, 10))
	if o.names {
		t.out.Array(len(fields))
	} else {
		t.out.Array(2 * len(fields))
	}
	for _, item := range fields {
		t.out.Bulk(item.Field)
		if !o.names {
			t.out.Bulk(item.Value)
		}
	}
}

// smallHash is how many fields a page of HSCAN has at least.
const smallHash = 512

// slotArg reads a slot.
func slotArg(t *turn) (slot uint16, ok bool) {
	n, err := strconv.Atoi(string(t.Args[2]))
	if err != nil || n < 0 || n >= t.c.space.SlotCount() {
		t.out.Fail(redis.Error("ERR Invalid slot"))
		return 0, false
	}
	return uint16(n), true
}

func countInSlot(t *turn) {
	if slot, ok := slotArg(t); ok {
		n := int64(0)
		err := t.s.walk(t.ctx, t.c.space, t.c.space.SlotSpan(slot), 0, func(key) bool { n++; return true })
		if err != nil {
			t.out.Fail(err)
			return
		}
		t.out.Int(n)
	}
}

func keysInSlot(t *turn) {
	slot, ok := slotArg(t)
	if !ok {
		return
	}
	most, err := strconv.Atoi(string(t.Args[3]))
	if err != nil || most < 0 {
		t.out.Fail(redis.Error("ERR Invalid number of keys"))
		return
	}
	var found []key
	if most > 0 {
		err = t.s.walk(t.ctx, t.c.space, t.c.space.SlotSpan(slot), min(most, maxCount), func(k key) bool {
			found = append(found, k)
			return true
		})
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.out.Array(len(found))
	for _, k := range found {
		t.out.Bulk(k.name)
	}
}
