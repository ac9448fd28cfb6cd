package tracing

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/tracing/spantest"
)

func TestSpansArriveAtACollector(t *testing.T) {
	ctx := context.Background()
	c := spantest.Start(t)
	tr, err := New(ctx, Options{Endpoint: c.URL + "/", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/api/v1/shards/7", nil)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	_, end := tr.StartRequest(r, "/api/v1/shards/{id}")
	end(503)
	at := time.Unix(1000, 0)
	tr.Observer()(api.ObservedRequest{Slow: api.Slow{Time: at, Seconds: 2, Command: "mset", Arguments: 5, Keys: []api.Key{api.Key("secret")}}, Kind: "transaction", Requests: 1})
	ended := at.Add(time.Minute)
	tr.SendJob(api.Job{ID: "3", Kind: "move", State: api.JobUndone, Why: "cancelled", Created: at, Ended: &ended, Bytes: 99})
	tr.SendJob(api.Job{ID: "4", Kind: "move", Created: at}) // it has not ended
	if err := tr.Close(ctx); err != nil {
		t.Fatal(err)
	}
	all := c.All()
	if len(all) != 3 {
		t.Fatalf("%d spans: %+v", len(all), all)
	}
	if s := all[0]; s.Service != "cleave" || s.Name != "GET /api/v1/shards/{id}" || s.TraceID != "0af7651916cd43dd8448eb211c80319c" || !s.Failed || s.Attributes["http.response.status_code"] != "503" {
		t.Errorf("a request: %+v", s)
	}
	if s := all[1]; s.Name != "mset" || !s.End.Equal(at) || !s.Start.Equal(at.Add(-2*time.Second)) || s.Attributes["cleave.way"] != "transaction" {
		t.Errorf("a transaction: %+v", s)
	}
	if s := all[2]; s.Name != "job move" || !s.Failed || !s.End.Equal(ended) || s.Attributes["cleave.job.bytes"] != "99" {
		t.Errorf("a job: %+v", s)
	}
	for _, s := range all {
		for name, v := range s.Attributes {
			if v == "secret" {
				t.Errorf("a key is told as %s", name)
			}
		}
	}
}

func TestWithoutACollectorThereIsNothing(t *testing.T) {
	t.Setenv(EnvEndpoint, "")
	t.Setenv(EnvTracesEndpoint, "")
	tr, err := New(context.Background(), Options{})
	if tr != nil || err != nil {
		t.Fatalf("%v, %v", tr, err)
	}
	if tr.Observer() != nil {
		t.Error("somebody is told of requests")
	}
	r := httptest.NewRequest("GET", "/", nil)
	if n := testing.AllocsPerRun(100, func() {
		_, end := tr.StartRequest(r, "/")
		end(200)
		tr.SendJob(api.Job{})
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
	if err := tr.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestTheEnvironmentNamesTheCollector(t *testing.T) {
	c := spantest.Start(t)
	t.Setenv(EnvEndpoint, c.URL)
	tr, err := New(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	tr.SendJob(api.Job{Kind: "split", Created: ended, Ended: &ended, State: api.JobDone})
	if err := tr.Close(context.Background()); err != nil || len(c.FindByName("job split")) != 1 {
		t.Errorf("%+v, %v", c.All(), err)
	}
}
