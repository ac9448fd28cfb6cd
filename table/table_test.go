package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

var background = context.Background()

// sharedStore is where all tests have their keyspaces: opening one takes longer than most.
var sharedStore *cleave.DB

func TestMain(m *testing.M) {
	var err error
	if sharedStore, err = cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 3}); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := sharedStore.Close(); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

var keyspaceCount atomic.Int64

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func openTable(t fataler, db *cleave.DB, layout string, o Options) *Table {
	t.Helper()
	ks, err := db.CreateKeyspace(background, cleave.KeyspaceOptions{Name: fmt.Sprint("t", keyspaceCount.Add(1)), Kind: cleave.Range, Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	table, err := Open(db, ks, o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// chosenSalter is a Salter with a preset result.
type chosenSalter struct{ salts, nextSalt int }

func (c *chosenSalter) Salts() int      { return c.salts }
func (c *chosenSalter) Salt([]byte) int { return c.nextSalt }

// machine does the same to a table and to the model.
type machine struct {
	db     *cleave.DB
	table  *Table
	model  *model
	salter *chosenSalter
	serial int
}

func newMachine(t *rapid.T, db *cleave.DB) *machine {
	l := drawLayout(t)
	m := &machine{db: db, model: newModel(l)}
	o := Options{}
	if m.model.isSaltPicked() {
		m.salter = &chosenSalter{salts: l.Salts()}
		o.Salter = m.salter
	}
	m.table = openTable(t, db, l.String(), o)
	return m
}

// runBothWays runs f in a transaction or lets the table do it by itself.
func (m *machine) runBothWays(t *rapid.T, read bool, alone func() error, inside func(Txn) error) {
	err := error(nil)
	switch {
	case rapid.Bool().Draw(t, "alone"):
		err = alone()
	case read && rapid.Bool().Draw(t, "view"):
		err = m.db.View(background, func(tx *cleave.Txn) error { return inside(m.table.In(tx)) })
	default:
		err = m.db.Update(background, func(tx *cleave.Txn) error { return inside(m.table.In(tx)) })
	}
	if err != nil {
		t.Fatalf("%v: %v", m.model.layout, err)
	}
}

func (m *machine) nextValue() string {
	m.serial++
	return fmt.Sprint("v", m.serial)
}

func (m *machine) putRow(t *rapid.T) {
	c, v := drawColumns(t, m.model.layout), m.nextValue()
	salt := 0
	if m.salter != nil {
		m.salter.nextSalt = rapid.IntRange(0, m.salter.salts-1).Draw(t, "salt")
		salt = m.salter.nextSalt
	}
	m.runBothWays(t, false, func() error { return m.table.Put(background, c, []byte(v)) }, func(x Txn) error { return x.Put(c, []byte(v)) })
	m.model.putRow(c, salt, v)
}

func (m *machine) appendRow(t *rapid.T) {
	c, v, salt := drawColumns(t, m.model.layout), m.nextValue(), 0
	given := c
	if m.salter != nil {
		salt = rapid.IntRange(0, m.salter.salts-1).Draw(t, "salt")
		given = withSalt(m.model, c, salt)
	}
	m.runBothWays(t, false, func() error { return m.table.Append(background, given, []byte(v)) }, func(x Txn) error { return x.Append(given, []byte(v)) })
	m.model.appendRow(c, salt, v)
}

func (m *machine) deleteRow(t *rapid.T) {
	c := drawColumns(t, m.model.layout)
	was := false
	m.runBothWays(t, false,
		func() (err error) { was, err = m.table.Delete(background, c); return err },
		func(x Txn) (err error) { was, err = x.Delete(c); return err })
	if want := m.model.deleteRow(c); was != want {
		t.Fatalf("%v: delete %v: %t, want %t", m.model.layout, c, was, want)
	}
}

func (m *machine) checkGet(t *rapid.T) {
	c := drawColumns(t, m.model.layout)
	var row Row
	found := true
	absent := func(err error) error {
		if errors.Is(err, cleave.ErrNotFound) {
			found, err = false, nil
		}
		return err
	}
	m.runBothWays(t, true,
		func() (err error) { row, err = m.table.Get(background, c); return absent(err) },
		func(x Txn) (err error) { row, err = x.Get(c); return absent(err) })
	want, ok := m.model.getRow(c)
	if found != ok || string(row.Value) != want {
		t.Fatalf("%v: get %v: %q %t, want %q %t", m.model.layout, c, row.Value, found, want, ok)
	}
}

func (m *machine) checkQuery(t *rapid.T) {
	q := drawQuery(t, m.model)
	var rows []Row
	collect := func(s iter.Seq2[Row, error]) (err error) {
		rows, err = collectRows(s)
		return err
	}
	m.runBothWays(t, true, func() error { return collect(m.table.Scan(background, q)) }, func(x Txn) error { return collect(x.Scan(q)) })
	m.compareRows(t, fmt.Sprintf("%+v", q), rows, m.model.queryRows(q))
}

// checkPages reads a query page by page, while others write elsewhere.
func (m *machine) checkPages(t *rapid.T) {
	q := drawQuery(t, m.model)
	q.Limit = rapid.IntRange(1, 3).Draw(t, "page")
	var rows []Row
	for {
		var page Page
		m.runBothWays(t, true,
			func() (err error) { page, err = m.table.ScanPage(background, q); return err },
			func(x Txn) (err error) { page, err = x.ScanPage(q); return err })
		rows = append(rows, page.Rows...)
		if page.Next == "" {
			break
		}
		if len(page.Rows) != q.Limit {
			t.Fatalf("a page of %d rows, and there are more", len(page.Rows))
		}
		q.After = page.Next
	}
	q.Limit, q.After = 0, ""
	m.compareRows(t, fmt.Sprintf("pages of %+v", q), rows, m.model.queryRows(q))
}

func (m *machine) compareRows(t *rapid.T, what string, rows []Row, want []modelRow) {
	same := slices.EqualFunc(rows, want, func(r Row, w modelRow) bool { return string(r.Value) == w.value })
	if !same {
		t.Fatalf("%v: %s:\ngot  %v\nwant %v", m.model.layout, what, formatRows(m.table, rows), want)
	}
	for i, r := range rows {
		for _, f := range m.model.fields {
			if f.IsColumn() {
				got, ok := r.Columns.Value(f.Column)
				if w := want[i].columns[f.Column]; !ok || key.Compare(key.Tuple{toElement(f, got)}, key.Tuple{toElement(f, w)}) != 0 {
					t.Fatalf("%v: %s is %v, want %v", m.model.layout, f.Column, got, w)
				}
			}
		}
	}
}

func collectRows(s iter.Seq2[Row, error]) (rows []Row, err error) {
	for row, err := range s {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func formatRows(t *Table, rows []Row) (list []string) {
	for _, r := range rows {
		text, _ := t.layout.Format(r.Key)
		list = append(list, text+"="+string(r.Value))
	}
	return list
}

func TestATableIsASortedListOfRowsWhateverItsLayout(t *testing.T) {
	db := sharedStore
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, db)
		defer db.DropKeyspace(background, m.table.ks.Name())
		ops := []func(*rapid.T){m.putRow, m.putRow, m.appendRow, m.appendRow, m.deleteRow, m.checkGet, m.checkQuery, m.checkQuery, m.checkPages}
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			rapid.SampledFrom(ops).Draw(t, "operation")(t)
		}
		m.compareRows(t, "all", must(collectRows(m.table.Scan(background, Query{}))), m.model.queryRows(Query{}))
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A column that is fixed is so in each of its buckets, also in one behind an open column.
func TestAFixedTimeIsFixedInAllOfItsBuckets(t *testing.T) {
	table := openTable(t, sharedStore, "(day(ts), n:int) | hour(ts)", Options{})
	for i := range 3 {
		if err := table.Put(background, key.Columns{"ts": testEpoch.Add(time.Duration(i) * time.Hour), "n": i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := collectRows(table.Scan(background, Query{Where: key.Columns{"ts": testEpoch.Add(90 * time.Minute)}}))
	if err != nil || len(rows) != 1 || must(Column[int64](rows[0], "n")) != 1 {
		t.Errorf("%v, %v, want the row of the second hour", formatRows(table, rows), err)
	}
}

func TestOpenRefusesWhatIsNoTable(t *testing.T) {
	db := sharedStore
	for name, o := range map[string]cleave.KeyspaceOptions{
		"hash":      {Kind: cleave.Hash, Layout: "a"},
		"no layout": {Kind: cleave.Range},
	} {
		o.Name = strings.ReplaceAll(name, " ", "-")
		ks := must(db.OpenKeyspace(background, o)) // the store is shared, also with a second run
		if _, err := Open(db, ks, Options{}); !errors.Is(err, ErrNoTable) {
			t.Errorf("%s: %v, want ErrNoTable", name, err)
		}
	}
	if _, err := Open(db, nil, Options{}); !errors.Is(err, ErrNoTable) {
		t.Errorf("no keyspace: %v", err)
	}
	plain := openTable(t, db, "a", Options{})
	salted := openTable(t, db, "salt(4) | a", Options{})
	other := must(cleave.OpenMemory(cleave.Options{}))
	defer other.Close()
	if _, err := Open(other, plain.Keyspace(), Options{}); !errors.Is(err, ErrNoTable) {
		t.Errorf("a keyspace of another store: %v, want ErrNoTable", err)
	}
	for name, ks := range map[string]*cleave.Keyspace{"without a salt": plain.Keyspace(), "of other salts": salted.Keyspace()} {
		bad, err := Open(db, ks, Options{Salter: &chosenSalter{salts: 2}})
		if bad != nil || !errors.Is(err, key.ErrSalt) || !errors.Is(err, ErrNoTable) || !strings.Contains(err.Error(), ks.Name()) {
			t.Errorf("a Salter %s: %v, want ErrSalt and ErrNoTable, and the name", name, err)
		}
	}
}

func TestColumnsThatDoNotFitAreNamed(t *testing.T) {
	db := sharedStore
	table := openTable(t, db, "salt(4, id) | ts:time, id:int", Options{})
	for want, c := range map[string]key.Columns{
		"id: missing":           {"ts": testEpoch},
		"want time":             {"ts": 1, "id": 1},
		"want int":              {"ts": testEpoch, "id": "x"},
		`"colour" is not`:       {"ts": testEpoch, "id": 1, "colour": "red"},
		`"salt(4, id)" is not`:  {"ts": testEpoch, "id": 1, "salt(4, id)": 1},
		table.Keyspace().Name(): {},
		table.Layout().String(): nil,
	} {
		_, get := table.Get(background, c)
		_, del := table.Delete(background, c)
		inside := db.Update(background, func(tx *cleave.Txn) error { return table.In(tx).Put(c, nil) })
		for _, err := range []error{get, del, inside, table.Put(background, c, nil), table.Append(background, c, nil)} {
			if !errors.Is(err, key.ErrColumn) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want ErrColumn and %q", c, err, want)
			}
		}
	}
	for _, q := range []Query{
		{Where: key.Columns{"colour": 1}},
		{Where: key.Columns{"ts": "now"}},
		{From: 1},
		{Where: key.Columns{"ts": testEpoch, "id": 1}, From: 1},
	} {
		if _, err := table.ScanPage(background, q); !errors.Is(err, key.ErrColumn) {
			t.Errorf("%+v: %v, want ErrColumn", q, err)
		}
	}
	for want, err := range map[string]error{
		"From bounds ts,": func() error { _, err := table.ScanPage(background, Query{From: 1}); return err }(),
		"hash(ts) is open, so keys are in no order of ts": func() error {
			_, err := openTable(t, db, "hash(ts), ts:time", Options{}).ScanPage(background, Query{From: testEpoch})
			return err
		}(),
		"To bounds ts,": func() error { _, err := table.ScanPage(background, Query{To: 1}); return err }(),
		`"dev" is not in`: func() error {
			_, err := openTable(t, db, "device | ts:time", Options{}).Last(background, Last{N: 1, Where: key.Columns{"dev": "a"}})
			return err
		}(),
	} {
		if !errors.Is(err, key.ErrColumn) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrColumn and %q", err, want)
		}
	}
	if _, err := table.ScanPage(background, Query{Limit: -1}); !errors.Is(err, ErrQuery) {
		t.Errorf("a negative limit: %v, want ErrQuery", err)
	}
}

func TestAForeignKeyIsNamedOrPassedOver(t *testing.T) {
	db := sharedStore
	for _, layout := range []string{"a:int", "salt(3) | a:int", "(a:int, salt(3)) | b:int", "salt(3, a) | a:int"} {
		for _, reverse := range []bool{false, true} {
			strict := openTable(t, db, layout, Options{})
			lenient := must(Open(db, strict.Keyspace(), Options{SkipForeign: true}))
			for i := range 40 {
				if err := strict.Put(background, columnsOf(strict, i), []byte("row")); err != nil {
					t.Fatal(err)
				}
			}
			k := must(strict.Key(columnsOf(strict, 20)))
			foreign := append(k, 0x01, 'x', 0x00) // one element more
			if err := strict.Keyspace().Set(background, foreign, nil); err != nil {
				t.Fatal(err)
			}
			var e *ForeignKeyError
			_, err := collectRows(strict.Scan(background, Query{Reverse: reverse}))
			if !errors.As(err, &e) || string(e.Key) != string(foreign) || !errors.Is(err, key.ErrForeignKey) {
				t.Errorf("%s: %v, want a ForeignKeyError that names %q", layout, err, foreign)
			}
			rows, err := collectRows(lenient.Scan(background, Query{Reverse: reverse}))
			if err != nil || len(rows) != 40 || lenient.Foreign() == 0 {
				t.Errorf("%s: %d rows, %v, and %d foreign keys", layout, len(rows), err, lenient.Foreign())
			}
		}
	}
	table := openTable(t, db, "(a:int, salt(3)) | b:int", Options{SkipForeign: true})
	if err := table.Keyspace().Set(background, []byte("\x15\x01no tuple"), nil); err != nil {
		t.Fatal(err)
	}
	if rows, err := collectRows(table.Scan(background, Query{})); err != nil || len(rows) != 0 || table.Foreign() != 1 {
		t.Errorf("%v %v, %d foreign keys, want 1", rows, err, table.Foreign())
	}
}

// columnsOf fills the columns of a layout with a number.
func columnsOf(t *Table, i int) key.Columns {
	c := key.Columns{}
	for _, name := range t.layout.Columns() {
		c[name] = i
	}
	return c
}

func TestACursorOfAnotherQueryIsRefused(t *testing.T) {
	db := sharedStore
	table := openTable(t, db, "salt(3) | a:int", Options{})
	other := openTable(t, db, "b:string, a:int", Options{})
	for i := range 5 {
		if err := errors.Join(table.Put(background, key.Columns{"a": i}, nil), other.Put(background, key.Columns{"b": "x", "a": i}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	good := must(table.ScanPage(background, Query{Limit: 3})).Next
	foreign := must(other.ScanPage(background, Query{Limit: 3})).Next
	for _, q := range []Query{
		{After: foreign}, {After: "?"}, {After: "AA"}, {After: "Ag"}, {After: good + "A"},
		{After: good, From: 3}, {After: good, To: 2}, {After: good, Where: key.Columns{"a": 1}},
	} {
		if _, err := table.ScanPage(background, q); !errors.Is(err, ErrCursor) {
			t.Errorf("%+v: %v, want ErrCursor", q, err)
		}
	}
	if _, err := table.Delete(background, key.Columns{"a": 2}); err != nil { // the row that it names
		t.Fatal(err)
	}
	if page, err := table.ScanPage(background, Query{After: good, From: 1}); err != nil || len(page.Rows) != 2 {
		t.Errorf("behind a row that is gone: %v, %v", formatRows(table, page.Rows), err)
	}
}

func FuzzCursor(f *testing.F) {
	db := sharedStore
	table := openTable(f, db, "(d, salt(3)) | a:int", Options{})
	for i := range 5 {
		if err := table.Put(background, key.Columns{"d": i % 2, "a": i}, nil); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(string(must(table.ScanPage(background, Query{Limit: 2})).Next))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, c string) {
		if _, err := table.ScanPage(background, Query{After: Cursor(c)}); err != nil && !errors.Is(err, ErrCursor) {
			t.Error(err)
		}
	})
}

func TestRowsExpireAndConditionsHold(t *testing.T) {
	var minutes atomic.Int64 // the store looks at the clock too
	db, err := cleave.OpenMemory(cleave.Options{Now: func() time.Time { return testEpoch.Add(time.Duration(minutes.Load()) * time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, layout := range []string{"a:int", "salt(4) | a:int", "salt(4, a) | a:int"} {
		table := openTable(t, db, layout, Options{})
		one := key.Columns{"a": 1}
		if err := table.PutWith(background, one, []byte("x"), cleave.SetOptions{TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if err := table.PutWith(background, one, nil, cleave.SetOptions{IfAbsent: true}); !errors.Is(err, cleave.ErrNotStored) {
			t.Errorf("%s: a row that is there: %v, want ErrNotStored", layout, err)
		}
		row := must(table.Get(background, one))
		if err := table.PutWith(background, one, []byte("y"), cleave.SetOptions{IfVersion: true, Version: row.Version, KeepTTL: true}); err != nil {
			t.Errorf("%s: of its version: %v", layout, err)
		}
		if row := must(table.Get(background, one)); string(row.Value) != "y" || row.Expires.IsZero() {
			t.Errorf("%s: %q expires at %v", layout, row.Value, row.Expires)
		}
		minutes.Add(2)
		if _, err := table.Get(background, one); !errors.Is(err, cleave.ErrNotFound) {
			t.Errorf("%s: past its time: %v, want ErrNotFound", layout, err)
		}
		if rows := must(collectRows(table.Scan(background, Query{}))); len(rows) != 0 {
			t.Errorf("%s: past their time: %v", layout, formatRows(table, rows))
		}
	}
}

// Where many rows have the same columns, a Put leaves one; one that is not stored leaves all.
func TestAPutThatIsNotStoredChangesNothing(t *testing.T) {
	table := openTable(t, sharedStore, "salt(16) | a:int", Options{})
	one := key.Columns{"a": 1}
	for range 20 { // two of them at least have different salts
		if err := table.Append(background, one, nil); err != nil {
			t.Fatal(err)
		}
	}
	before := must(collectRows(table.Scan(background, Query{})))
	put := func(o cleave.SetOptions) error {
		return sharedStore.Update(background, func(tx *cleave.Txn) error {
			err := table.In(tx).PutWith(one, nil, o)
			if errors.Is(err, cleave.ErrNotStored) {
				return nil // for callers that are content with the existing row
			}
			return err
		})
	}
	if err := put(cleave.SetOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if after := must(collectRows(table.Scan(background, Query{}))); len(after) != len(before) {
		t.Errorf("%d of %d rows are left", len(after), len(before))
	}
	if err := put(cleave.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := must(collectRows(table.Scan(background, Query{}))); len(after) != 1 {
		t.Errorf("%d rows are left", len(after))
	}
}

func TestColumnSaysWhatAKeyDoesNotHold(t *testing.T) {
	db := sharedStore
	table := openTable(t, db, "(dev:string, hour(ts)) | n:int", Options{})
	if err := table.Put(background, key.Columns{"dev": "a", "ts": testEpoch.Add(time.Minute), "n": 3}, nil); err != nil {
		t.Fatal(err)
	}
	row := must(table.ScanPage(background, Query{})).Rows[0]
	if dev, err := Column[string](row, "dev"); err != nil || dev != "a" {
		t.Error(dev, err)
	}
	if at, err := Column[time.Time](row, "ts"); err != nil || !at.Equal(testEpoch) {
		t.Error(at, err)
	}
	if _, err := Column[int](row, "n"); !errors.Is(err, key.ErrColumn) {
		t.Errorf("of another type: %v, want ErrColumn", err)
	}
	if _, err := Column[string](row, "colour"); !errors.Is(err, key.ErrColumn) {
		t.Errorf("of another name: %v, want ErrColumn", err)
	}
}

// A request is known again by its key. With a salt that is picked, each try has another.
func TestARequestGoesWithASaltThatIsKnown(t *testing.T) {
	table := openTable(t, sharedStore, "salt(8) | id:int", Options{})
	o := cleave.SetOptions{Request: sharedStore.NewRequestID()}
	for range 4 { // the answers were lost, say
		if err := table.AppendWith(background, key.Columns{"id": 1}, nil, o); !errors.Is(err, cleave.ErrOptions) {
			t.Errorf("a salt that is picked: %v, want ErrOptions", err)
		}
	}
	salt := table.fields[table.salt].Name()
	for range 4 {
		if err := table.AppendWith(background, key.Columns{"id": 2, salt: 3}, nil, o); err != nil {
			t.Errorf("a salt that is given: %v", err)
		}
	}
	n := 0
	for _, err := range table.Scan(background, Query{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("there are %d rows, want 1", n)
	}
}
