package counter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

var ctx = context.Background()

// tester is what the checks need of a test.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// still never watches: tests resize by themselves.
var still = Options{Window: time.Hour}

func open(t testing.TB, ks *cleave.Keyspace, db *cleave.DB, o Options) *Counters {
	t.Helper()
	c, err := New(db, ks, o)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func memory(t testing.TB, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// spaces are keyspaces of each kind, the ranged one cut into four and given to
// all groups.
func spaces(t testing.TB, db *cleave.DB) map[string]*cleave.Keyspace {
	t.Helper()
	few, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "few", Slots: 4})
	must(t, err)
	return map[string]*cleave.Keyspace{"hash": db.Default(), "few": few, "range": ranged(t, db, "range")}
}

func ranged(t testing.TB, db *cleave.DB, name string) *cleave.Keyspace {
	t.Helper()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range})
	must(t, err)
	job, err := db.Start(ctx, cleave.Split{Keyspace: ks, At: SplitKeys(4)})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	shards, err := db.Shards(ctx)
	must(t, err)
	groups, n := db.Groups(), 0
	for _, s := range shards {
		if s.Keyspace != name {
			continue
		}
		to := groups[n%len(groups)].ID
		if n++; to == s.Group {
			continue
		}
		job, err := db.Start(ctx, cleave.Move{Shard: s.ID, To: to})
		must(t, err)
		_, err = job.Wait(ctx)
		must(t, err)
	}
	return ks
}

func wantSum(t tester, c *Counters, name string, want int64) {
	t.Helper()
	if got, err := c.Sum(ctx, name); err != nil || got != want {
		t.Fatalf("the sum of %q is %d, %v; want %d", name, got, err, want)
	}
}

func wantError(t tester, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

func wantParts(t tester, c *Counters, name string, want int) {
	t.Helper()
	if got, err := c.Parts(ctx, name); err != nil || got != want {
		t.Fatalf("%q has %d parts, %v; want %d", name, got, err, want)
	}
}

// names are some that could be in the way of hash tags.
func names(n int) []string {
	list := []string{"", "a", "{", "}", "{}", "a{b}c", "}{", "0:a", "m", "\x00", "\xff"}
	for i := range n {
		list = append(list, fmt.Sprintf("post/%d", i))
	}
	return list
}
