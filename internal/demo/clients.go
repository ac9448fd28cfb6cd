package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// clients are connections that send requests over and over, each the next when the last is answered.
type clients struct {
	// number is how many there are, pipeline how many requests each sends at once, and pause how long it rests then.
	number, pipeline int
	pause            time.Duration
	// keyspace is the one that they select, "" for the default one.
	keyspace string
	// send adds the requests of one pipeline; r is of this client alone.
	send func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand)
	// work, in the place of send, is one piece of work of several requests, and reports whether it was done: not if another
	// client was faster.
	work func(ctx context.Context, library *redis.Client, r *rand.Rand) (done bool, err error)
	// refused is called with what was not admitted, THROTTLED; nil to leave it.
	refused func(ctx context.Context, commands []redis.Cmder) error
	// hook is added to the client library; nil for none.
	hook redis.Hook

	library *redis.Client
	stopped atomic.Bool
	running sync.WaitGroup

	mu         sync.Mutex
	window     window
	doneBefore int64 // how many requests were done in windows that have ended
	failed     error
}

// window is what clients have seen since some moment.
type window struct {
	began    time.Time
	done     int
	refusals int
	times    []time.Duration // of pipelines, from the first byte to the last reply
}

// start begins to send. What is started ends with the stage.
func (st *stage) start(c *clients) *clients {
	o := &redis.Options{Addr: st.redisAddr, PoolSize: c.number, MaxRetries: -1, ReadTimeout: st.pace.Patience, DisableIdentity: true, Protocol: 2}
	if c.keyspace != "" {
		o.OnConnect = func(ctx context.Context, conn *redis.Conn) error { return conn.Do(ctx, "SELECT", c.keyspace).Err() }
	}
	c.library = redis.NewClient(o)
	if c.hook != nil {
		c.library.AddHook(c.hook)
	}
	c.window.began = time.Now()
	for i := range c.number {
		c.running.Go(func() { c.run(st.ctx, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	st.clients = append(st.clients, c)
	return c
}

// run sends requests until the clients are stopped.
func (c *clients) run(ctx context.Context, r *rand.Rand) {
	for !c.stopped.Load() && ctx.Err() == nil {
		if err := c.exchange(ctx, r); err != nil && ctx.Err() == nil {
			c.mu.Lock()
			c.failed = errors.Join(c.failed, err)
			c.mu.Unlock()
			return
		}
		if c.pause > 0 {
			time.Sleep(c.pause)
		}
	}
}

// exchange sends one pipeline and counts its replies.
func (c *clients) exchange(ctx context.Context, r *rand.Rand) error {
	if c.work != nil {
		sent := time.Now()
		done, err := c.work(ctx, c.library, r)
		switch {
		case err != nil:
			return err
		case done:
			c.record(1, 0, time.Since(sent))
		default:
			c.record(0, 1, time.Since(sent))
		}
		return nil
	}
	pipe := c.library.Pipeline()
	for range c.pipeline {
		c.send(ctx, pipe, r)
	}
	sent := time.Now()
	commands, err := execute(ctx, c.library, pipe)
	took := time.Since(sent)
	var refused []redis.Cmder
	if err != nil {
		for _, cmd := range commands {
			switch e := cmd.Err(); {
			case e == nil, errors.Is(e, redis.Nil):
			case strings.HasPrefix(e.Error(), "THROTTLED"):
				refused = append(refused, cmd)
			default:
				return e
			}
		}
	}
	if len(refused) > 0 && c.refused != nil {
		if err := c.refused(ctx, refused); err != nil {
			return err
		}
		took = time.Since(sent) // only now it is accepted
	}
	c.record(len(commands)-len(refused), len(refused), took)
	return nil
}

// record counts what was done and refused in some time.
func (c *clients) record(done, refused int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window.done += done
	c.window.refusals += refused
	c.window.times = append(c.window.times, took)
}

// execute sends a pipeline; one of a single command as that command, so that hooks see it.
func execute(ctx context.Context, library *redis.Client, pipe redis.Pipeliner) ([]redis.Cmder, error) {
	commands := pipe.(*redis.Pipeline).Cmds()
	if len(commands) != 1 {
		return pipe.Exec(ctx)
	}
	return commands, library.Process(ctx, commands[0])
}

// cut begins a new window and returns the one that ends.
func (c *clients) cut() window {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.window
	c.doneBefore += int64(w.done)
	c.window = window{began: time.Now()}
	return w
}

// total is how many requests were done since the clients have started.
func (c *clients) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doneBefore + int64(c.window.done)
}

// stop ends the clients, when their last requests are answered.
func (c *clients) stop() error {
	if c.stopped.Swap(true) {
		return nil
	}
	c.running.Wait()
	return errors.Join(c.failed, c.library.Close())
}

// stopClients ends all clients.
func (st *stage) stopClients() (err error) {
	for _, c := range st.clients {
		err = errors.Join(err, c.stop())
	}
	st.clients = nil
	return err
}

// perSecond is how many requests were done in a second of the window that ends now.
func (w *window) perSecond() float64 { return float64(w.done) / time.Since(w.began).Seconds() }

// p99 is the time that one pipeline of a hundred exceeds.
func (w *window) p99() float64 {
	if len(w.times) == 0 {
		return 0
	}
	slices.Sort(w.times)
	return w.times[len(w.times)*99/100].Seconds()
}
