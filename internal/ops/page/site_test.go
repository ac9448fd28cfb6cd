package page_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/admin"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server"
)

var ctx = context.Background()

const (
	testToken = "a-token-of-the-tests"
	// hostileKey would run a script if it were taken for HTML.
	hostileKey = `<img src=x onerror="window.hacked=1">`
)

// site is a server with its page.
type site struct {
	t         *testing.T
	db        *cleave.DB
	addr      string // of the page
	redisAddr string
	client    *api.Client
	stop      func()
}

// startSite starts a server in memory, on a free port or on a given one.
func startSite(t *testing.T, addr string) *site {
	t.Helper()
	db, err := cleave.OpenMemory(cleave.Options{Groups: 4, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	listen := func(addr string) net.Listener {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	clients, operators := listen("127.0.0.1:0"), listen(addr)
	s := server.New(db, server.Options{Fsync: "no", Memory: true, Version: "test"})
	a, err := admin.New(admin.Options{DB: db, Server: s, Listener: operators, Token: testToken, Version: "test", Durability: "no"})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(clients) })
	serving.Go(func() { _ = a.Serve() })
	l := &site{t: t, db: db, addr: operators.Addr().String(), redisAddr: clients.Addr().String()}
	l.client = &api.Client{Addr: l.addr, Token: testToken, Actor: "tester", Timeout: time.Minute}
	l.stop = sync.OnceFunc(func() {
		s.Close()
		if err := errors.Join(a.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// playLoad has clients ask for keys until the test ends: every second operation is an INCR of a hot key
// by the client "cart", the others are of many keys.
func (s *site) playLoad(hot string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	c := redis.NewClient(&redis.Options{Addr: s.redisAddr, ClientName: "cart", Protocol: 2, PoolSize: 1, ReadTimeout: time.Minute})
	var playing sync.WaitGroup
	playing.Go(func() {
		for ctx.Err() == nil {
			p := c.Pipeline()
			for range 200 {
				p.Incr(ctx, hot)
				p.Get(ctx, fmt.Sprint("item:", rand.IntN(10_000)))
			}
			if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && ctx.Err() == nil && !strings.Contains(err.Error(), "closed") && !strings.HasPrefix(err.Error(), "THROTTLED") {
				s.t.Errorf("the load: %v", err)
				return
			}
		}
	})
	s.t.Cleanup(func() {
		cancel()
		playing.Wait()
		_ = c.Close()
	})
}

// fill makes something of each kind that there is: keyspaces, shards, a hostile key and hostile names.
func (s *site) fill() {
	s.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.redisAddr, ReadTimeout: time.Minute})
	defer c.Close()
	for i := range 200 {
		if err := c.Set(ctx, fmt.Sprint("item:", i), "v", 0).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
	k, err := s.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "ordered", Kind: cleave.Range})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := k.Set(ctx, []byte(hostileKey), []byte("v")); err != nil {
		s.t.Fatal(err)
	}
	s.act(api.PathSplit, api.Split{Keyspace: "ordered", Keys: []api.Key{api.Key(hostileKey)}})
	s.act(api.PathSetCap, api.SetCap{Keyspace: "ordered", Prefix: api.KeyOrNil([]byte(hostileKey)), WritesPerSecond: 5, Seconds: 600})
}

// act makes a change and waits until its job is done.
func (s *site) act(path string, request any) {
	s.t.Helper()
	a, err := s.client.Post(ctx, path, request, false)
	if err == nil && a.Job != nil {
		_, err = s.client.WaitJob(ctx, a.Job.ID, 10*time.Millisecond, func(api.Job) {})
	}
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}
