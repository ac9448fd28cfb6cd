package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// startTraffic adds to counters until it is stopped, and then checks that no add was lost.
func (l *testServer) startTraffic() (stop func()) {
	const writers = 4
	var ended atomic.Bool
	var wg sync.WaitGroup
	var added [writers]int64
	for w := range writers {
		wg.Go(func() {
			c := redis.NewClient(&redis.Options{Addr: l.redisAddr, MaxRetries: -1, ReadTimeout: time.Minute})
			defer c.Close()
			for i := 0; !ended.Load() || i < 20; i++ {
				if err := c.Incr(ctx, fmt.Sprintf("n%d-%d", w, i%50)).Err(); err != nil {
					l.t.Errorf("INCR: %v", err)
					return
				}
				added[w]++
			}
		})
	}
	return func() {
		l.t.Helper()
		ended.Store(true)
		wg.Wait()
		c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute})
		defer c.Close()
		for w := range writers {
			sum := int64(0)
			for i := range 50 {
				n, err := c.Get(ctx, fmt.Sprintf("n%d-%d", w, i)).Int64()
				if err != nil && !errors.Is(err, redis.Nil) {
					l.t.Fatal(err)
				}
				sum += n
			}
			if sum != added[w] {
				l.t.Errorf("writer %d has added %d, and there are %d", w, added[w], sum)
			}
		}
	}
}

// Every change of the map is made while clients write, is planned before without effect,
// and is followed to its end.
func TestShardsAreReshapedUnderTraffic(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		l.writeKeys(2000)
		stop := l.startTraffic()
		defer stop()
		at := func(slot int) uint64 {
			t.Helper()
			e, err := l.client.ExplainSlot(ctx, "", slot)
			if err != nil {
				t.Fatal(err)
			}
			return e.Shard.ID
		}
		act := func(path string, request any) {
			t.Helper()
			before := l.db.Map().Version()
			plan, err := l.client.Post(ctx, path, request, true)
			if err != nil || !plan.DryRun || plan.Job != nil || plan.Plan.Price == nil || plan.Plan.Summary == "" {
				t.Fatalf("%s: the plan is %+v, %v", path, plan, err)
			}
			if now := l.db.Map().Version(); now != before {
				t.Fatalf("%s: a plan has changed the map from %d to %d", path, before, now)
			}
			l.waitJobDone(l.client.Post(ctx, path, request, false))
		}
		act(api.PathSplit, api.Split{Slots: []int{100}})
		if l := at(99); l == at(100) {
			t.Fatal("the slots were not separated")
		}
		act(api.PathSplit, api.Split{Keys: []api.Key{api.Key("key1")}})
		act(api.PathSplit, api.Split{Shard: at(3000)})
		for group := uint64(1); group <= 4; group++ {
			if e, _ := l.client.ExplainSlot(ctx, "", 100); e.Shard.Group != group {
				act(api.PathMove, api.Move{Shard: at(100), To: group})
			}
		}
		e, err := l.client.ExplainSlot(ctx, "", 99)
		if err != nil {
			t.Fatal(err)
		}
		if e.Shard.Group != 4 {
			act(api.PathMove, api.Move{Shard: at(99), To: 4})
		}
		act(api.PathMerge, api.Merge{Left: at(99), Right: at(100)})
		if at(99) != at(100) {
			t.Error("the slots were not joined")
		}
		act(api.PathPresplit, api.Presplit{Into: 24})
		act(api.PathDrain, api.Drain{Group: 4, Parallel: 2})
		groups, err := l.client.Groups(ctx)
		if err != nil || !groups[3].Draining || groups[3].Shards != 0 || !groups[0].Catalog {
			t.Errorf("after the drain: %+v, %v", groups, err)
		}
		act(api.PathUndrain, api.Undrain{Group: 4})
		act(api.PathRegroup, api.Regroup{Groups: 5})
		if groups, err := l.client.Groups(ctx); err != nil || len(groups) != 5 {
			t.Errorf("after the regroup: %+v, %v", groups, err)
		}
	})
}

func TestActionsThatCannotBeMade(t *testing.T) {
	l := startSmallServer(t)
	if _, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "ordered", Kind: "range"}, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, path string
		request    any
		code       string
	}{
		{"nothing to split at", api.PathSplit, api.Split{}, api.CodeInvalid},
		{"two things", api.PathSplit, api.Split{Slots: []int{1}, Shard: 2}, api.CodeInvalid},
		{"a slot that there is not", api.PathSplit, api.Split{Slots: []int{16384}}, api.CodeInvalid},
		{"slots of a range", api.PathSplit, api.Split{Keyspace: "ordered", Slots: []int{1}}, api.CodeInvalid},
		{"no such keyspace", api.PathSplit, api.Split{Keyspace: "none", Slots: []int{1}}, api.CodeNotFound},
		{"no such shard", api.PathSplit, api.Split{Shard: 999}, api.CodeNotFound},
		{"the catalog", api.PathSplit, api.Split{Shard: 1}, api.CodeRefused},
		{"pre-split of a range into so many", api.PathPresplit, api.Presplit{Keyspace: "ordered", Into: 4}, api.CodeInvalid},
		{"pre-split into one", api.PathPresplit, api.Presplit{Into: 1}, api.CodeInvalid},
		{"pre-split into fewer than none", api.PathPresplit, api.Presplit{Into: -1}, api.CodeInvalid},
		{"no such shards to merge", api.PathMerge, api.Merge{Left: 998, Right: 999}, api.CodeNotFound},
		{"no such group", api.PathDrain, api.Drain{Group: 99}, api.CodeNotFound},
		{"the group of the catalog", api.PathDrain, api.Drain{Group: 1}, api.CodeRefused},
		{"nothing to undrain", api.PathUndrain, api.Undrain{Group: 2}, api.CodeNoChange},
		{"no groups", api.PathRegroup, api.Regroup{}, api.CodeInvalid},
		{"a name that is taken", api.PathCreateKeyspace, api.CreateKeyspace{Name: "ordered"}, api.CodeExists},
		{"what is there already", api.PathCreateKeyspace, api.CreateKeyspace{Name: "ordered", Kind: "range"}, api.CodeNoChange},
		{"another layout", api.PathCreateKeyspace, api.CreateKeyspace{Name: "ordered", Kind: "range", Layout: "(region) | id"}, api.CodeExists},
		{"the default keyspace as it is", api.PathCreateKeyspace, api.CreateKeyspace{Name: "default", Slots: 16384}, api.CodeNoChange},
		{"the default keyspace with fewer slots", api.PathCreateKeyspace, api.CreateKeyspace{Name: "default", Slots: 64}, api.CodeExists},
		{"a name that is none", api.PathCreateKeyspace, api.CreateKeyspace{Name: "a b"}, api.CodeInvalid},
		{"a name of an index", api.PathCreateKeyspace, api.CreateKeyspace{Name: "index/x"}, api.CodeInvalid},
		{"no such kind", api.PathCreateKeyspace, api.CreateKeyspace{Name: "x", Kind: "list"}, api.CodeInvalid},
		{"slots that are no power of two", api.PathCreateKeyspace, api.CreateKeyspace{Name: "x", Slots: 3}, api.CodeInvalid},
		{"the default keyspace", api.PathDropKeyspace, api.DropKeyspace{Name: "default"}, api.CodeRefused},
		{"a keyspace that there is not", api.PathDropKeyspace, api.DropKeyspace{Name: "none"}, api.CodeNotFound},
		{"an index that there is not", api.PathDropIndex, api.DropIndex{Keyspace: "ordered", Name: "none"}, api.CodeNotFound},
		{"a setting that there is not", api.PathSetConfig, api.SetConfig{Settings: map[string]string{"colour": "x"}}, api.CodeInvalid},
		{"a setting that is a secret", api.PathSetConfig, api.SetConfig{Settings: map[string]string{"requirepass": "x"}}, api.CodeRefused},
		{"a setting that is fixed", api.PathSetConfig, api.SetConfig{Settings: map[string]string{"appendfsync": "no"}}, api.CodeRefused},
		{"a setting that is no number", api.PathSetConfig, api.SetConfig{Settings: map[string]string{"timeout": "soon"}}, api.CodeInvalid},
		{"no setting", api.PathSetConfig, api.SetConfig{}, api.CodeInvalid},
		{"a backup of memory", api.PathCreateBackup, api.CreateBackup{}, api.CodeRefused},
	} {
		before := len(l.admin.audit.listNewest())
		_, err := l.client.Post(ctx, c.path, c.request, false)
		if !errors.Is(err, &api.Error{Code: c.code}) {
			var e *api.Error
			errors.As(err, &e)
			t.Errorf("%s: %v (%+v), want %s", c.what, err, e, c.code)
		}
		if now := len(l.admin.audit.listNewest()); now != before {
			t.Errorf("%s: it is in the audit log, and was never begun", c.what)
		}
	}
	for _, job := range []string{"99", "b9", "x"} {
		if _, err := l.client.ControlJob(ctx, api.PathPauseJob, job, false); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			t.Errorf("job %s: %v", job, err)
		}
	}
}

func TestKeyspacesAndIndexesComeAndGo(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		l.createEverything()
		for _, c := range []api.CreateKeyspace{{Name: "a"}, {Name: "b", Kind: "hash", Slots: 64}, {Name: "c/d", Kind: "range", Layout: "(region) | id"}} {
			if _, err := l.client.Post(ctx, api.PathCreateKeyspace, c, true); err != nil {
				t.Fatal(err)
			}
			if _, err := l.db.Keyspace(c.Name); err == nil {
				t.Fatalf("a plan has made %s", c.Name)
			}
			if a, err := l.client.Post(ctx, api.PathCreateKeyspace, c, false); err != nil || a.Job != nil {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		all, err := l.client.Keyspaces(ctx)
		told := map[string]api.Keyspace{}
		for _, k := range all {
			told[k.Name] = k
		}
		if err != nil || told["a"].Slots != 16384 || told["b"].Slots != 64 || told["c/d"].Layout == "" || !told["default"].Default ||
			told["default"].Rows == 0 || told["people"].Indexes != 1 || !told["index/people/by-country"].Index {
			t.Errorf("the keyspaces are %+v, %v", all, err)
		}
		made := slices.DeleteFunc(all, func(k api.Keyspace) bool { return k.Index })
		if s, err := l.client.Status(ctx); err != nil || s.Keyspaces != len(made) {
			t.Errorf("the status counts %d keyspaces, %v; there are %d", s.Keyspaces, err, len(made))
		}
		ix, err := l.client.Indexes(ctx, "people")
		if err != nil || len(ix) != 1 || !ix[0].Ready || ix[0].Mode != "asynchronous" || ix[0].Columns != "country" {
			t.Errorf("the indexes are %+v, %v", ix, err)
		}
		plan, err := l.client.Post(ctx, api.PathDropKeyspace, api.DropKeyspace{Name: "people"}, true)
		if err != nil || !plan.Plan.Irreversible || !strings.Contains(strings.Join(plan.Plan.Steps, " "), "by-country") {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		if _, err := l.client.Post(ctx, api.PathDropIndex, api.DropIndex{Keyspace: "people", Name: "by-country"}, false); err != nil {
			t.Error(err)
		}
		if ix, err := l.client.Indexes(ctx, ""); len(ix) != 0 || err != nil {
			t.Errorf("after the drop: %+v, %v", ix, err)
		}
		if _, err := l.client.Post(ctx, api.PathDropKeyspace, api.DropKeyspace{Name: "people"}, false); err != nil {
			t.Error(err)
		}
		if _, err := l.db.Keyspace("people"); err == nil {
			t.Error("the keyspace is there")
		}
	})
}

func TestJobsAreControlled(t *testing.T) {
	l := startServer(t, "")
	l.writeKeys(5000)
	e, err := l.client.ExplainSlot(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var to uint64
	for _, g := range l.db.Groups() {
		if g.Store != e.Shard.Store {
			to = uint64(g.ID)
		}
	}
	// As slow as it may be: it is under way for seconds, whatever the machine does.
	a, err := l.client.Post(ctx, api.PathMove, api.Move{Shard: e.Shard.ID, To: to, BytesPerSecond: 64 << 10}, false)
	if err != nil {
		t.Fatal(err)
	}
	id := a.Job.ID
	if _, err := l.client.ControlJob(ctx, api.PathPauseJob, id, true); err != nil {
		t.Error(err)
	}
	if j, err := l.client.Job(ctx, id); err != nil || j.State != api.JobRunning || j.Expected.Bytes == 0 || j.LimitBytesPerSecond != 64<<10 {
		t.Errorf("it is %+v, %v", j, err)
	}
	if a, err := l.client.ControlJob(ctx, api.PathPauseJob, id, false); err != nil || a.Job.State != api.JobPaused {
		t.Errorf("pause: %+v, %v", a, err)
	}
	s, err := l.client.Status(ctx)
	if err != nil || s.Verdict != api.Degraded || len(s.Findings) != 1 || s.Findings[0].Fix != "cleave job resume "+id || len(s.Jobs) != 1 {
		t.Errorf("the status is %+v, %v", s, err)
	}
	if _, err := l.client.Post(ctx, api.PathMove, api.Move{Shard: e.Shard.ID, To: to}, false); !errors.Is(err, &api.Error{Code: api.CodeBusy}) {
		t.Errorf("a second move: %v", err)
	}
	if a, err := l.client.ThrottleJob(ctx, id, 1<<20, false); err != nil || a.Job.LimitBytesPerSecond != 1<<20 {
		t.Errorf("throttle: %+v, %v", a, err)
	}
	if a, err := l.client.ControlJob(ctx, api.PathResumeJob, id, false); err != nil || a.Job.State != api.JobRunning {
		t.Errorf("resume: %+v, %v", a, err)
	}
	_, err = l.client.ControlJob(ctx, api.PathCancelJob, id, false)
	j, waited := l.client.WaitJob(ctx, id, 5e6, nil)
	if waited != nil || err == nil && j.State != api.JobUndone || err != nil && !errors.Is(err, &api.Error{Code: api.CodeTooLate}) {
		t.Errorf("cancel: %v, and then it is %+v, %v", err, j, waited)
	}
	if _, err := l.client.ControlJob(ctx, api.PathCancelJob, id, false); !errors.Is(err, &api.Error{Code: api.CodeTooLate}) {
		t.Errorf("cancel what has ended: %v", err)
	}
	status, body, _ := l.sendRequest("GET", api.PathJobs+"?state=undone", "")
	if status != http.StatusOK || err == nil && !strings.Contains(body, `"id":"`+id+`"`) {
		t.Errorf("those that were taken back: %s", body)
	}
}

func TestSettingsAreChanged(t *testing.T) {
	l := startSmallServer(t)
	change := api.SetConfig{Settings: map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "5"}}
	if a, err := l.client.Post(ctx, api.PathSetConfig, change, true); err != nil || len(a.Plan.Steps) != 2 {
		t.Errorf("the plan is %+v, %v", a, err)
	}
	if l.server.Setting("slowlog-max-len") != "128" {
		t.Error("a plan has changed a setting")
	}
	if _, err := l.client.Post(ctx, api.PathSetConfig, change, false); err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ClientName: "tester", ReadTimeout: time.Minute})
	defer c.Close()
	for range 20 {
		if err := c.Set(ctx, "k\x00", "secret", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	slow, err := l.client.Slowlog(ctx)
	if err != nil || len(slow) != 5 || slow[0].ID < slow[4].ID || slow[0].Command != "set" || slow[0].Keys[0].String() != `k\x00` {
		t.Errorf("the slow requests are %+v, %v", slow, err)
	}
	if clients, err := l.client.Clients(ctx); err != nil || len(clients) != 1 || clients[0].Name != "tester" {
		t.Errorf("the clients are %+v, %v", clients, err)
	}
	_, body, _ := l.sendRequest("GET", api.PathSlowlog, "")
	if strings.Contains(body, "secret") {
		t.Errorf("a value is told: %s", body)
	}
}

// A job that ends at once is not answered as if there had been none.
func TestAnActionWithAJobIsAcceptedEvenIfItIsOverByThen(t *testing.T) {
	l := startSmallServer(t)
	for want, job := range map[int]*api.Job{
		http.StatusAccepted: {ID: "7", State: api.JobDone},
		http.StatusOK:       nil,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, api.PathSplit, nil)
		l.admin.applyChange(w, r, "split", &plannedChange{apply: func(context.Context) (*api.Job, error) { return job, nil }})
		if location := w.Header().Get("Location"); w.Code != want || (location != "") != (job != nil) {
			t.Errorf("with the job %+v: %d, %q", job, w.Code, location)
		}
	}
}
