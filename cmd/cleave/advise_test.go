package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor"
)

// writeOrders writes orders as CSV or JSON lines and returns the name of the file.
func writeOrders(t *testing.T, name string, rows int, more string) string {
	t.Helper()
	var b strings.Builder
	isCSV := strings.HasSuffix(name, ".csv")
	if isCSV {
		b.WriteString("id,customer,region\n")
	}
	for i := range rows {
		customer, region := i*7919%1013, [...]string{"eu", "us", "ap"}[i%3]
		if isCSV {
			fmt.Fprintf(&b, "%d,customer-%d,%s\n", 1000+i, customer, region)
			continue
		}
		fmt.Fprintf(&b, `{"id":%d,"customer":"customer-%d","region":"%s"}`+"\n", 1000+i, customer, region)
	}
	b.WriteString(more)
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAdvise_TableIsGolden(t *testing.T) {
	file := writeOrders(t, "orders.csv", 20_000, "1,2\n3,\xff,eu\n")
	code, stdout, stderr := runCommand("advise", file, "--shards", "8", "--current", "region")
	if code != exitUnhealthy || stderr != "" {
		t.Errorf("exit %d, stderr %q, want %d for a current key that is bad", code, stderr, exitUnhealthy)
	}
	checkGolden(t, "advise.txt", []byte(stdout))
}

func TestAdvise_JSONHasTheBestCandidateFirst(t *testing.T) {
	for _, name := range []string{"orders.csv", "orders.jsonl"} {
		queries := filepath.Join(t.TempDir(), "queries.jsonl")
		if err := os.WriteFile(queries, []byte(`{"op":"select","filter":{"customer":"customer-1"},"count":9}{"op":"select","columns":["id"]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := runCommand("advise", writeOrders(t, name, 20_000, ""), "--queries", queries, "--current", "customer", "--layout", "hash", "--shards", "8", "-o", "json")
		if code != exitOK || stderr != "" {
			t.Fatalf("%s: exit %d, %s", name, code, stderr)
		}
		var r advisor.Report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		best := r.Candidates[0]
		if best.Layout != "customer:string" || best.Kind != "hash" || best.Queries.Single != 0.9 || r.Rows != 20_000 || r.Current.Layout != "customer" {
			t.Errorf("%s: best %+v of %d rows, current %v", name, best, r.Rows, r.Current)
		}
		for i, c := range r.Candidates[1:] {
			if c.Score > r.Candidates[i].Score {
				t.Errorf("%s: candidate %d has %v points, the one before it %v", name, i+1, c.Score, r.Candidates[i].Score)
			}
		}
	}
}

func TestAdvise_JudgesTheNamedCandidates(t *testing.T) {
	code, stdout, stderr := runCommand("advise", writeOrders(t, "orders.csv", 5000, ""), "--candidates", "customer,(region,customer);region | id", "--layout", "range", "-o", "json")
	var r advisor.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	var got []string
	for _, c := range r.Candidates {
		got = append(got, c.Layout)
	}
	if len(got) != 3 {
		t.Errorf("got %q, want the three candidates", got)
	}
}

func TestAdvise_ErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := writeOrders(t, "orders.csv", 2000, "")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{filepath.Join(dir, "none.csv")}, exitUsage, "no such file"},
		{[]string{dir}, exitUsage, "is a directory"},
		{[]string{write("data.bin", "x")}, exitUsage, "say --format csv, jsonl, parquet or monitor"},
		{[]string{write("empty.csv", "")}, exitFailed, "the input is empty"},
		{[]string{write("header.csv", "a,b\n")}, exitFailed, "the input has no rows"},
		{[]string{write("empty.jsonl", "")}, exitFailed, "the input has no rows"},
		{[]string{write("bad.jsonl", "{\"a\"}\n")}, exitFailed, "line 1: byte 5: want ':'"},
		{[]string{write("parquet.csv", "PAR1\x00\n")}, exitFailed, "not CSV"},
		{[]string{write("bad.parquet", "PAR1")}, exitFailed, "not a whole Parquet file"},
		{[]string{"postgres://127.0.0.1:1/x?connect_timeout=5"}, exitUsage, "name the table of the database with --table"},
		{[]string{"postgres://me:secret@127.0.0.1:1/x?connect_timeout=5", "--table", "t"}, exitUnreachable, "cannot connect"},
		{[]string{"postgres://127.0.0.1:1/x", "--table", "t", "--sample", "200"}, exitUsage, "200 percent"},
		{[]string{good, "--compare", filepath.Join(dir, "none.json")}, exitUsage, "no such file"},
		{[]string{good, "--compare", write("x.json", "[]")}, exitUsage, "not a report"},
		{[]string{good, "--compare", write("y.json", "{}")}, exitUsage, "not a report"},
		{[]string{good, "--save", filepath.Join(dir, "none", "x.json")}, exitFailed, "no such file"},
		{[]string{good, "--table", "t"}, exitUsage, "is a file"},
		{[]string{"-", "--format", "parquet"}, exitUsage, "name a file in place of stdin"},
		{[]string{good, "--candidates", "customer,nothing"}, exitUsage, "there is no column nothing; there are id, customer, region"},
		{[]string{good, "--candidates", "day(customer)"}, exitUsage, "the values of customer are no times"},
		{[]string{good, "--candidates", "(customer"}, exitUsage, "byte 9"},
		{[]string{good, "--current", "nothing"}, exitUsage, "the current key: "},
		{[]string{good, "--shards", "1"}, exitUsage, "1 shards; use 2 to 1024"},
		{[]string{good, "--layout", "ring"}, exitUsage, "want hash or range"},
		{[]string{good, "--format", "orc"}, exitUsage, "want csv, jsonl, parquet or monitor"},
		{[]string{good, "--queries", write("q1", "{\"colour\":1}")}, exitUsage, "unknown field"},
		{[]string{good, "--queries", write("q2", "{\"columns\":[\"nothing\"]}")}, exitUsage, "there is no column nothing"},
		{[]string{good, "--queries", write("q3", "")}, exitUsage, "there are none"},
		{[]string{write("ragged.csv", "a,b\n1,2\n3\n"), "--strict"}, exitFailed, "line 3: 1 fields, the header has 2"},
		{[]string{write("x.jsonl", "{\"a\":1}\n"), "--no-header"}, exitUsage, "other formats have none"},
	} {
		code, stdout, stderr := runCommand(append([]string{"advise"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("advise %q: exit %d, stdout %q, stderr %q, want exit %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestAdvise_TooFewRowsHaveNoGrade(t *testing.T) {
	code, stdout, _ := runCommand("advise", writeOrders(t, "orders.csv", 100, ""), "--current", "region")
	if code != exitOK || !strings.Contains(stdout, "100 rows are too few for a grade") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	if code, stdout, _ = runCommand("advise", writeOrders(t, "orders.csv", 1, "")); code != exitOK || !strings.Contains(stdout, "1 row is too few for a grade") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}

func TestAdvise_WithoutAGoodKey_RecommendsNone(t *testing.T) {
	same := "status\n" + strings.Repeat("open\n", 5000)
	for name, c := range map[string]struct{ text, want string }{
		"few.csv":  {"id,customer\n1,a\n2,b\n", "too few for a grade"},
		"same.csv": {same, "No candidate is good"},
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := runCommand("advise", file)
		if code != exitOK || !strings.Contains(out, c.want) || strings.Contains(out, "Best:") || strings.Contains(out, "keyspace create") {
			t.Errorf("%s: exit %d, %s%s", name, code, out, errs)
		}
	}
}

func TestAdvise_CompareSaysWhetherTheKeyIsStillRight(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "advice.json")
	if code, _, errs := runCommand("advise", writeOrders(t, "orders.csv", 20_000, ""), "--save", kept, "--layout", "hash"); code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}
	code, out, errs := runCommand("advise", writeOrders(t, "orders.csv", 30_000, ""), "--compare", kept)
	if code != exitOK || !strings.Contains(out, "customer:string is still right: grade A") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	celebrity := strings.Repeat("9,customer-1,eu\n", 20_000)
	code, out, errs = runCommand("advise", writeOrders(t, "orders.csv", 20_000, celebrity), "--compare", kept)
	if code != exitUnhealthy || !strings.Contains(out, "customer:string is no longer right") || !strings.Contains(out, "- share of the largest key 0.00 -> 0.43") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	code, out, errs = runCommand("advise", writeOrders(t, "orders.csv", 20_000, celebrity), "--compare", kept, "-o", "json")
	var r advisor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitUnhealthy || r.Drift == nil || r.Drift.StillRight || r.Drift.Was != "A" {
		t.Errorf("exit %d, %v, %s, drift %+v", code, err, errs, r.Drift)
	}
}
