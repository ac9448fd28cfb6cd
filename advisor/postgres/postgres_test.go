//go:build unix

package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/recordtext"
)

func open(t *testing.T, connection string, o Options) *Table {
	t.Helper()
	table, err := Open(t.Context(), connection, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	return table
}

func TestTable_ReadsEachTypeAsText(t *testing.T) {
	connection := newDatabase(t,
		`CREATE DOMAIN amount AS numeric(10,2)`,
		`CREATE TABLE "Order Lines" (id bigint, "user" text, token uuid, at timestamptz, day date, price amount, paid boolean, weight float8, raw bytea, gone int, tags text[])`,
		`ALTER TABLE "Order Lines" DROP COLUMN gone`,
		`INSERT INTO "Order Lines" VALUES (-7, 'Ünï', 'ab000000-0000-0000-0000-000000000001', '2026-10-01 14:00:00.005+02', '2024-10-04', -19.99, true, 1.5, '\xff00', '{a,b}'), (8, NULL, NULL, NULL, NULL, 5, false, NULL, NULL, NULL)`)
	got, err := recordtext.Read(open(t, connection, Options{Table: `"Order Lines"`}))
	want := "id user token at day price paid weight raw tags: " +
		`-7,Ünï,ab000000-0000-0000-0000-000000000001,2026-10-01T12:00:00.005Z,2024-10-04,-19.99,true,1.5,\xff00,{a,b} | ` +
		"8,NULL,NULL,NULL,NULL,5.00,false,NULL,NULL,NULL"
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

func TestTable_IsAdvisedOn(t *testing.T) {
	connection := newDatabase(t,
		`CREATE SCHEMA shop`,
		`CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer text, region text, created_at timestamptz NOT NULL)`,
		`INSERT INTO shop.orders SELECT i, 'customer-' || (i * 7919 % 5003), (ARRAY['eu','us','ap'])[1 + i % 3], '2026-10-01'::timestamptz + i * interval '1 second' FROM generate_series(1, 40000) i`,
		`ANALYZE shop.orders`)
	table := open(t, connection, Options{Table: "shop.orders"})
	if n := table.EstimatedRows(); n != 40_000 {
		t.Errorf("%d rows estimated, want 40,000", n)
	}
	report, err := advisor.Analyze(t.Context(), table, advisor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, c := range report.Columns {
		types = append(types, c.Name+":"+c.Type)
	}
	if got, want := strings.Join(types, " "), "id:int customer:string region:string created_at:time"; got != want || report.Rows != 40_000 {
		t.Errorf("got %s in %d rows, want %s", got, report.Rows, want)
	}
	if best := report.Candidates[0]; !strings.Contains(best.Layout, "customer") || best.Grade != "A" {
		t.Errorf("best is %s, grade %s", best.Layout, best.Grade)
	}

	sample := open(t, connection, Options{Table: "shop.orders", Percent: 20})
	report, err = advisor.Analyze(t.Context(), sample, advisor.Options{})
	if err != nil || report.Rows < 2_000 || report.Rows > 20_000 {
		t.Errorf("20 percent are %+v, %v", report, err)
	}
}

func TestTable_QueriesAreThoseOfTheTable(t *testing.T) {
	connection := newDatabase(t,
		`CREATE EXTENSION pg_stat_statements`,
		`CREATE TABLE orders (id bigint, customer text, region text)`,
		`SELECT * FROM orders WHERE customer = 'a'`, `SELECT * FROM orders WHERE customer = 'b'`,
		`UPDATE orders SET region = 'x' WHERE id = 1`, `SELECT count(*) FROM pg_class`)
	table := open(t, connection, Options{Table: "orders"})
	queries, err := table.Queries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, q := range queries {
		found[q.Op+" "+strings.Join(q.Columns, ",")+" "+strings.Join(q.Set, ",")] += q.Count
	}
	if found["select customer "] != 2 || found["update id region"] != 1 || len(found) != 2 {
		t.Errorf("got %v", found)
	}
	if _, err := advisor.Analyze(t.Context(), table, advisor.Options{Queries: queries}); !errors.Is(err, advisor.ErrNoRows) {
		t.Errorf("got %v, want %v: the table is empty", err, advisor.ErrNoRows)
	}
}

// Without the extension the table can still be read.
func TestTable_WithoutStatementsIsRead(t *testing.T) {
	connection := newDatabase(t, `CREATE TABLE orders (id bigint)`, `INSERT INTO orders VALUES (7)`)
	table := open(t, connection, Options{Table: "orders"})
	if _, err := table.Queries(t.Context()); !errors.Is(err, ErrNoStatements) {
		t.Errorf("got %v, want %v", err, ErrNoStatements)
	}
	if got, err := recordtext.Read(table); err != nil || got != "id: 7" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestOpen_ErrorsSayWhatToDo(t *testing.T) {
	connection := newDatabase(t,
		`CREATE TABLE orders (id bigint)`, `CREATE TABLE empty ()`, `CREATE VIEW recent AS SELECT * FROM orders`, `CREATE INDEX by_id ON orders (id)`,
		`DROP ROLE IF EXISTS guest`, `CREATE ROLE guest LOGIN`)
	for _, c := range []struct {
		connection string
		o          Options
		is         error
		want       string
	}{
		{connection, Options{Table: "nothing"}, ErrNoTable, "there are empty, orders"},
		{connection, Options{Table: "by_id"}, ErrNoTable, "is an index"},
		{connection, Options{Table: "empty"}, ErrNoTable, "has no columns"},
		{connection, Options{Table: `bad"name`}, ErrNoTable, "bad\"name; there are empty, orders"},
		{connection, Options{Table: "recent", Percent: 5}, ErrOptions, "is a view"},
		{connection, Options{Table: "orders", Percent: 101}, ErrOptions, "101 percent"},
		{"host=/nowhere user=me", Options{Table: "orders"}, ErrUnreachable, "/nowhere"},
		{"postgres://127.0.0.1:1/x?connect_timeout=5", Options{Table: "orders"}, ErrUnreachable, "refused"},
		{"postgres://me:secret@%zz", Options{Table: "orders"}, ErrOptions, "parse"},
	} {
		_, err := Open(t.Context(), c.connection, c.o)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %+v: got %v, want %v and %q", c.connection, c.o, err, c.is, c.want)
		}
	}
	guest := open(t, strings.Replace(connection, "user=owner", "user=guest", 1), Options{Table: "orders"})
	if _, err := recordtext.Read(guest); !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), `GRANT SELECT ON "public"."orders" TO "guest"`) {
		t.Errorf("got %v, want %v", err, ErrPermission)
	}
}

func TestTable_InterruptedReportsWhatItKnows(t *testing.T) {
	connection := newDatabase(t, `CREATE TABLE orders AS SELECT i AS id, i % 500 AS customer FROM generate_series(1, 400000) i`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	table, err := Open(ctx, connection, Options{Table: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	report, err := advisor.Analyze(ctx, table, advisor.Options{Progress: func(p advisor.Progress) {
		if p.Rows > 20_000 {
			cancel()
		}
	}})
	if err != nil || !report.Interrupted || report.Rows < 20_000 || report.Rows == 400_000 {
		t.Errorf("got %+v, %v", report, err)
	}
}
