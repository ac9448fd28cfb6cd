package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/tracing/spantest"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// operatorClient returns a client that has found the token as the command line does.
func (p *serverProcess) operatorClient(t *testing.T, data string) *api.Client {
	t.Helper()
	token, err := api.FindToken(p.httpAddr, data)
	if err != nil || token == "" {
		t.Fatalf("the token is %q, %v", token, err)
	}
	return &api.Client{Addr: p.httpAddr, Token: token, Timeout: time.Minute}
}

// The whole of it with the real binary: shards are split and moved while clients write, a
// backup is made, verified and restored, and what was restored is served.
func TestOperatorsOfTheServer(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data, "--stores", "2", "--groups", "4", "--appendfsync", "everysec")
	o := p.operatorClient(t, data)
	var stop atomic.Bool
	var added atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ReadTimeout: time.Minute})
		defer c.Close()
		for i := 0; !stop.Load(); i++ {
			if err := c.Incr(ctx, fmt.Sprint("n", i%100)).Err(); err != nil {
				t.Errorf("INCR: %v", err)
				return
			}
			added.Add(1)
		}
	})
	act := func(path string, request any) api.Job {
		t.Helper()
		a, err := o.Post(ctx, path, request, false)
		if err != nil {
			t.Fatal(err)
		}
		j, err := o.WaitJob(ctx, a.Job.ID, 10*time.Millisecond, nil)
		if err != nil || j.State != api.JobDone {
			t.Fatalf("%s: %+v, %v", path, j, err)
		}
		return j
	}
	act(api.PathPresplit, api.Presplit{Into: 24})
	for slot := 0; slot < 16384; slot += 4096 {
		e, err := o.ExplainSlot(ctx, "", slot)
		if err != nil {
			t.Fatal(err)
		}
		act(api.PathMove, api.Move{Shard: e.Shard.ID, To: e.Shard.Group%4 + 1})
	}
	stop.Store(true)
	wg.Wait()
	act(api.PathCreateBackup, api.CreateBackup{Name: "night"})
	act(api.PathVerifyBackup, api.VerifyBackup{Name: "night"})
	restored := act(api.PathRestoreBackup, api.RestoreBackup{Name: "night", To: "morning"})
	_, dir, _ := strings.Cut(restored.Result, "--data ")
	s, err := o.Status(ctx)
	if err != nil || s.Verdict != api.Healthy || s.Durability != "everysec" || s.Storage != "disk" {
		t.Errorf("the status is %+v, %v", s, err)
	}
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.stderrText.String())
	}
	for _, where := range []string{data, dir} {
		p := startServer(t, "--data", where)
		c := newRedisClient(p.addr)
		sum := int64(0)
		for i := range 100 {
			n, err := c.Get(ctx, fmt.Sprint("n", i)).Int64()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			sum += n
		}
		c.Close()
		if sum != added.Load() {
			t.Errorf("%s has %d, and %d were added", where, sum, added.Load())
		}
		if where == data {
			if a, err := p.operatorClient(t, data).Audit(ctx); err != nil || len(a) != 16 {
				t.Errorf("after a restart the audit log has %d entries, %v", len(a), err)
			}
		}
	}
}

// A server that has to end reports so first, and serves on until that was seen.
func TestTheServerIsNotReadyBeforeItsSocketsClose(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--shutdown-delay", "600")
	o := p.operatorClient(t, "")
	if r, err := o.Ready(ctx); err != nil || !r.Ready {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "not ready", func() bool {
		r, err := o.Ready(ctx)
		return err == nil && !r.Ready
	})
	c := newRedisClient(p.addr)
	defer c.Close()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Errorf("it does not serve any more: %v", err)
	}
	if err := p.stopWith(syscall.SIGTERM); err != nil { // enough
		t.Errorf("the second: %v: %s", err, p.stderrText.String())
	}
	if _, err := o.Status(ctx); !errors.Is(err, api.ErrUnreachable) {
		t.Errorf("when it has ended: %v", err)
	}
}

func TestTheServerWithoutOperators(t *testing.T) {
	if p := startServer(t, "--storage", "memory", "--http-addr", "none"); p.httpAddr != "" {
		t.Errorf("it listens at %s", p.httpAddr)
	}
	for args, want := range map[string]string{
		"--http-addr here":                "--http-addr",
		"--http-token-file /nowhere/file": "/nowhere/file",
		"--shutdown-delay 1000":           "--shutdown-delay",
	} {
		code, _, stderr := runCommand(append([]string{"serve", "--storage", "memory", "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, strings.Fields(args)...)...)
		if code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
}

func TestTheServerTellsACollectorOfSpans(t *testing.T) {
	c := spantest.Start(t)
	p := startServer(t, "--storage", "memory", "--groups", "4", "--otlp-endpoint", c.URL)
	rdb := newRedisClient(p.addr)
	defer rdb.Close()
	if err := rdb.MSet(ctx, "a", 1, "b", 2, "c", 3, "d", 4).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.operatorClient(t, "").Status(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.stderrText.String())
	}
	if s := c.FindByName("GET " + api.PathStatus); len(s) != 1 || len(c.FindByName("mset")) != 1 {
		t.Errorf("it was told of %+v", c.All())
	}
}
