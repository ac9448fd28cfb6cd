package table

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

func TestOpenRefusesWhatIsNoTable(t *testing.T) {
	db := store
	for name, o := range map[string]cleave.KeyspaceOptions{
		"hash":      {Kind: cleave.Hash, Layout: "a"},
		"no layout": {Kind: cleave.Range},
	} {
		o.Name = strings.ReplaceAll(name, " ", "-")
		ks := must(db.OpenKeyspace(bg, o)) // the store is shared, also with a second run
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
		bad, err := Open(db, ks, Options{Salter: &chosen{salts: 2}})
		if bad != nil || !errors.Is(err, key.ErrSalt) || !errors.Is(err, ErrNoTable) || !strings.Contains(err.Error(), ks.Name()) {
			t.Errorf("a Salter %s: %v, want ErrSalt and ErrNoTable, and the name", name, err)
		}
	}
}

func TestColumnsThatDoNotFitAreNamed(t *testing.T) {
	db := store
	table := openTable(t, db, "salt(4, id) | ts:time, id:int", Options{})
	for want, c := range map[string]key.Columns{
		"id: missing":           {"ts": epoch},
		"want time":             {"ts": 1, "id": 1},
		"want int":              {"ts": epoch, "id": "x"},
		`"colour" is not`:       {"ts": epoch, "id": 1, "colour": "red"},
		`"salt(4, id)" is not`:  {"ts": epoch, "id": 1, "salt(4, id)": 1},
		table.Keyspace().Name(): {},
		table.Layout().String(): nil,
	} {
		_, get := table.Get(bg, c)
		_, del := table.Delete(bg, c)
		inside := db.Update(bg, func(tx *cleave.Txn) error { return table.In(tx).Put(c, nil) })
		for _, err := range []error{get, del, inside, table.Put(bg, c, nil), table.Append(bg, c, nil)} {
			if !errors.Is(err, key.ErrColumn) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want ErrColumn and %q", c, err, want)
			}
		}
	}
	for _, q := range []Query{
		{Where: key.Columns{"colour": 1}},
		{Where: key.Columns{"ts": "now"}},
		{From: 1},
		{Where: key.Columns{"ts": epoch, "id": 1}, From: 1},
	} {
		if _, err := table.Page(bg, q); !errors.Is(err, key.ErrColumn) {
			t.Errorf("%+v: %v, want ErrColumn", q, err)
		}
	}
	for want, err := range map[string]error{
		"From bounds ts,": func() error { _, err := table.Page(bg, Query{From: 1}); return err }(),
		"To bounds ts,":   func() error { _, err := table.Page(bg, Query{To: 1}); return err }(),
		`"dev" is not in`: func() error {
			_, err := openTable(t, db, "device | ts:time", Options{}).Last(bg, Last{N: 1, Where: key.Columns{"dev": "a"}})
			return err
		}(),
	} {
		if !errors.Is(err, key.ErrColumn) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrColumn and %q", err, want)
		}
	}
	if _, err := table.Page(bg, Query{Limit: -1}); !errors.Is(err, ErrQuery) {
		t.Errorf("a negative limit: %v, want ErrQuery", err)
	}
}

func TestAForeignKeyIsNamedOrPassedOver(t *testing.T) {
	db := store
	for _, layout := range []string{"a:int", "salt(3) | a:int", "(a:int, salt(3)) | b:int", "salt(3, a) | a:int"} {
		for _, reverse := range []bool{false, true} {
			strict := openTable(t, db, layout, Options{})
			lenient := must(Open(db, strict.Keyspace(), Options{SkipForeign: true}))
			for i := range 40 {
				if err := strict.Put(bg, columnsOf(strict, i), []byte("row")); err != nil {
					t.Fatal(err)
				}
			}
			k := must(strict.Key(columnsOf(strict, 20)))
			foreign := append(k, 0x01, 'x', 0x00) // one element more
			if err := strict.Keyspace().Set(bg, foreign, nil); err != nil {
				t.Fatal(err)
			}
			var e *ForeignKeyError
			_, err := all(strict.Rows(bg, Query{Reverse: reverse}))
			if !errors.As(err, &e) || string(e.Key) != string(foreign) || !errors.Is(err, key.ErrForeignKey) {
				t.Errorf("%s: %v, want a ForeignKeyError that names %q", layout, err, foreign)
			}
			rows, err := all(lenient.Rows(bg, Query{Reverse: reverse}))
			if err != nil || len(rows) != 40 || lenient.Foreign() == 0 {
				t.Errorf("%s: %d rows, %v, and %d foreign keys", layout, len(rows), err, lenient.Foreign())
			}
		}
	}
	table := openTable(t, db, "(a:int, salt(3)) | b:int", Options{SkipForeign: true})
	if err := table.Keyspace().Set(bg, []byte("\x15\x01no tuple"), nil); err != nil {
		t.Fatal(err)
	}
	if rows, err := all(table.Rows(bg, Query{})); err != nil || len(rows) != 0 || table.Foreign() != 1 {
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
	db := store
	table := openTable(t, db, "salt(3) | a:int", Options{})
	other := openTable(t, db, "b:string, a:int", Options{})
	for i := range 5 {
		if err := errors.Join(table.Put(bg, key.Columns{"a": i}, nil), other.Put(bg, key.Columns{"b": "x", "a": i}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	good := must(table.Page(bg, Query{Limit: 3})).Next
	foreign := must(other.Page(bg, Query{Limit: 3})).Next
	for _, q := range []Query{
		{After: foreign}, {After: "?"}, {After: "AA"}, {After: "Ag"}, {After: good + "A"},
		{After: good, From: 3}, {After: good, To: 2}, {After: good, Where: key.Columns{"a": 1}},
	} {
		if _, err := table.Page(bg, q); !errors.Is(err, ErrCursor) {
			t.Errorf("%+v: %v, want ErrCursor", q, err)
		}
	}
	if _, err := table.Delete(bg, key.Columns{"a": 2}); err != nil { // the row that it names
		t.Fatal(err)
	}
	if page, err := table.Page(bg, Query{After: good, From: 1}); err != nil || len(page.Rows) != 2 {
		t.Errorf("behind a row that is gone: %v, %v", texts(table, page.Rows), err)
	}
}

func FuzzCursor(f *testing.F) {
	db := store
	table := openTable(f, db, "(d, salt(3)) | a:int", Options{})
	for i := range 5 {
		if err := table.Put(bg, key.Columns{"d": i % 2, "a": i}, nil); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(string(must(table.Page(bg, Query{Limit: 2})).Next))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, c string) {
		if _, err := table.Page(bg, Query{After: Cursor(c)}); err != nil && !errors.Is(err, ErrCursor) {
			t.Error(err)
		}
	})
}

func TestRowsExpireAndConditionsHold(t *testing.T) {
	var minutes atomic.Int64 // the store looks at the clock too
	db, err := cleave.OpenMemory(cleave.Options{Now: func() time.Time { return epoch.Add(time.Duration(minutes.Load()) * time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, layout := range []string{"a:int", "salt(4) | a:int", "salt(4, a) | a:int"} {
		table := openTable(t, db, layout, Options{})
		one := key.Columns{"a": 1}
		if err := table.PutWith(bg, one, []byte("x"), cleave.SetOptions{TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if err := table.PutWith(bg, one, nil, cleave.SetOptions{IfAbsent: true}); !errors.Is(err, cleave.ErrNotStored) {
			t.Errorf("%s: a row that is there: %v, want ErrNotStored", layout, err)
		}
		row := must(table.Get(bg, one))
		if err := table.PutWith(bg, one, []byte("y"), cleave.SetOptions{IfVersion: true, Version: row.Version, KeepTTL: true}); err != nil {
			t.Errorf("%s: of its version: %v", layout, err)
		}
		if row := must(table.Get(bg, one)); string(row.Value) != "y" || row.Expires.IsZero() {
			t.Errorf("%s: %q expires at %v", layout, row.Value, row.Expires)
		}
		minutes.Add(2)
		if _, err := table.Get(bg, one); !errors.Is(err, cleave.ErrNotFound) {
			t.Errorf("%s: past its time: %v, want ErrNotFound", layout, err)
		}
		if rows := must(all(table.Rows(bg, Query{}))); len(rows) != 0 {
			t.Errorf("%s: past their time: %v", layout, texts(table, rows))
		}
	}
}

// Where many rows have the same columns, a Put leaves one; one that is not stored leaves all.
func TestAPutThatIsNotStoredChangesNothing(t *testing.T) {
	table := openTable(t, store, "salt(16) | a:int", Options{})
	one := key.Columns{"a": 1}
	for range 20 { // two of them at least have different salts
		if err := table.Append(bg, one, nil); err != nil {
			t.Fatal(err)
		}
	}
	before := must(all(table.Rows(bg, Query{})))
	put := func(o cleave.SetOptions) error {
		return store.Update(bg, func(tx *cleave.Txn) error {
			err := table.In(tx).PutWith(one, nil, o)
			if errors.Is(err, cleave.ErrNotStored) {
				return nil // whoever is content with what is there
			}
			return err
		})
	}
	if err := put(cleave.SetOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if after := must(all(table.Rows(bg, Query{}))); len(after) != len(before) {
		t.Errorf("%d of %d rows are left", len(after), len(before))
	}
	if err := put(cleave.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := must(all(table.Rows(bg, Query{}))); len(after) != 1 {
		t.Errorf("%d rows are left", len(after))
	}
}

func TestColumnSaysWhatAKeyDoesNotHold(t *testing.T) {
	db := store
	table := openTable(t, db, "(dev:string, hour(ts)) | n:int", Options{})
	if err := table.Put(bg, key.Columns{"dev": "a", "ts": epoch.Add(time.Minute), "n": 3}, nil); err != nil {
		t.Fatal(err)
	}
	row := must(table.Page(bg, Query{})).Rows[0]
	if dev, err := Column[string](row, "dev"); err != nil || dev != "a" {
		t.Error(dev, err)
	}
	if at, err := Column[time.Time](row, "ts"); err != nil || !at.Equal(epoch) {
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
	table := openTable(t, store, "salt(8) | id:int", Options{})
	o := cleave.SetOptions{Request: store.NewRequestID()}
	for range 4 { // the answers were lost, say
		if err := table.AppendWith(bg, key.Columns{"id": 1}, nil, o); !errors.Is(err, cleave.ErrOptions) {
			t.Errorf("a salt that is picked: %v, want ErrOptions", err)
		}
	}
	salt := table.fields[table.salt].Name()
	for range 4 {
		if err := table.AppendWith(bg, key.Columns{"id": 2, salt: 3}, nil, o); err != nil {
			t.Errorf("a salt that is given: %v", err)
		}
	}
	n := 0
	for _, err := range table.Rows(bg, Query{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("there are %d rows, want 1", n)
	}
}
