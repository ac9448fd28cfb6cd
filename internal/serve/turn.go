package serve

import (
	"context"
	"maps"

	"github.com/cleavekv/cleave/internal/redis"
)

// turn is a request that is about the connection or the server, and its answer.
type turn struct {
	ctx context.Context // ends with the server
	s   *Server
	c   *client
	redis.Request
	out *redis.Writer
	// within tells that the answer is part of that of an EXEC.
	within bool
}

// messagesFirst has the messages that wait come before the answer: a client may take what
// comes behind it for another answer. Nobody leaves more of those that it is about.
func (t *turn) messagesFirst() {
	if !t.within && !t.c.hushed() { // else there is no place for them, or no answer
		t.c.collect()
	}
}

// edge answers a turn.
type edge struct {
	do func(*turn)
	// waits tells that it may take long. Then it is done on a goroutine, and the client
	// is busy.
	waits bool
}

// edges are those answers, by the names of commands.
var edges = map[string]edge{}

// handle adds edges that answer at once.
func handle(more map[string]func(*turn)) {
	for name, do := range more {
		edges[name] = edge{do: do}
	}
}

// handleSlow adds edges that may take long.
func handleSlow(more map[string]func(*turn)) {
	for name, do := range more {
		edges[name] = edge{do: do, waits: true}
	}
}

// Edges are the names of commands that are answered here.
func Edges() map[string]bool {
	names := map[string]bool{"exec": true}
	for name := range maps.Keys(edges) {
		names[name] = true
	}
	return names
}

// turn answers a request that is about the connection or the server.
func (w *worker) turn(c *client, r redis.Request) {
	e := edges[r.Spec.Name]
	if !e.waits && w.settled(c) {
		began := clock()
		c.reply(r.Spec, func(out *redis.Writer) { e.do(&turn{w.s.ctx, w.s, c, r, out, false}) })
		took := clock() - began
		w.s.stats.took(r.Spec, 1, took, took)
		return
	}
	r = kept(r)
	w.slow(c, task{request: r, call: func(ctx context.Context) {
		w.s.follow(ctx, c)
		took := c.timed(&r, nil, func() {
			c.reply(r.Spec, func(out *redis.Writer) { e.do(&turn{ctx, w.s, c, r, out, false}) })
		})
		w.s.stats.took(r.Spec, 1, took, took)
	}})
}
