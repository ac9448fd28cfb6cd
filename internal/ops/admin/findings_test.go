package admin

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// The verdict names the hot key, who asks for it, and what is done about it; the page of the key has class, evidence,
// remedy and decisions.
func TestStatus_HotKey_IsNamedWithWhatIsDone(t *testing.T) {
	l := startFullServer(t)
	c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute, ClientName: "checkout"})
	defer c.Close()
	var stop atomic.Bool
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop.Store(true)
	asking.Go(func() {
		for !stop.Load() {
			p := c.Pipeline()
			for range 500 {
				p.HIncrBy(ctx, "stock:4711", "n", 1)
			}
			_, _ = p.Exec(ctx)
		}
	})
	shard := uint64(l.db.Default().Locate([]byte("stock:4711")).Shard)
	find := func(what, text string) (s api.Status) {
		t.Helper()
		eventually.Holds(t, what, func() bool {
			var err error
			s, err = l.client.Status(ctx)
			return err == nil && len(s.Findings) > 0 && strings.Contains(s.Findings[0].Message, text)
		})
		return s
	}
	s := find("the key is named", "hot key `stock:4711` (default, shard ")
	if f := s.Findings[0]; !strings.Contains(f.Message, "hincrby by checkout@127.0.0.1") || f.Fix != "cleave explain key stock:4711" || s.Verdict != api.Healthy && s.Verdict != api.Degraded {
		t.Errorf("the verdict is %s because of %+v", s.Verdict, f)
	}
	if len(s.Hot) == 0 || s.Hot[0].Shard != shard || s.Hot[0].Class != "hot key" || s.Hot[0].Evidence == "" || s.Hot[0].Remedy == "" || s.Hot[0].Heat == nil {
		t.Errorf("what is hot is %+v", s.Hot)
	}
	eventually.Holds(t, "what was decided is said", func() bool {
		s, err := l.client.Status(ctx)
		return err == nil && len(s.Hot) > 0 && s.Hot[0].Decision != nil && !strings.Contains(s.Findings[0].Message, "nothing was decided")
	})
	var e api.Explanation
	eventually.Holds(t, "the key is explained", func() bool {
		var err error
		e, err = l.client.ExplainKey(ctx, "", api.Key("stock:4711"))
		return err == nil && e.Hot != nil && len(e.Decisions) > 0
	})
	if why := strings.Join(e.Why, "\n"); e.Hot.Class != "hot key" || e.Heat == nil || e.Type != "hash" || e.Fields == nil || !strings.Contains(why, "What an application can do") || !strings.Contains(why, "found to be hot key") {
		t.Errorf("the key is explained by %+v", e)
	}
	all, err := l.client.Decisions(ctx, api.DecisionFilter{Class: "hot key", N: 10})
	if err != nil || len(all) == 0 || all[0].Class != "hot key" {
		t.Errorf("decisions about hot keys: %+v, %v", all, err)
	}
	if later, err := l.client.Decisions(ctx, api.DecisionFilter{Since: time.Now().Add(time.Hour), N: 10}); err != nil || len(later) != 0 {
		t.Errorf("decisions of the future: %+v, %v", later, err)
	}
	if _, err := l.client.Decisions(ctx, api.DecisionFilter{Class: "warm", N: 10}); err == nil {
		t.Error("an unknown class is taken")
	}
	if _, err := l.client.Post(ctx, api.PathAccept, api.Accept{Shard: shard, Ground: "brief-peaks", Price: "slow at noon", Reason: "an hour", Seconds: 3600}, false); err != nil {
		t.Fatal(err)
	}
	if s := find("the verdict says that it is accepted", "accepted until"); len(s.Hot) == 0 || s.Hot[0].Accepted == nil || s.Hot[0].Accepted.Reason != "an hour" {
		t.Errorf("what is hot is %+v", s.Hot)
	}
	if accepted, err := l.client.Accepted(ctx); err != nil || len(accepted) != 1 || accepted[0].Shard != shard || accepted[0].Ground != "brief-peaks" || !accepted[0].Until.After(accepted[0].Made) {
		t.Errorf("accepted: %+v, %v", accepted, err)
	}
}

func TestDescribeHot_SaysWhatIsDone(t *testing.T) {
	now := time.Unix(1e9, 0)
	decided := func(change, outcome string) api.Hot {
		return api.Hot{Class: "hot range", Shard: 9, Keyspace: "orders", Evidence: "many", Decision: &api.Decision{Change: change, Outcome: outcome, Reason: "its group is hot", Last: now.Add(-5 * time.Second)}}
	}
	throttled := decided("throttle", "kept")
	throttled.Throttle = &api.ShardThrottle{WritesPerSecond: 1500}
	for want, h := range map[string]api.Hot{
		"nothing was decided yet":                                 {Class: "hot range", Shard: 9},
		"left as it is: its group is hot":                         decided("keep", "kept"),
		"last split 5s ago, helped: its group is hot":             decided("split", "helped"),
		"its writers were held up until 5s ago: its group is hot": decided("throttle", "kept"),
		"its writers are held up at 1,500 writes a second":        throttled,
	} {
		if got := describeRelief(&h, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	h := decided("keep", "kept")
	if got := describeHot(&h); got != "hot range (orders, shard 9): many" || explainHot(&h) != "cleave explain shard 9" {
		t.Errorf("%q, %q", got, explainHot(&h))
	}
	key := api.Key("it's")
	h.Key, h.Heat = &key, &api.HotKey{PerSecond: 982.4, ShareOfAll: 0.55, Commands: []api.NameShare{{Name: "hincrby"}}, Clients: []api.NameShare{{Name: "checkout@127.0.0.1"}}}
	if got := describeHot(&h); got != "hot key `it's` (orders, shard 9): 982 op/s, 55 % of all, hincrby by checkout@127.0.0.1" || explainHot(&h) != `cleave explain key 'it'\''s' --keyspace orders` {
		t.Errorf("%q, %q", got, explainHot(&h))
	}
}
