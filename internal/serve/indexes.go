package serve

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/redis"
	tuple "github.com/cleavekv/cleave/key"
)

func init() {
	handleSlow(map[string]func(*turn){
		"cleave.index|create": indexCreate, "cleave.index|drop": indexDrop, "cleave.index|get": indexGet, "cleave.index|scan": indexScan,
		"cleave.index|info": indexInfo, "cleave.index|list": indexList,
	})
	handle(map[string]func(*turn){
		"cleave.index|help": help("CLEAVE.INDEX", "CREATE <name> COLUMNS <columns> [STORED <n> <field> ...] [UNIQUE] [ASYNC]", "    Make an index on fields of hashes, such as \"country, age:int\".",
			"DROP <name>", "    Remove an index.", "GET <name> <value> [<value> ...]", "    Return the first entry with these values.", "INFO <name>", "    Return what an index is and how it is.",
			"LIST", "    Return the names of the indexes of the keyspace.",
			"SCAN <name> [PREFIX <n> <value> ...] [FROM <n> <value> ...] [TO <n> <value> ...] [REV] [LIMIT <n>] [CURSOR <c>] [FRESH]", "    Return entries in order."),
	})
}

func indexCreate(t *turn) {
	o := cleave.IndexOptions{Name: string(t.Args[2]), Mode: cleave.Transactional}
	err := readIndex(t.Args[3:], &o)
	if err == nil {
		o.Keyspace, err = t.s.db.Keyspace(t.c.space.Name)
	}
	if err == nil {
		_, err = t.s.db.CreateIndex(t.ctx, o)
	}
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	t.out.OK()
}

// readIndex reads what an index is to be.
func readIndex(words [][]byte, o *cleave.IndexOptions) (err error) {
	for len(words) > 0 {
		switch word := words[0]; {
		case redis.Is(word, "COLUMNS") && len(words) > 1:
			o.Columns, words = string(words[1]), words[2:]
		case redis.Is(word, "STORED"):
			var names [][]byte
			if names, words, err = counted(words[1:]); err != nil {
				return err
			}
			for _, n := range names {
				o.Stored = append(o.Stored, string(n))
			}
		case redis.Is(word, "UNIQUE"):
			o.Unique, words = true, words[1:]
		case redis.Is(word, "ASYNC"):
			o.Mode, words = cleave.Asynchronous, words[1:]
		default:
			return redis.ErrSyntax
		}
	}
	if o.Columns == "" {
		return redis.Error("ERR an index needs COLUMNS, such as \"country, age:int\"")
	}
	return nil
}

// counted takes words that their number stands in front of.
func counted(words [][]byte) (taken, rest [][]byte, err error) {
	if len(words) == 0 {
		return nil, nil, redis.ErrSyntax
	}
	n, err := strconv.Atoi(string(words[0]))
	if err != nil || n < 1 || n > len(words)-1 {
		return nil, nil, redis.Error("ERR the number in front of a list is not that of what follows it")
	}
	return words[1 : n+1], words[n+1:], nil
}

func indexDrop(t *turn) {
	if err := t.s.db.DropIndex(t.ctx, t.c.space.Name, string(t.Args[2])); err != nil {
		t.out.Fail(refused(err))
		return
	}
	t.out.OK()
}

func indexList(t *turn) {
	var names []string
	for _, ix := range t.s.db.Indexes() {
		if ix.Keyspace().Name() == t.c.space.Name {
			names = append(names, ix.Name())
		}
	}
	t.texts(names)
}

func indexInfo(t *turn) {
	ix, err := t.s.db.Index(t.c.space.Name, string(t.Args[2]))
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	o, err1 := ix.Options()
	s, err2 := ix.Status()
	if err := errors.Join(err1, err2); err != nil {
		t.out.Fail(refused(err))
		return
	}
	var f facts
	f.add("name", o.Name)
	f.add("keyspace", o.Keyspace.Name())
	f.add("mode", o.Mode.String())
	f.add("unique", yesNo(o.Unique))
	if o.Function != "" {
		f.add("function", o.Function+" "+o.Version)
	} else {
		f.add("columns", o.Columns)
		f.add("stored", fmt.Sprintf("%q", o.Stored))
	}
	f.add("ready", yesNo(s.Ready))
	f.add("rows-built", s.Built)
	f.add("behind-ms", s.Behind.Milliseconds())
	f.add("behind-bytes", s.BehindBytes)
	f.add("rows-refused", s.Refused)
	f.add("rebuilt", s.Rebuilt)
	if s.Err != nil {
		f.add("error", s.Err.Error())
	}
	f.write(t.out)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// values reads values to look for as the columns of an index have them.
func (t *turn) values(name string, words [][]byte) (tuple.Tuple, error) {
	x, err := t.s.node.Index(t.c.space.Name, name)
	if err != nil {
		return nil, err
	}
	return index.Texts(x.Extract, words)
}

func indexGet(t *turn) {
	name := string(t.Args[2])
	ix, err := t.s.db.Index(t.c.space.Name, name)
	var values tuple.Tuple
	if err == nil {
		values, err = t.values(name, t.Args[3:])
	}
	var item cleave.IndexItem
	if err == nil {
		item, err = ix.Get(t.ctx, values...)
	}
	switch {
	case errors.Is(err, cleave.ErrNotFound), err == nil && !t.mayRead(item.Key):
		t.out.NullArray()
	case err != nil:
		t.out.Fail(refused(err))
	default:
		t.writeEntry(&item)
	}
}

func indexScan(t *turn) {
	name := string(t.Args[2])
	ix, err := t.s.db.Index(t.c.space.Name, name)
	var o cleave.IndexScanOptions
	if err == nil {
		o, err = t.readIndexScan(name, t.Args[3:])
	}
	var page cleave.IndexPage
	if err == nil {
		page, err = ix.Scan(t.ctx, o)
	}
	if err != nil {
		t.out.Fail(refused(err))
		return
	}
	shown := page.Items[:0]
	for _, item := range page.Items {
		if t.mayRead(item.Key) {
			shown = append(shown, item)
		}
	}
	t.out.Array(2)
	if page.Next == nil {
		t.out.Text("0")
	} else {
		t.out.Text(cursorText(page.Next))
	}
	t.out.Array(len(shown))
	for i := range shown {
		t.writeEntry(&shown[i])
	}
}

// readIndexScan reads which entries are wanted.
func (t *turn) readIndexScan(name string, words [][]byte) (o cleave.IndexScanOptions, err error) {
	o.Limit = usualPage
	for len(words) > 0 && err == nil {
		word, more := words[0], len(words) > 1
		words = words[1:]
		bound := func() (values tuple.Tuple) {
			var list [][]byte
			if list, words, err = counted(words); err == nil {
				values, err = t.values(name, list)
			}
			return values
		}
		switch {
		case redis.Is(word, "REV"):
			o.Reverse = true
		case redis.Is(word, "FRESH"):
			o.Fresh = true
		case redis.Is(word, "PREFIX"):
			o.Prefix = bound()
		case redis.Is(word, "FROM"):
			o.From = bound()
		case redis.Is(word, "TO"):
			o.To = bound()
		case redis.Is(word, "LIMIT") && more:
			o.Limit, err = limitOf(words[0])
			words = words[1:]
		case redis.Is(word, "CURSOR") && more:
			o.After, err = readCursor(words[0])
			words = words[1:]
		default:
			return o, redis.ErrSyntax
		}
	}
	return o, err
}

// writeEntry writes an entry: the key of the row, the values that it was found by, and
// the stored fields with their values.
func (t *turn) writeEntry(item *cleave.IndexItem) {
	t.out.Array(3)
	t.out.Bulk(item.Key)
	t.out.Array(len(item.Entry))
	for _, v := range item.Entry {
		t.writeValue(v)
	}
	t.out.Array(2 * len(item.Fields))
	for _, f := range item.Fields {
		t.out.Bulk(f.Name)
		t.out.Bulk(f.Value)
	}
}

// writeValue writes a value of an entry.
func (t *turn) writeValue(v any) {
	switch v := v.(type) {
	case []byte:
		t.out.Bulk(v)
	case string:
		t.out.Text(v)
	case int64:
		t.out.Int(v)
	case uint64:
		t.out.Text(strconv.FormatUint(v, 10))
	case *big.Int:
		t.out.Text(v.String())
	case float64:
		t.out.Double(v)
	case bool:
		t.out.Bool(v)
	default:
		t.out.Text(fmt.Sprint(v))
	}
}
