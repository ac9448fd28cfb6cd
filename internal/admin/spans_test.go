package admin

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/spans"
	"github.com/cleavekv/cleave/internal/spans/spantest"
)

// A server with a collector tells it of requests of operators, of jobs, and of requests of
// clients that are transactions or took long. Those that go the short way have no span.
func TestTheCollectorHearsOfWhatTakesLong(t *testing.T) {
	c := spantest.Start(t)
	tr, err := spans.New(ctx, spans.Options{Endpoint: c.URL})
	if err != nil {
		t.Fatal(err)
	}
	l := small(t, func(o *Options) { o.Spans = tr })
	if err := l.serve.Configure(map[string]string{"slowlog-log-slower-than": "-1"}); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: l.redis, ReadTimeout: time.Minute})
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
	if err := l.serve.Configure(map[string]string{"slowlog-log-slower-than": "0"}); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Incr(ctx, "n").Err(); err != nil {
		t.Fatal(err)
	}
	job := l.done(l.client.Act(ctx, api.PathSplit, api.Split{Slots: []int{9}}, false))
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
		if s := c.Named(name); len(s) != 1 || s[0].Attributes["cleave.way"] != want || s[0].End.Sub(s[0].Start) <= 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := c.Named("job split"); len(s) != 1 || s[0].Attributes["cleave.job.id"] != job.ID || time.Since(s[0].Start) > time.Hour {
		t.Errorf("the job: %+v", s)
	}
	if s := c.Named("POST " + api.PathSplit); len(s) != 1 || s[0].Attributes["http.response.status_code"] != "202" {
		t.Errorf("the request: %+v", s)
	}
	for _, name := range []string{"set", "get", "GET /readyz"} {
		if s := c.Named(name); len(s) != 0 {
			t.Errorf("%s has %d spans", name, len(s))
		}
	}
}
