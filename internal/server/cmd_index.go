package server

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/index"
	tuple "github.com/cleavekv/cleave/key"
)

func init() {
	registerBlockingHandlers(map[string]func(*call){
		"cleave.index|create": handleIndexCreate, "cleave.index|drop": handleIndexDrop, "cleave.index|get": handleIndexGet, "cleave.index|scan": handleIndexScan,
		"cleave.index|info": handleIndexInfo, "cleave.index|list": handleIndexList,
	})
	registerHandlers(map[string]func(*call){
		"cleave.index|help": newHelpHandler("CLEAVE.INDEX", "CREATE <name> COLUMNS <columns> [STORED <n> <field> ...] [UNIQUE] [ASYNC]", "    Make an index on fields of hashes, such as \"country, age:int\".",
			"DROP <name>", "    Remove an index.", "GET <name> <value> [<value> ...]", "    Return the first entry with these values.", "INFO <name>", "    Return what an index is and how it is.",
			"LIST", "    Return the names of the indexes of the keyspace.",
			"SCAN <name> [PREFIX <n> <value> ...] [FROM <n> <value> ...] [TO <n> <value> ...] [REV] [LIMIT <n>] [CURSOR <c>] [FRESH]", "    Return entries in order."),
	})
}

func handleIndexCreate(t *call) {
	o := cleave.IndexOptions{Name: string(t.Args[2]), Mode: cleave.Transactional}
	err := parseIndexOptions(t.Args[3:], &o)
	if err == nil {
		o.Keyspace, err = t.s.db.Keyspace(t.c.keyspace.Name)
	}
	if err == nil {
		_, err = t.s.db.CreateIndex(t.ctx, o)
	}
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	t.out.OK()
}

// parseIndexOptions reads what an index is to be.
func parseIndexOptions(words [][]byte, o *cleave.IndexOptions) (err error) {
	for len(words) > 0 {
		switch word := words[0]; {
		case redis.IsKeyword(word, "COLUMNS") && len(words) > 1:
			o.Columns, words = string(words[1]), words[2:]
		case redis.IsKeyword(word, "STORED"):
			var names [][]byte
			if names, words, err = parseCounted(words[1:]); err != nil {
				return err
			}
			for _, n := range names {
				o.Stored = append(o.Stored, string(n))
			}
		case redis.IsKeyword(word, "UNIQUE"):
			o.Unique, words = true, words[1:]
		case redis.IsKeyword(word, "ASYNC"):
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

// parseCounted takes words that their number stands in front of.
func parseCounted(words [][]byte) (taken, rest [][]byte, err error) {
	if len(words) == 0 {
		return nil, nil, redis.ErrSyntax
	}
	n, err := strconv.Atoi(string(words[0]))
	if err != nil || n < 1 || n > len(words)-1 {
		return nil, nil, redis.Error("ERR the number in front of a list is not that of what follows it")
	}
	return words[1 : n+1], words[n+1:], nil
}

func handleIndexDrop(t *call) {
	if err := t.s.db.DropIndex(t.ctx, t.c.keyspace.Name, string(t.Args[2])); err != nil {
		t.out.Fail(clientError(err))
		return
	}
	t.out.OK()
}

func handleIndexList(t *call) {
	var names []string
	for _, ix := range t.s.db.Indexes() {
		if ix.Keyspace().Name() == t.c.keyspace.Name {
			names = append(names, ix.Name())
		}
	}
	t.writeTexts(names)
}

func handleIndexInfo(t *call) {
	ix, err := t.s.db.Index(t.c.keyspace.Name, string(t.Args[2]))
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	o, err1 := ix.Options()
	s, err2 := ix.Status()
	if err := errors.Join(err1, err2); err != nil {
		t.out.Fail(clientError(err))
		return
	}
	var f replyMap
	f.add("name", o.Name)
	f.add("keyspace", o.Keyspace.Name())
	f.add("mode", o.Mode.String())
	f.add("unique", formatYesNo(o.Unique))
	if o.Function != "" {
		f.add("function", o.Function+" "+o.Version)
	} else {
		f.add("columns", o.Columns)
		f.add("stored", fmt.Sprintf("%q", o.Stored))
	}
	f.add("ready", formatYesNo(s.Ready))
	f.add("rows-built", s.Built)
	f.add("behind-ms", s.Behind.Milliseconds())
	f.add("behind-bytes", s.BehindBytes)
	f.add("rows-refused", s.Refused)
	f.add("rebuilt", s.Rebuilt)
	if s.Err != nil {
		f.add("error", redactRows(s.Err).Error())
	}
	f.writeReply(t.out)
}

func formatYesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// parseIndexValues reads values to look for as the columns of an index have them.
func (t *call) parseIndexValues(name string, words [][]byte) (tuple.Tuple, error) {
	x, err := t.s.node.Index(t.c.keyspace.Name, name)
	if err != nil {
		return nil, err
	}
	return index.ParseValues(x.Extract, words)
}

func handleIndexGet(t *call) {
	name := string(t.Args[2])
	ix, err := t.s.db.Index(t.c.keyspace.Name, name)
	var values tuple.Tuple
	if err == nil {
		values, err = t.parseIndexValues(name, t.Args[3:])
	}
	var item cleave.IndexItem
	if err == nil {
		item, err = ix.Get(t.ctx, values...)
	}
	switch {
	case errors.Is(err, cleave.ErrNotFound), err == nil && !t.canRead(item.Key):
		t.out.NullArray()
	case err != nil:
		t.out.Fail(clientError(err))
	default:
		t.writeIndexEntry(&item)
	}
}

func handleIndexScan(t *call) {
	name := string(t.Args[2])
	ix, err := t.s.db.Index(t.c.keyspace.Name, name)
	var o cleave.IndexScanOptions
	cursor := firstCursor
	if err == nil {
		o, cursor, err = t.parseIndexScan(name, t.Args[3:])
	}
	bound := cursorBinding("index", t.c.keyspace.Name, name, o.Reverse)
	if err == nil {
		o.After, err = t.s.cursorCipher.open(cursor, bound)
	}
	var page cleave.IndexPage
	if err == nil {
		page, err = ix.ScanPage(t.ctx, o)
	}
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	shown := page.Items[:0]
	for _, item := range page.Items {
		if t.canRead(item.Key) {
			shown = append(shown, item)
		}
	}
	t.out.Array(2)
	if page.Next == nil {
		t.out.Text("0")
	} else {
		t.out.Text(t.s.cursorCipher.seal(page.Next, bound))
	}
	t.out.Array(len(shown))
	for i := range shown {
		t.writeIndexEntry(&shown[i])
	}
}

// parseIndexScan reads which entries are wanted.
func (t *call) parseIndexScan(name string, words [][]byte) (o cleave.IndexScanOptions, cursor []byte, err error) {
	o.Limit, cursor = defaultPageItems, firstCursor
	for len(words) > 0 && err == nil {
		word, more := words[0], len(words) > 1
		words = words[1:]
		bound := func() (values tuple.Tuple) {
			var list [][]byte
			if list, words, err = parseCounted(words); err == nil {
				values, err = t.parseIndexValues(name, list)
			}
			return values
		}
		switch {
		case redis.IsKeyword(word, "REV"):
			o.Reverse = true
		case redis.IsKeyword(word, "FRESH"):
			o.Fresh = true
		case redis.IsKeyword(word, "PREFIX"):
			o.Prefix = bound()
		case redis.IsKeyword(word, "FROM"):
			o.From = bound()
		case redis.IsKeyword(word, "TO"):
			o.To = bound()
		case redis.IsKeyword(word, "LIMIT") && more:
			o.Limit, err = parseLimit(words[0])
			words = words[1:]
		case redis.IsKeyword(word, "CURSOR") && more:
			cursor, words = words[0], words[1:]
		default:
			return o, cursor, redis.ErrSyntax
		}
	}
	return o, cursor, err
}

// writeIndexEntry writes an entry: the key of the row, the values that it was found by, and
// the stored fields with their values.
func (t *call) writeIndexEntry(item *cleave.IndexItem) {
	t.out.Array(3)
	t.out.Bulk(item.Key)
	t.out.Array(len(item.Entry))
	for _, v := range item.Entry {
		t.writeIndexValue(v)
	}
	t.out.Array(2 * len(item.Fields))
	for _, f := range item.Fields {
		t.out.Bulk(f.Name)
		t.out.Bulk(f.Value)
	}
}

// writeIndexValue writes a value of an entry.
func (t *call) writeIndexValue(v any) {
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
