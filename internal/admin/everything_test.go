package admin

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// everything makes something of each kind that there is, and returns a shard and a job.
func (l *lab) everything() (shard uint64, job string) {
	l.t.Helper()
	check := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.fill(3000)
	ordered, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "ordered", Kind: cleave.Range})
	check(err)
	check(ordered.Set(ctx, []byte("m\x00\xff"), []byte("v")))
	people, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "people", Kind: cleave.Range})
	check(err)
	ix, err := l.db.CreateIndex(ctx, cleave.IndexOptions{Name: "by-country", Keyspace: people, Columns: "country", Mode: cleave.Asynchronous})
	check(err)
	_, err = people.HSet(ctx, []byte("anna"), cleave.Field{Name: []byte("country"), Value: []byte("no")})
	check(err)
	check(ix.Wait(ctx))
	l.runSaga()
	a, err := l.client.Act(ctx, api.PathSplit, api.Split{Slots: []int{5, 10}}, false)
	done := l.done(a, err)
	l.done(l.client.Act(ctx, api.PathSplit, api.Split{Keyspace: "ordered", Keys: []api.Key{api.Key("m\x00\xff")}}, false))
	check(l.serve.Configure(map[string]string{"slowlog-log-slower-than": "0"}))
	rdb := redis.NewClient(&redis.Options{Addr: l.redis, ReadTimeout: time.Minute})
	l.t.Cleanup(func() { rdb.Close() })
	check(rdb.Set(ctx, "hello", "secret", 0).Err())
	if l.data != "" {
		l.done(l.client.Act(ctx, api.PathCreateBackup, api.CreateBackup{Name: "first"}, false))
	}
	e, err := l.client.ExplainSlot(ctx, "", 5)
	check(err)
	return e.Shard.ID, done.ID
}

// runSaga leaves a saga in the usual journal.
func (l *lab) runSaga() {
	l.t.Helper()
	j, err := journal.Open(ctx, l.db, journal.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := saga.NewRunner(j, saga.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close()
	type nothing struct{}
	ok := func(*cleave.Txn, *nothing) error { return nil }
	fails := func(*cleave.Txn, *nothing) error { return saga.Permanent(errors.New("no money")) }
	good, err := saga.Register(r, saga.Definition[nothing]{Name: "good", Steps: []saga.Step[nothing]{journal.Step("one", ok, ok)}})
	if err != nil {
		l.t.Fatal(err)
	}
	bad, err := saga.Register(r, saga.Definition[nothing]{Name: "bad", Steps: []saga.Step[nothing]{journal.Step("one", ok, ok), journal.Step("two", fails, ok)}})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := good.Run(ctx, "saga-1", nothing{}); err != nil {
		l.t.Fatal(err)
	}
	if _, err := bad.Run(ctx, "saga-2", nothing{}); err == nil {
		l.t.Fatal("the bad saga completed")
	}
}
