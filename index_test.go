package cleave

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/key"
)

func newFields(pairs ...string) (all []Field) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, Field{[]byte(pairs[i]), []byte(pairs[i+1])})
	}
	return all
}

func mustIndex(t testing.TB, db *DB, o IndexOptions) *Index {
	t.Helper()
	if o.Keyspace == nil {
		o.Keyspace = db.Default()
	}
	ix, err := db.OpenIndex(ctx, o)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, hangTimeout())
		defer cancel()
		err = ix.Wait(limited)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// formatFound returns the entries and rows that a scan finds.
func formatFound(t testing.TB, ix *Index, o IndexScanOptions) string {
	t.Helper()
	page, err := ix.ScanPage(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, item := range page.Items {
		all = append(all, fmt.Sprintf("%v=%s", item.Entry, item.Key))
	}
	return strings.Join(all, " ")
}

func expectFound(t testing.TB, ix *Index, o IndexScanOptions, want string) {
	t.Helper()
	if got := formatFound(t, ix, o); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

func TestRowsAreFoundByTheirFieldsAndTheirKeys(t *testing.T) {
	db := openSmall(t, 2)
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "people", Layout: "country:string | id:int"})
	must(t, err)
	layout, err := key.ParseLayout("country:string | id:int")
	must(t, err)
	row := func(country string, id int) []byte {
		k, err := layout.AppendValues(nil, country, id)
		must(t, err)
		return k
	}
	byAge := mustIndex(t, db, IndexOptions{Name: "age", Keyspace: ks, Columns: "age:int, country", Stored: []string{"name", "none"}})
	byID := mustIndex(t, db, IndexOptions{Name: "id", Keyspace: ks, Columns: "id", Unique: true})
	for i, f := range [][]Field{newFields("age", "9", "name", "ann"), newFields("age", "-10", "name", "ben"), newFields("age", "100"), newFields("name", "nobody")} {
		_, err := ks.HSet(ctx, row([]string{"nz", "at"}[i%2], i), f...)
		must(t, err)
	}
	must(t, ks.Set(ctx, []byte("not of the layout"), nil))
	must(t, ks.Set(ctx, row("ch", 7), []byte("no hash")))
	ages := func(o IndexScanOptions) (all string) {
		for item, err := range byAge.Scan(ctx, o) {
			must(t, err)
			all += fmt.Sprintf("%v", item.Entry)
			for _, f := range item.Fields {
				all += fmt.Sprintf("%s=%s", f.Name, f.Value)
			}
			if o.Rows {
				all += fmt.Sprintf("+%s", item.Row.Field("age"))
			}
		}
		return all
	}
	for _, c := range []struct {
		o    IndexScanOptions
		want string
	}{
		{IndexScanOptions{}, `(-10, "at")name=ben(9, "nz")name=ann(100, "nz")`},
		{IndexScanOptions{Reverse: true, Rows: true, Limit: 2}, `(100, "nz")+100(9, "nz")name=ann+9`},
		{IndexScanOptions{Prefix: key.Tuple{9}}, `(9, "nz")name=ann`},
		{IndexScanOptions{From: key.Tuple{9}, To: key.Tuple{100}}, `(9, "nz")name=ann`},
		{IndexScanOptions{From: key.Tuple{9, "nz"}}, `(9, "nz")name=ann(100, "nz")`},
		{IndexScanOptions{From: key.Tuple{9, "o"}}, `(100, "nz")`},
	} {
		if got := ages(c.o); got != c.want {
			t.Errorf("%+v finds %s, want %s", c.o, got, c.want)
		}
	}
	item, err := byID.Get(ctx, 7)
	if must(t, err); string(item.Key) != string(row("ch", 7)) {
		t.Errorf("7 is %q", item.Key)
	}
	if _, err := byID.Get(ctx, 8); !errors.Is(err, ErrNotFound) {
		t.Errorf("8: %v", err)
	}
	page, err := byAge.ScanPage(ctx, IndexScanOptions{Limit: 2})
	must(t, err)
	if next, err := byAge.ScanPage(ctx, IndexScanOptions{Limit: 2, After: page.Next}); err != nil || len(page.Items) != 2 || len(next.Items) != 1 || next.Next != nil {
		t.Errorf("%d and %d entries: %v", len(page.Items), len(next.Items), err)
	}
}

func TestAUniqueIndexRefusesASecondRow(t *testing.T) {
	for _, stores := range []int{1, 3} {
		db := openSmall(t, stores)
		ks := db.Default()
		ix := mustIndex(t, db, IndexOptions{Name: "mail", Columns: "mail", Unique: true})
		set := func(key, mail string) error {
			_, err := ks.HSet(ctx, []byte(key), newFields("mail", mail)...)
			return err
		}
		must(t, set("a", "x"))
		must(t, set("a", "x"))
		var other *UniqueError
		if err := set("b", "x"); !errors.Is(err, ErrUnique) || !errors.As(err, &other) || string(other.Key) != "a" || string(other.Row) != "b" || other.Index != "mail" {
			t.Errorf("a second row: %v", err)
		}
		if there, err := ks.Exists(ctx, []byte("b")); there || err != nil {
			t.Errorf("what was refused is there: %v", err)
		}
		must(t, set("b", "y"))
		must(t, db.Update(ctx, func(tx *Txn) error { // they change places
			for key, mail := range map[string]string{"a": "y", "b": "x"} {
				if _, err := tx.HSet(ks, []byte(key), newFields("mail", mail)...); err != nil {
					return err
				}
			}
			return nil
		}))
		expectFound(t, ix, IndexScanOptions{}, `("x")=b ("y")=a`)
		var b Batch
		b.HSet(ks, []byte("c"), newFields("mail", "z")...)
		b.HSet(ks, []byte("d"), newFields("mail", "z")...)
		if err := db.Write(ctx, &b); !errors.Is(err, ErrUnique) {
			t.Errorf("two of a batch: %v", err)
		}
		// Rows that were there before are named too, by every caller that asks.
		must(t, db.Update(ctx, func(tx *Txn) error {
			_, err := tx.HSet(ks, []byte("first"), newFields("tax", "1")...)
			_, err2 := tx.HSet(ks, []byte("second"), newFields("tax", "1")...)
			return errors.Join(err, err2)
		}))
		twice, err := db.OpenIndex(ctx, IndexOptions{Name: "tax", Keyspace: ks, Columns: "tax", Unique: true})
		must(t, err)
		waitUntil(t, "its worker stops", func() bool {
			status, err := twice.Status()
			must(t, err)
			return status.Err != nil
		})
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		waited := twice.Wait(short)
		cancel()
		_, scanned := twice.ScanPage(ctx, IndexScanOptions{})
		for say, err := range map[string]error{"Wait": waited, "Scan": scanned} {
			if err == nil || !strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), `"second"`) {
				t.Errorf("%s of one that cannot be built: %v", say, err)
			}
		}
		if !errors.Is(scanned, ErrIndexBuilding) {
			t.Errorf("Scan of one that cannot be built: %v", scanned)
		}
		if !errors.Is(waited, context.DeadlineExceeded) || !errors.Is(waited, ErrUnique) {
			t.Errorf("Wait for one that cannot be built is neither of its time nor of its reason: %v", waited)
		}
		must(t, db.DropIndex(ctx, "default", "tax"))
		// Of many that want the same, one gets it.
		results := make(chan error, 8)
		for i := range cap(results) {
			go func() { results <- set(fmt.Sprint("racer", i), "prize") }()
		}
		got := 0
		for range cap(results) {
			if err := <-results; err == nil {
				got++
			} else if !errors.Is(err, ErrUnique) {
				t.Error(err)
			}
		}
		if got != 1 {
			t.Errorf("%d rows got the same entry", got)
		}
	}
}

// Tuples are equal if all of their elements are: one that goes on with nil is another.
func TestATupleThatGoesOnWithNilIsAnother(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	tuples := map[string]key.Tuple{"1": {"a"}, "2": {"a", nil}, "3": {"a", nil, nil}, "4": {nil}, "5": {nil, nil}, "6": {"a", []byte{}}}
	ix := mustIndex(t, db, IndexOptions{Name: "u", Unique: true, Function: "f", Version: "1", Extract: func(r IndexRow) ([]IndexEntry, error) {
		return []IndexEntry{{Entry: tuples[string(r.Value)]}}, nil
	}})
	for _, order := range []string{"123456", "654321"} {
		for _, value := range order {
			must(t, ks.Set(ctx, []byte(string(value)), []byte(string(value))))
			checkRefused(t, "the same tuple", ks.Set(ctx, []byte("other"), []byte(string(value))), ErrUnique)
		}
		page, err := ix.ScanPage(ctx, IndexScanOptions{})
		if must(t, err); len(page.Items) != len(tuples) {
			t.Errorf("%d of %d are found", len(page.Items), len(tuples))
		}
		for value := range tuples {
			_, err := ks.Delete(ctx, []byte(value))
			must(t, err)
		}
	}
}

// What counts is what the rows are at the commit. An index that is read before has the
// entries written which there are then, and one of them may be given up again.
func TestAnEntryThatWasGivenUpIsFree(t *testing.T) {
	db := openSmall(t, 2)
	ks := db.Default()
	ix := mustIndex(t, db, IndexOptions{Name: "mail", Columns: "mail", Unique: true})
	for _, c := range []struct {
		steps string // a row and what it gets, none to be deleted
		want  string // nothing if it is refused
	}{
		{"a=x a=y b=x", `("x")=b ("y")=a`},
		{"a=x a= b=x", `("x")=b`},
		{"a=x a=y a=x", `("x")=a`},
		{"a=x a=y a=x b=x", ""},
		{"a=x b=x a=y", `("x")=b ("y")=a`},
	} {
		for _, reads := range []bool{false, true} {
			err := db.Update(ctx, func(tx *Txn) error {
				for _, step := range strings.Fields(c.steps) {
					row, mail, _ := strings.Cut(step, "=")
					if _, err := tx.Delete(ks, []byte(row)); err != nil {
						return err
					}
					if mail != "" {
						if _, err := tx.HSet(ks, []byte(row), newFields("mail", mail)...); err != nil {
							return err
						}
					}
					if !reads {
						continue
					}
					for _, err := range tx.ScanIndex(ix, IndexScanOptions{}) {
						if err != nil {
							return err
						}
					}
				}
				return nil
			})
			if c.want == "" && !errors.Is(err, ErrUnique) || c.want != "" && err != nil {
				t.Errorf("%s, read in between: %v: %v", c.steps, reads, err)
			}
			expectFound(t, ix, IndexScanOptions{}, c.want)
			_, err = ks.Delete(ctx, []byte("a"), []byte("b"))
			must(t, err)
		}
	}
}

// Entries outlive their rows, but nothing outlives the end of time.
func TestARowThatExpiresAtTheEndOfTimeIsIndexed(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	p, err := ks.appendPosition(nil, []byte("a"))
	must(t, err)
	_, err = ks.executeCommand(ctx, p, RequestID{}, &command.Set{Key: p, Value: []byte("x"), Expiry: command.ExpireAt(math.MaxInt64)})
	must(t, err)
	must(t, ks.Set(ctx, []byte("b"), []byte("y")))
	ix, err := db.OpenIndex(ctx, IndexOptions{Name: "f", Keyspace: ks, Function: "f", Extract: func(r IndexRow) ([]IndexEntry, error) {
		return []IndexEntry{{Entry: key.Tuple{string(r.Value)}}}, nil
	}})
	must(t, err)
	must(t, ix.Wait(ctx))
	expectFound(t, ix, IndexScanOptions{}, `("x")=a ("y")=b`)
	report, err := ix.Verify(ctx)
	if must(t, err); !report.Clean() {
		t.Errorf("%+v", report)
	}
	_, err = ks.executeCommand(ctx, p, RequestID{}, &command.Set{Key: p, Value: []byte("z"), Expiry: command.ExpireAt(math.MaxInt64 - 5)})
	must(t, err)
	expectFound(t, ix, IndexScanOptions{}, `("y")=b ("z")=a`)
}

// A row that has expired leaves its entries for a while. No reader sees them, and no write is
// refused because of them.
func TestEntriesExpireWithTheirRows(t *testing.T) {
	clock := newClock()
	o := memoryOptions(3)
	o.Wall, o.HousekeepInterval = clock.ms.Load, -1
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks := db.Default()
	ix := mustIndex(t, db, IndexOptions{Name: "first", Unique: true, Function: "first", Extract: func(r IndexRow) ([]IndexEntry, error) {
		return []IndexEntry{{Entry: key.Tuple{string(r.Value)}}}, nil
	}})
	_, err := ks.SetWith(ctx, []byte("a"), []byte("x"), SetOptions{TTL: time.Second})
	must(t, err)
	expectFound(t, ix, IndexScanOptions{}, `("x")=a`)
	clock.advance(500 * time.Millisecond)
	_, err = ks.Expire(ctx, []byte("a"), time.Second)
	must(t, err)
	clock.advance(700 * time.Millisecond)
	expectFound(t, ix, IndexScanOptions{}, `("x")=a`)
	clock.advance(300 * time.Millisecond)
	expectFound(t, ix, IndexScanOptions{}, ``)
	_, err = ks.SetWith(ctx, []byte("a"), []byte("y"), SetOptions{TTL: time.Second}) // without knowing what it was
	must(t, err)
	expectFound(t, ix, IndexScanOptions{Limit: 1}, `("y")=a`)
	must(t, ks.Set(ctx, []byte("b"), []byte("x"))) // which is free again
	expectFound(t, ix, IndexScanOptions{}, `("x")=b ("y")=a`)
	if _, err = ks.SetWith(ctx, []byte("a"), []byte("x"), SetOptions{KeepTTL: true}); !errors.Is(err, ErrUnique) {
		t.Errorf("a taken entry: %v", err)
	}
	_, err = ks.Persist(ctx, []byte("a"))
	must(t, err)
	clock.advance(1000 * time.Hour)
	expectFound(t, ix, IndexScanOptions{}, `("x")=b ("y")=a`)
	report, err := ix.Verify(ctx)
	if must(t, err); !report.Clean() || report.Rows != 2 || report.Entries != 2 {
		t.Errorf("%+v", report)
	}
}

// An index that is read in a transaction is what its rows are there, and what others
// change in what was read is a conflict.
func TestATransactionReadsAnIndexWithItsOwnWrites(t *testing.T) {
	db := openSmall(t, 2)
	ks := db.Default()
	ix := mustIndex(t, db, IndexOptions{Name: "team", Columns: "team"})
	_, err := ks.HSet(ctx, []byte("a"), newFields("team", "red")...)
	must(t, err)
	count := func(tx *Txn, team string) (n int) {
		for _, err := range tx.ScanIndex(ix, IndexScanOptions{Prefix: key.Tuple{team}}) {
			if err != nil {
				return -1
			}
			n++
		}
		return n
	}
	attempts := 0
	must(t, db.Update(ctx, func(tx *Txn) error {
		attempts++
		if _, err := tx.HSet(ks, []byte("b"), newFields("team", "red")...); err != nil {
			return err
		}
		if n := count(tx, "red"); n != 1+attempts {
			t.Errorf("attempt %d sees %d", attempts, n)
		}
		if _, err := tx.HSet(ks, []byte("b"), newFields("team", "blue")...); err != nil {
			return err
		}
		if red, blue := count(tx, "red"), count(tx, "blue"); red != attempts || blue != 1 {
			t.Errorf("attempt %d sees %d red and %d blue", attempts, red, blue)
		}
		if attempts == 1 { // another one joins
			_, err := ks.HSet(ctx, []byte("c"), newFields("team", "red")...)
			return err
		}
		return nil
	}))
	if attempts != 2 {
		t.Errorf("%d attempts", attempts)
	}
	expectFound(t, ix, IndexScanOptions{}, `("blue")=b ("red")=a ("red")=c`)
}

// A row that an index refuses may be repaired in the same transaction, also after another
// index was read. Then all find it, for as long as it is there.
func TestARowThatWasRepairedHasItsEntries(t *testing.T) {
	db := openSmall(t, 1)
	ks, row := db.Default(), []byte("row")
	name := mustIndex(t, db, IndexOptions{Name: "name", Columns: "name"})
	years := mustIndex(t, db, IndexOptions{Name: "years", Columns: "years:int"})
	_, err := ks.HSet(ctx, row, newFields("name", "n", "years", "7")...)
	must(t, err)
	must(t, db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.HSet(ks, row, newFields("years", "old")...); err != nil {
			return err
		}
		if _, err := tx.Expire(ks, row, time.Hour); err != nil {
			return err
		}
		for _, err := range tx.ScanIndex(name, IndexScanOptions{}) {
			checkRefused(t, "years that are no number", err, ErrIndexRow)
			break
		}
		if _, err := tx.HSet(ks, row, newFields("years", "8")...); err != nil {
			return err
		}
		_, err := tx.Persist(ks, row)
		return err
	}))
	expectFound(t, name, IndexScanOptions{}, `("n")=row`)
	expectFound(t, years, IndexScanOptions{}, `(8)=row`)
}

func TestWhatAnIndexCannotDoIsRefusedAndSaid(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	f := func(IndexRow) ([]IndexEntry, error) { return nil, nil }
	other := openSmall(t, 1)
	dropped := rangeSpace(t, db, "dropped")
	must(t, db.DropKeyspace(ctx, "dropped"))
	ix := mustIndex(t, db, IndexOptions{Name: "age", Columns: "age:int"})
	for say, c := range map[string]struct {
		o    IndexOptions
		want error
	}{
		"no keyspace":      {IndexOptions{Name: "x", Columns: "a"}, ErrOptions},
		"another DB":       {IndexOptions{Name: "x", Columns: "a", Keyspace: other.Default()}, ErrOptions},
		"a dropped one":    {IndexOptions{Name: "x", Columns: "a", Keyspace: dropped}, ErrNoKeyspace},
		"no name":          {IndexOptions{Columns: "a", Keyspace: ks}, ErrOptions},
		"a slash":          {IndexOptions{Name: "a/b", Columns: "a", Keyspace: ks}, ErrOptions},
		"a long name":      {IndexOptions{Name: strings.Repeat("x", 65), Columns: "a", Keyspace: ks}, ErrOptions},
		"nothing":          {IndexOptions{Name: "x", Keyspace: ks}, ErrOptions},
		"both":             {IndexOptions{Name: "x", Keyspace: ks, Columns: "a", Function: "f", Extract: f}, ErrOptions},
		"a nameless":       {IndexOptions{Name: "x", Keyspace: ks, Extract: f}, ErrOptions},
		"bad columns":      {IndexOptions{Name: "x", Keyspace: ks, Columns: "a:thing"}, ErrOptions},
		"a drawn salt":     {IndexOptions{Name: "x", Keyspace: ks, Columns: "salt(4), a"}, ErrOptions},
		"late and unique":  {IndexOptions{Name: "x", Keyspace: ks, Columns: "a", Unique: true, Mode: Asynchronous}, ErrOptions},
		"an unknown mode":  {IndexOptions{Name: "x", Keyspace: ks, Columns: "a", Mode: 7}, ErrOptions},
		"stored twice":     {IndexOptions{Name: "x", Keyspace: ks, Columns: "a", Stored: []string{"b", "b"}}, ErrOptions},
		"the same name":    {IndexOptions{Name: "age", Keyspace: ks, Columns: "age:int"}, ErrIndexExists},
		"an index's space": {IndexOptions{Name: "x", Keyspace: ix.Entries(), Columns: "a"}, ErrOptions},
	} {
		if _, err := db.CreateIndex(ctx, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", say, err)
		}
	}
	if _, err := db.OpenIndex(ctx, IndexOptions{Name: "age", Keyspace: ks, Columns: "age"}); !errors.Is(err, ErrIndexExists) {
		t.Errorf("other options: %v", err)
	}
	if _, err := db.Index("default", "none"); !errors.Is(err, ErrNoIndex) {
		t.Errorf("no index: %v", err)
	}
	if err := db.DropIndex(ctx, "default", "none"); !errors.Is(err, ErrNoIndex) {
		t.Errorf("no index to drop: %v", err)
	}
	for say, o := range map[string]IndexScanOptions{"prefix": {Prefix: key.Tuple{"9"}}, "from": {From: key.Tuple{"9"}}, "to": {To: key.Tuple{9, 9, 9}}} {
		if _, err := ix.ScanPage(ctx, o); !errors.Is(err, ErrOptions) {
			t.Errorf("values that no entry can have, %s: %v", say, err)
		}
	}
	for say, run := range map[string]func(context.Context, func(*Txn) error) error{"View": db.View, "Update": db.Update} {
		err := run(ctx, func(tx *Txn) error {
			for _, err := range tx.ScanIndex(ix, IndexScanOptions{Fresh: true}) {
				return err
			}
			return nil
		})
		if !errors.Is(err, ErrOptions) {
			t.Errorf("to wait in %s: %v", say, err)
		}
	}
	// Rows.
	if _, err := ks.HSet(ctx, []byte("a"), newFields("age", "old")...); !errors.Is(err, ErrIndexRow) || !strings.Contains(err.Error(), `key "a"`) {
		t.Errorf("a field of the wrong type: %v", err)
	}
	mustIndex(t, db, IndexOptions{Name: "long", Columns: "long"})
	if _, err := ks.HSet(ctx, []byte("a"), newFields("long", strings.Repeat("x", index.MaxKeyBytes))...); !errors.Is(err, ErrIndexRow) {
		t.Errorf("a long entry: %v", err)
	}
	if there, err := ks.Exists(ctx, []byte("a")); there || err != nil {
		t.Errorf("what was refused is there: %v", err)
	}
	// The entries themselves.
	entries, err := db.Keyspace("index/default/age")
	must(t, err)
	var b Batch
	b.Set(entries, []byte("a"), nil)
	_, deleted := entries.Delete(ctx, []byte("a"))
	_, made := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "index/mine"})
	for say, err := range map[string]error{
		"Set": entries.Set(ctx, []byte("a"), nil), "Delete": deleted, "Batch": b.Err(), "CreateKeyspace": made,
		"Update": db.Update(ctx, func(tx *Txn) error { return tx.Set(entries, []byte("a"), nil) }),
		"Drop":   db.DropKeyspace(ctx, "index/default/age"),
	} {
		if !errors.Is(err, ErrOptions) {
			t.Errorf("%s of entries: %v", say, err)
		}
	}
	if index.MaxKeyBytes != command.MaxKeyBytes {
		t.Error("the limits of keys are not the same")
	}
}

func TestADroppedIndexIsGoneAndSoAreThoseOfADroppedKeyspace(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "k")
	must(t, ks.Set(ctx, []byte("a"), []byte("1")))
	ix := mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: extractAll})
	must(t, db.DropIndex(ctx, "k", "all"))
	must(t, ks.Set(ctx, []byte("b"), []byte("2")))
	_, scanned := ix.ScanPage(ctx, IndexScanOptions{})
	_, status := ix.Status()
	for say, err := range map[string]error{"Scan": scanned, "Status": status, "Wait": ix.Wait(ctx), "WaitFresh": ix.WaitFresh(ctx, db.Head())} {
		if !errors.Is(err, ErrNoIndex) {
			t.Errorf("%s: %v", say, err)
		}
	}
	again := mustIndex(t, db, IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: extractAll})
	if _, err := ix.ScanPage(ctx, IndexScanOptions{}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("the old one: %v", err)
	}
	expectFound(t, again, IndexScanOptions{}, `("value", "1")=a ("value", "2")=b`)
	must(t, db.DropKeyspace(ctx, "k"))
	if all := db.Indexes(); len(all) != 0 {
		t.Errorf("%d indexes are left", len(all))
	}
	if all := db.Keyspaces(); len(all) != 1 {
		t.Errorf("%d keyspaces are left", len(all))
	}
	ks = rangeSpace(t, db, "k")
	must(t, ks.Set(ctx, []byte("a"), nil))
}
