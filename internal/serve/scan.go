package serve

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/glob"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() { handleSlow(map[string]func(*turn){"scan": scan, "hscan": hscan}) }

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
	var reply command.Reply
	err = t.s.within(t.ctx, t.c.space, func() (err error) {
		reply, err = t.s.do(t.ctx, p, group.Request{Key: p, Gate: t.c.space, Command: &command.HScan{Key: p, After: after, Limit: max(o.count, smallHash)}})
		return err
	})
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
