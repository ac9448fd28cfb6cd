package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

var bg = context.Background()

// store is where all tests have their keyspaces: opening one takes longer than most.
var store *cleave.DB

func TestMain(m *testing.M) {
	var err error
	if store, err = cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 3}); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

var spaces atomic.Int64

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func openTable(t fataler, db *cleave.DB, layout string, o Options) *Table {
	t.Helper()
	ks, err := db.CreateKeyspace(bg, cleave.KeyspaceOptions{Name: fmt.Sprint("t", spaces.Add(1)), Kind: cleave.Range, Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	table, err := Open(db, ks, o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// chosen is a Salter that says what it is told.
type chosen struct{ salts, next int }

func (c *chosen) Salts() int      { return c.salts }
func (c *chosen) Salt([]byte) int { return c.next }

// machine does the same to a table and to the model.
type machine struct {
	db     *cleave.DB
	table  *Table
	model  *model
	salter *chosen
	serial int
}

func newMachine(t *rapid.T, db *cleave.DB) *machine {
	l := drawLayout(t)
	m := &machine{db: db, model: newModel(l)}
	o := Options{}
	if m.model.picked() {
		m.salter = &chosen{salts: l.Salts()}
		o.Salter = m.salter
	}
	m.table = openTable(t, db, l.String(), o)
	return m
}

// both runs f in a transaction or lets the table do it by itself.
func (m *machine) both(t *rapid.T, read bool, alone func() error, inside func(Txn) error) {
	err := error(nil)
	switch {
	case rapid.Bool().Draw(t, "alone"):
		err = alone()
	case read && rapid.Bool().Draw(t, "view"):
		err = m.db.View(bg, func(tx *cleave.Txn) error { return inside(m.table.In(tx)) })
	default:
		err = m.db.Update(bg, func(tx *cleave.Txn) error { return inside(m.table.In(tx)) })
	}
	if err != nil {
		t.Fatalf("%v: %v", m.model.layout, err)
	}
}

func (m *machine) value() string {
	m.serial++
	return fmt.Sprint("v", m.serial)
}

func (m *machine) put(t *rapid.T) {
	c, v := drawColumns(t, m.model.layout), m.value()
	salt := 0
	if m.salter != nil {
		m.salter.next = rapid.IntRange(0, m.salter.salts-1).Draw(t, "salt")
		salt = m.salter.next
	}
	m.both(t, false, func() error { return m.table.Put(bg, c, []byte(v)) }, func(x Txn) error { return x.Put(c, []byte(v)) })
	m.model.put(c, salt, v)
}

func (m *machine) append(t *rapid.T) {
	c, v, salt := drawColumns(t, m.model.layout), m.value(), 0
	given := c
	if m.salter != nil {
		salt = rapid.IntRange(0, m.salter.salts-1).Draw(t, "salt")
		given = full(m.model, c, salt)
	}
	m.both(t, false, func() error { return m.table.Append(bg, given, []byte(v)) }, func(x Txn) error { return x.Append(given, []byte(v)) })
	m.model.append(c, salt, v)
}

func (m *machine) delete(t *rapid.T) {
	c := drawColumns(t, m.model.layout)
	was := false
	m.both(t, false,
		func() (err error) { was, err = m.table.Delete(bg, c); return err },
		func(x Txn) (err error) { was, err = x.Delete(c); return err })
	if want := m.model.delete(c); was != want {
		t.Fatalf("%v: delete %v: %t, want %t", m.model.layout, c, was, want)
	}
}

func (m *machine) get(t *rapid.T) {
	c := drawColumns(t, m.model.layout)
	var row Row
	found := true
	absent := func(err error) error {
		if errors.Is(err, cleave.ErrNotFound) {
			found, err = false, nil
		}
		return err
	}
	m.both(t, true,
		func() (err error) { row, err = m.table.Get(bg, c); return absent(err) },
		func(x Txn) (err error) { row, err = x.Get(c); return absent(err) })
	want, ok := m.model.get(c)
	if found != ok || string(row.Value) != want {
		t.Fatalf("%v: get %v: %q %t, want %q %t", m.model.layout, c, row.Value, found, want, ok)
	}
}

func (m *machine) query(t *rapid.T) {
	q := drawQuery(t, m.model)
	var rows []Row
	collect := func(s iter.Seq2[Row, error]) (err error) {
		rows, err = all(s)
		return err
	}
	m.both(t, true, func() error { return collect(m.table.Rows(bg, q)) }, func(x Txn) error { return collect(x.Rows(q)) })
	m.equal(t, fmt.Sprintf("%+v", q), rows, m.model.query(q))
}

// pages reads a query page by page, while others write elsewhere.
func (m *machine) pages(t *rapid.T) {
	q := drawQuery(t, m.model)
	q.Limit = rapid.IntRange(1, 3).Draw(t, "page")
	var rows []Row
	for {
		var page Page
		m.both(t, true,
			func() (err error) { page, err = m.table.Page(bg, q); return err },
			func(x Txn) (err error) { page, err = x.Page(q); return err })
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
	m.equal(t, fmt.Sprintf("pages of %+v", q), rows, m.model.query(q))
}

func (m *machine) equal(t *rapid.T, what string, rows []Row, want []modelRow) {
	same := slices.EqualFunc(rows, want, func(r Row, w modelRow) bool { return string(r.Value) == w.value })
	if !same {
		t.Fatalf("%v: %s:\ngot  %v\nwant %v", m.model.layout, what, texts(m.table, rows), want)
	}
	for i, r := range rows {
		for _, f := range m.model.fields {
			if f.Bucket == 0 && f.Salts == 0 {
				got, ok := r.Columns.Value(f.Column)
				if w := want[i].columns[f.Column]; !ok || key.Compare(key.Tuple{element(f, got)}, key.Tuple{element(f, w)}) != 0 {
					t.Fatalf("%v: %s is %v, want %v", m.model.layout, f.Column, got, w)
				}
			}
		}
	}
}

func all(s iter.Seq2[Row, error]) (rows []Row, err error) {
	for row, err := range s {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func texts(t *Table, rows []Row) (list []string) {
	for _, r := range rows {
		text, _ := t.layout.Format(r.Key)
		list = append(list, text+"="+string(r.Value))
	}
	return list
}

func TestATableIsASortedListOfRowsWhateverItsLayout(t *testing.T) {
	db := store
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, db)
		defer db.DropKeyspace(bg, m.table.ks.Name())
		ops := []func(*rapid.T){m.put, m.put, m.append, m.append, m.delete, m.get, m.query, m.query, m.pages}
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			rapid.SampledFrom(ops).Draw(t, "operation")(t)
		}
		m.equal(t, "all", must(all(m.table.Rows(bg, Query{}))), m.model.query(Query{}))
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
	table := openTable(t, store, "(day(ts), n:int) | hour(ts)", Options{})
	for i := range 3 {
		if err := table.Put(bg, key.Columns{"ts": epoch.Add(time.Duration(i) * time.Hour), "n": i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := all(table.Rows(bg, Query{Where: key.Columns{"ts": epoch.Add(90 * time.Minute)}}))
	if err != nil || len(rows) != 1 || must(Column[int64](rows[0], "n")) != 1 {
		t.Errorf("%v, %v, want the row of the second hour", texts(table, rows), err)
	}
}
