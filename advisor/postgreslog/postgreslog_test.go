package postgreslog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor/postgreslog"
)

// logLine is a line as PostgreSQL 15 writes it: a session, a transaction, a message and its detail.
func logLine(session, txn, message, detail string) string {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return fmt.Sprintf(`2026-11-01 10:00:00.123 UTC,"shop","shop",4711,"127.0.0.1:5000",%s,1,"SELECT",2026-11-01 09:00:00 UTC,%s,0,LOG,00000,%s,%s,,,,,,,,"psql","client backend",,0`+"\n",
		session, txn, quote(message), quote(detail))
}

var columns = []string{"id", "customer"}

func TestRead_CSVLog_HasStatementsWithValuesAndTransactions(t *testing.T) {
	log := logLine("s1", "3/7", "statement: SELECT * FROM orders\nWHERE customer = 'a''b'", "") +
		logLine("s1", "3/7", "duration: 0.101 ms  execute <unnamed>: UPDATE orders SET customer = $1 WHERE id = $2", "parameters: $1 = NULL, $2 = 'x'', $2 = ''y'") +
		logLine("s2", "", "execute S_1: DELETE FROM public.orders WHERE id = $1", "Parameters: $1 = '7'") +
		logLine("s2", "", "duration: 0.1 ms  bind S_1: DELETE FROM orders WHERE id = $1", "parameters: $1 = '8'") +
		logLine("s2", "", "duration: 12.5 ms", "") + logLine("s2", "", "statement: SELECT * FROM users WHERE id = 1", "") +
		logLine("s2", "", "connection received: host=127.0.0.1", "")
	queries, err := postgreslog.Read(strings.NewReader(log), "orders", columns)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range queries {
		filter, err := json.Marshal(q.Filter)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %v %v %d %q", q.Op, filter, q.Columns, q.Set, q.Count, q.Txn))
	}
	want := []string{
		`select {"customer":"a'b"} [] [] 1 "s1 3/7"`,
		`update {"id":"x', $2 = 'y"} [] [customer] 1 "s1 3/7"`,
		`delete {"id":"7"} [] [] 1 ""`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRead_OtherText_IsAnErrorWithItsLine(t *testing.T) {
	good := logLine("s", "1/1", "statement: SELECT 1 FROM orders", "")
	for text, want := range map[string]string{
		good + "2026-11-01 10:00:00 UTC [1] LOG:  statement: SELECT 1\n": "line 2: 1 fields",
		good + good + `2026,"a` + "\n":                                   "line 3: ",
		"a,b\n":                                                          "line 1: 2 fields",
	} {
		if _, err := postgreslog.Read(strings.NewReader(text), "orders", columns); !errors.Is(err, postgreslog.ErrLog) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", good} {
		if _, err := postgreslog.Read(strings.NewReader(text), "users", columns); !errors.Is(err, postgreslog.ErrNoStatements) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func ExampleRead() {
	log := logLine("s1", "3/7", "statement: SELECT * FROM orders WHERE customer = 'c1'", "")
	queries, err := postgreslog.Read(strings.NewReader(log), "orders", []string{"id", "customer"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s by customer %s\n", queries[0].Op, queries[0].Filter["customer"])
	// Output: select by customer "c1"
}

// Any text is read without a panic.
func FuzzRead(f *testing.F) {
	f.Add(logLine("s1", "3/7", "duration: 0.101 ms  execute <unnamed>: UPDATE orders SET customer = $1 WHERE id = $2", "parameters: $1 = NULL, $2 = 'x''y'"))
	f.Add(logLine("s", "", "statement: INSERT INTO orders (id, customer) VALUES (1, 'a')", "parameters: $1 = '"))
	f.Fuzz(func(t *testing.T, text string) {
		queries, err := postgreslog.Read(strings.NewReader(text), "orders", columns)
		if (err == nil) == (len(queries) == 0) {
			t.Fatalf("%d queries, %v", len(queries), err)
		}
	})
}
