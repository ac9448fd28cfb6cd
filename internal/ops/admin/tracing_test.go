package admin

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/tracing"
	"github.com/cleavekv/cleave/internal/ops/tracing/spantest"
)

// A server with a collector sends it spans of requests of operators, of jobs, and of requests of
// clients that are transactions or took long. Those that go the short way have no span.
func TestTheCollectorHearsOfWhatTakesLong(t *testing.T) {
	c := spantest.Start(t)
	tr, err := tracing.New(ctx, tracing.Options{Endpoint: c.URL})
	if err != nil {
		t.Fatal(err)
	}
	l := startSmallServer(t, func(o *Options) { o.Tracer = tr })
	if err := l.server.Configure(map[string]string{"slowlog-log-slower-than": "-1"}); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute})
	defer rdb.Close()
	for range 100 {
		if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.Get(ctx, "k").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.MSet(ctx, "a", 1, "b", 2, "c", 3, "d", 4).Err(); err != nil {
		t.Fatal(err)
	}
	if err := l.server.Configure(map[string]string{"slowlog-log-slower-than": "0"}); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Incr(ctx, "n").Err(); err != nil {
		t.Fatal(err)
	}
	job := l.waitJobDone(l.client.Post(ctx, api.PathSplit, api.Split{Slots: []int{9}}, false))
	if _, err := l.client.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.admin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"mset": "transaction", "incr": "slow"} {
		if s := c.FindByName(name); len(s) != 1 || s[0].Attributes["cleave.way"] != want || s[0].End.Sub(s[0].Start) <= 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := c.FindByName("job split"); len(s) != 1 || s[0].Attributes["cleave.job.id"] != job.ID || time.Since(s[0].Start) > time.Hour {
		t.Errorf("the job: %+v", s)
	}
	if s := c.FindByName("POST " + api.PathSplit); len(s) != 1 || s[0].Attributes["http.response.status_code"] != "202" {
		t.Errorf("the request: %+v", s)
	}
	for _, name := range []string{"set", "get", "GET /readyz"} {
		if s := c.FindByName(name); len(s) != 0 {
			t.Errorf("%s has %d spans", name, len(s))
		}
	}
}
