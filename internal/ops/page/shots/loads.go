package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// load is what one client asks for: a pipeline at a time, so many a second at most.
type load struct {
	client, keyspace string
	perSecond        int // pipelines
	fill             func(ctx context.Context, p redis.Pipeliner, i int)
}

// loads make a server hot in each way that there is a word for.
func loads() []load {
	zipf := mathrand.NewZipf(mathrand.New(mathrand.NewPCG(1, 2)), 1.2, 1, 20_000)
	value, body := bytes.Repeat([]byte("v"), 100), make([]byte, 8<<10)
	_, _ = rand.Read(body)
	return []load{
		{"shop-web", "", 100, func(ctx context.Context, p redis.Pipeliner, _ int) { // many keys, some more than others
			for range 50 {
				p.Get(ctx, fmt.Sprint("product:", zipf.Uint64()))
			}
		}},
		{"cart", "", 400, func(ctx context.Context, p redis.Pipeliner, _ int) { // one key
			for range 100 {
				p.Incr(ctx, "stock:4711")
			}
		}},
		{"checkout", "orders", 200, func(ctx context.Context, p redis.Pipeliner, i int) { // keys that grow with time
			for j := range 50 {
				p.Set(ctx, fmt.Sprintf("2026-11-20T%010d:%02d", i, j), value, 0)
			}
		}},
		{"reports", "tenants", 200, func(ctx context.Context, p redis.Pipeliner, _ int) { // neighbours
			for range 60 {
				p.Get(ctx, fmt.Sprintf("tenant-%04d/%05d", 421, mathrand.IntN(400)))
			}
			p.Get(ctx, fmt.Sprintf("tenant-%04d/%05d", mathrand.IntN(1000), mathrand.IntN(5)))
		}},
		{"ingest", "documents", 4, func(ctx context.Context, p redis.Pipeliner, _ int) { // many bytes
			for range 8 {
				p.Set(ctx, fmt.Sprintf("doc-%016x", mathrand.Uint64()), body, 0)
			}
		}},
	}
}

// playAll begins all loads. Its channel gets the first error.
func (s *site) playAll(ctx context.Context) (<-chan error, error) {
	for _, name := range []string{"orders", "tenants", "documents"} {
		if _, err := s.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range}); err != nil {
			return nil, err
		}
	}
	tenants, err := s.db.Keyspace("tenants")
	if err != nil {
		return nil, err
	}
	var b cleave.Batch
	for i := range 1000 {
		for j := range 5 {
			b.Set(tenants, fmt.Appendf(nil, "tenant-%04d/%05d", i, j), []byte("row"))
		}
	}
	if err := s.db.Write(ctx, &b); err != nil {
		return nil, err
	}
	var cuts []api.Key
	for i := 1; i < 8; i++ {
		cuts = append(cuts, api.Key(fmt.Sprintf("tenant-%04d", i*125)))
	}
	if _, err := s.client.Post(ctx, api.PathPresplit, api.Presplit{Keyspace: "tenants", Keys: cuts}, false); err != nil {
		return nil, err
	}
	// A limit that the documents pass while they are written.
	if _, err := s.client.Post(ctx, api.PathSetKnobs, api.SetKnobs{Values: map[string]string{"shard-max-bytes": "20000000"}}, false); err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	for _, l := range loads() {
		go func() {
			if err := s.play(ctx, l); err != nil && ctx.Err() == nil {
				select {
				case failed <- fmt.Errorf("%s: %w", l.client, err):
				default:
				}
			}
		}()
	}
	return failed, nil
}

// play plays one load until the context ends.
func (s *site) play(ctx context.Context, l load) error {
	c := redis.NewClient(&redis.Options{Addr: s.redisAddr, ClientName: l.client, Protocol: 2, PoolSize: 1, ReadTimeout: time.Minute, OnConnect: func(ctx context.Context, c *redis.Conn) error {
		if l.keyspace == "" {
			return nil
		}
		return c.Do(ctx, "SELECT", l.keyspace).Err()
	}})
	defer c.Close()
	tick := time.NewTicker(time.Second / time.Duration(l.perSecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		p := c.Pipeline()
		l.fill(ctx, p, i)
		// A writer that is throttled comes again, as a client should.
		if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !strings.HasPrefix(err.Error(), "THROTTLED") {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
