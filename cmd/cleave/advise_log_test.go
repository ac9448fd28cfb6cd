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

// What Redis is asked for says by which part of its keys it can be sharded.
func TestAdvise_MonitorOfRedis_IsJudgedByLoad(t *testing.T) {
	var b strings.Builder
	b.WriteString("OK\n")
	for i := range 9000 {
		fmt.Fprintf(&b, "%d.%06d [0 127.0.0.1:6000] \"hincrby\" \"cart:%d:%d\" \"n\" \"1\"\n", 1_790_000_000+i/100, i%100, i*7919%1013, i%3)
	}
	b.WriteString("1790000099.1 [0 127.0.0.1:6000] \"get\" \"user:1\"\nnonsense\n")
	path := filepath.Join(t.TempDir(), "redis.monitor")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runCommand("advise", path, "--prefix", "cart:", "--ops", "writes", "--layout", "hash", "--shards", "8", "-o", "json")
	var r advisor.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	if !r.Traffic || r.Rows != 9000 || r.Skipped != 1 || r.Problems[0].Line != 9003 || r.Candidates[0].Layout != "part2:int" {
		t.Errorf("%d rows, %d skipped, %v, best %s", r.Rows, r.Skipped, r.Problems, r.Candidates[0].Layout)
	}
}

// A log of PostgreSQL says how many shards its statements and transactions ask.
func TestAdvise_LogOfPostgreSQL_SaysWhatIsAsked(t *testing.T) {
	var b strings.Builder
	line := func(txn int, statement string) {
		fmt.Fprintf(&b, "2026-11-01 10:00:00.123 UTC,\"shop\",\"shop\",4711,\"127.0.0.1:5000\",s1,1,\"SELECT\",2026-11-01 09:00:00 UTC,3/%d,0,LOG,00000,\"statement: %s\",,,,,,,,,\"psql\",\"client backend\",,0\n", txn, statement)
	}
	for i := range 300 {
		line(i, fmt.Sprintf("SELECT * FROM orders WHERE customer = 'customer-%d'", i))
		line(i, fmt.Sprintf("UPDATE orders SET region = 'eu' WHERE customer = 'customer-%d' AND id = %d", i, i))
	}
	path := filepath.Join(t.TempDir(), "postgresql.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	orders := writeOrders(t, "orders.csv", 5000, "")
	code, stdout, stderr := runCommand("advise", orders, "--queries", path, "--table", "orders", "--layout", "hash", "--candidates", "customer,id,region", "-o", "json")
	var r advisor.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	for _, c := range r.Candidates {
		q := c.Queries
		switch {
		case strings.HasPrefix(c.Layout, "customer") && (q.Single != 1 || q.CrossShard != 0 || q.KeyUpdates != 0),
			strings.HasPrefix(c.Layout, "id") && (q.Single != 0.5 || q.CrossShard != 1),
			strings.HasPrefix(c.Layout, "region") && (q.Scatter != 1 || q.KeyUpdates != 1):
			t.Errorf("%s: %+v", c.Layout, q)
		}
	}
	for args, want := range map[string]string{"": "name the table", "--table nothing": "no statement about the table nothing"} {
		code, _, stderr := runCommand(append([]string{"advise", orders, "--queries", path}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %s, want %s", args, code, stderr, want)
		}
	}
}
