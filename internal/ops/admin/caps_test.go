package admin

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/hotkey/backoff"
	"github.com/cleavekv/cleave/hotkey/redishook"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// A cap that is set over HTTP holds for Redis clients, is in the list, the status, the metrics and the audit log, and goes.
func TestCaps_SetAndRemoved_HoldMeanwhile(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		set := func(c api.SetCap) {
			t.Helper()
			if _, err := l.client.Post(ctx, api.PathSetCap, c, false); err != nil {
				t.Fatal(err)
			}
		}
		set(api.SetCap{Prefix: api.KeyOrNil([]byte("order:"))})
		set(api.SetCap{Prefix: api.KeyOrNil([]byte("other:")), WritesPerSecond: 1000, Seconds: 600})
		_, replies := l.redisClient(t, "SET order:1 x", "SET other:1 x", "GET order:1")
		if !strings.HasPrefix(replies[0], "-THROTTLED shard ") || !strings.Contains(replies[0], "made read-only by an operator: retry in ") || replies[1] != "+OK" || replies[2] != "$-1" {
			t.Errorf("told %q", replies)
		}
		caps, err := l.client.Caps(ctx)
		if err != nil || len(caps) != 2 || caps[0].Refused != 1 || caps[0].Until != nil || caps[0].Keyspace != "default" || caps[1].Until == nil ||
			time.Until(*caps[1].Until) > 600*time.Second || time.Until(*caps[1].Until) < 500*time.Second {
			t.Fatalf("%+v, %v", caps, err)
		}
		status, err := l.client.Status(ctx)
		if err != nil || status.Verdict != api.Degraded || len(status.Findings) != 2 || status.Findings[0].Fix != "cleave cap remove 1" {
			t.Errorf("%+v, %v", status.Findings, err)
		}
		if _, metrics, _ := l.sendRequest("GET", api.PathMetrics, ""); !strings.Contains(metrics, `cleave_throttled_total{by="cap"} 1`) || !strings.Contains(metrics, `cleave_write_limits{by="cap"} 2`) {
			t.Error("the metrics do not have it")
		}
		for _, c := range caps {
			if _, err := l.client.Post(ctx, api.PathRemoveCap, api.RemoveCap{ID: c.ID}, false); err != nil {
				t.Fatal(err)
			}
		}
		if _, replies := l.redisClient(t, "SET order:1 x"); replies[0] != "+OK" {
			t.Errorf("told %q", replies)
		}
		if _, err := l.client.Post(ctx, api.PathRemoveCap, api.RemoveCap{ID: 1}, false); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			t.Errorf("told %v", err)
		}
		if status, err := l.client.Status(ctx); err != nil || status.Verdict != api.Healthy {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

// Clients with the hook all come through a cap, without asking much more often than they have to, and each write counts once.
func TestCaps_ClientsBackOff_AllComeThrough(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		if _, err := l.client.Post(ctx, api.PathSetCap, api.SetCap{Prefix: api.KeyOrNil([]byte("hot")), WritesPerSecond: 200}, false); err != nil {
			t.Fatal(err)
		}
		q, err := backoff.New(backoff.Options{MaxAttempts: 1000})
		if err != nil {
			t.Fatal(err)
		}
		hook, err := redishook.NewBackoff(q)
		if err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute, PoolSize: 100, MaxRetries: -1})
		defer c.Close()
		c.AddHook(hook)
		const callers, writes = 100, 3
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range writes {
					if err := c.Incr(ctx, "hot").Err(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n, err := c.Get(ctx, "hot").Int(); n != callers*writes || err != nil {
			t.Errorf("%d writes were acknowledged, and there are %d: %v", callers*writes, n, err)
		}
		if caps, err := l.client.Caps(ctx); err != nil || caps[0].Refused == 0 || caps[0].Refused > callers*writes {
			t.Errorf("%+v, %v", caps, err)
		}
	})
}

func TestSetCap_Wrong_IsRefused(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		for what, c := range map[string]struct {
			body api.SetCap
			code string
		}{
			"both":             {api.SetCap{Shard: 2, Prefix: new(api.Key)}, api.CodeInvalid},
			"less than none":   {api.SetCap{WritesPerSecond: -1}, api.CodeInvalid},
			"a time before":    {api.SetCap{Seconds: -1}, api.CodeInvalid},
			"a shard of none":  {api.SetCap{Shard: 999}, api.CodeNotFound},
			"a keyspace of no": {api.SetCap{Keyspace: "none"}, api.CodeNotFound},
		} {
			if _, err := l.client.Post(ctx, api.PathSetCap, c.body, true); !errors.Is(err, &api.Error{Code: c.code}) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
