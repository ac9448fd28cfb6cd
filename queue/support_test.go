package queue

import (
	"context"
	"errors"
	"sync"
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

func wantError(t tester, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

// clock is one that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1e9, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openMemory(t testing.TB, o cleave.Options) (*cleave.DB, *cleave.Keyspace) {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	must(t, err)
	return db, ks
}

func openQueue(t testing.TB, db *cleave.DB, ks *cleave.Keyspace, name string, o Options) *Queue {
	t.Helper()
	q, err := Open(ctx, db, ks, name, o)
	must(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// spreadShards cuts the keyspace at the shards of a queue, and gives the pieces to all groups.
func spreadShards(t testing.TB, db *cleave.DB, ks *cleave.Keyspace, name string) {
	t.Helper()
	job, err := db.Start(ctx, cleave.SplitAtKeys(ks, SplitKeys(name, 4)...))
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	for i := range 5 {
		must(t, moveShard(db, i))
	}
}

// moveShard gives a shard of the queues to another group.
func moveShard(db *cleave.DB, i int) error {
	shards, err := db.Shards(ctx)
	if err != nil {
		return err
	}
	groups := db.Groups()
	s := shards[len(shards)-1-i%5]
	to := groups[i%len(groups)].ID
	if s.Keyspace != "queues" || to == s.Group {
		return nil
	}
	job, err := db.Start(ctx, cleave.Move{Shard: s.ID, To: to})
	if err == nil {
		_, err = job.Wait(ctx)
	}
	if errors.Is(err, cleave.ErrBusy) || errors.Is(err, cleave.ErrJobUndone) || errors.Is(err, cleave.ErrNoShard) {
		err = nil
	}
	return err
}

func deliveryBodies(list []*Delivery) (out []string) {
	for _, d := range list {
		out = append(out, string(d.Body))
	}
	return out
}
