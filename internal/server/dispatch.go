package server

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/stats"
)

// dispatch begins one request. The error is why there is no such command.
func (w *worker) dispatch(c *client, spec *redis.Spec, args [][]byte, err error) {
	if err == nil {
		c.Status.LastCommand.Store(spec)
		if err = spec.CheckArity(args); err == nil {
			err = w.s.checkAllowed(c, spec, args)
		}
		switch {
		case err != nil:
			w.s.stats.RecordRejected(spec)
		case c.queue == nil || unqueuedCommands[spec.Name]:
			w.calls.Record(spec) // what is gathered is called by EXEC
		}
	}
	if err != nil {
		if isHTTP(args) {
			w.s.clients.Log.LogClosed(&c.Conn, "it speaks HTTP on the port of Redis clients")
			c.Closing = true // a web page may make a browser send commands in its body
			c.NotifyOutput()
			return
		}
		if spec != nil && spec.Name == "exec" {
			err = c.abort(err)
		}
		if c.queue != nil {
			c.queue.failed = true
		}
		w.replyInOrder(c, nil, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	if c.tracking != nil {
		if len(w.window) == 0 { // else it waits for answers
			c.RecordAnswered()
		}
		w.s.trackReads(c, spec, args)
	}
	r := redis.Request{Spec: spec, Args: args}
	switch {
	case spec.Name == "exec":
		w.beginExec(c)
	case c.queue != nil && !unqueuedCommands[spec.Name]:
		w.enqueueForExec(c, r)
	case spec.Flags&redis.ServerCommand != 0:
		w.beginServerCommand(c, r)
	case spec.IsSingleKey() && !(w.s.notifier.PublishesMisses() && mayMiss(spec)):
		w.beginSingle(c, r)
	default:
		w.beginUnit(c, &unit{c: c, items: []unitRequest{{r, c.keyspace}}})
	}
}

// isHTTP reports whether a line is one of HTTP.
func isHTTP(args [][]byte) bool {
	return redis.IsKeyword(args[0], "POST") || redis.IsKeyword(args[0], "HOST:") || len(args) == 3 && bytes.HasPrefix(args[2], []byte("HTTP/"))
}

// unqueuedCommands are the commands that MULTI does not gather.
var unqueuedCommands = map[string]bool{"multi": true, "exec": true, "discard": true, "watch": true, "quit": true, "reset": true}

// checkAllowed refuses what a client may not do now.
func (s *Server) checkAllowed(c *client, spec *redis.Spec, args [][]byte) error {
	if c.queue != nil && spec.Flags&redis.NoMulti != 0 {
		return redis.Error("ERR Command not allowed inside a transaction")
	}
	if c.needsAuth() && spec.Flags&redis.NoAuth == 0 {
		return redis.Error("NOAUTH Authentication required.")
	}
	if spec.Flags&redis.DenyOOM != 0 && s.memory.overLimit.Load() {
		return errOOM
	}
	if most := s.opts.MaxWriteBytes; most > 0 && spec.Flags&redis.DenyOOM != 0 {
		if n := redis.CountBytes(args); n > most {
			return redis.Error(fmt.Sprintf("OOM a request of %d bytes: with the memory that this server may take, one that writes has at most %d: send less at a time, or give it more memory", n, most))
		}
	}
	u := c.account.User()
	if !u.IsUnlimited() {
		if err := s.checkPermission(c, u, spec, args); err != nil {
			return err
		}
	}
	c.setStagedUser(u)
	if c.subscribed && c.Out.Version == resp.RESP2 && !allowedWhileSubscribed[spec.Name] {
		return redis.Error("ERR Can't execute '" + spec.Name +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return nil
}

// call is a request that is about the connection or the server, and its answer.
type call struct {
	ctx context.Context // ends with the server
	s   *Server
	c   *client
	redis.Request
	out *redis.Writer
	// inExec reports whether the answer is part of that of an EXEC.
	inExec bool
}

// collectMailFirst puts pending messages before the reply: behind it, a client may take them for
// another reply. Subscriptions that the command ends have ended, so no more of their messages come.
func (t *call) collectMailFirst() {
	if !t.inExec && !t.c.IsReplyDiscarded() { // else there is no place for them, or no answer
		t.c.CollectMail()
	}
}

// handler answers a call.
type handler struct {
	handle func(*call)
	// isBlocking reports whether it may take long. Then it is done on a goroutine, and the client
	// is busy.
	isBlocking bool
	// mayBlock reports the same of one request; nil for never.
	mayBlock func(*Server, *redis.Request) bool
}

// handlers are those answers, by the names of commands.
var handlers = map[string]handler{}

// registerHandlers adds edges that answer at once.
func registerHandlers(more map[string]func(*call)) {
	for name, do := range more {
		handlers[name] = handler{handle: do}
	}
}

// registerBlockingHandlers adds edges that may take long.
func registerBlockingHandlers(more map[string]func(*call)) {
	for name, do := range more {
		handlers[name] = handler{handle: do, isBlocking: true}
	}
}

// HandledCommands are the names of commands that are answered here.
func HandledCommands() map[string]bool {
	names := map[string]bool{"exec": true}
	for name := range maps.Keys(handlers) {
		names[name] = true
	}
	return names
}

// beginServerCommand answers a request that is about the connection or the server.
func (w *worker) beginServerCommand(c *client, r redis.Request) {
	e := handlers[r.Spec.Name]
	if !e.isBlocking && !(e.mayBlock != nil && e.mayBlock(w.s, &r)) && w.ensureExecuted(c) {
		began := stats.MonotonicNow()
		c.WriteReply(r.Spec, func(out *redis.Writer) { (&call{w.s.ctx, w.s, c, r, out, false}).perform(e.handle) })
		took := stats.MonotonicNow() - began
		w.s.stats.RecordTime(r.Spec, 1, took, took)
		return
	}
	r = cloneRequest(r)
	w.enqueueTask(c, task{request: r, run: func(ctx context.Context) {
		w.s.followKeyspace(ctx, c)
		took := c.runTimed(&r, nil, func() {
			c.WriteReply(r.Spec, func(out *redis.Writer) { (&call{ctx, w.s, c, r, out, false}).perform(e.handle) })
		})
		w.s.stats.RecordTime(r.Spec, 1, took, took)
	}})
}

// trackReads enters a client that tracks as a reader of what it is about to read. What CLIENT
// CACHING says holds for the next request, and for all of a MULTI.
func (s *Server) trackReads(c *client, spec *redis.Spec, args [][]byte) {
	asked := c.cachingGiven
	if c.queue == nil && spec.Name != "multi" || spec.Name == "exec" || spec.Name == "discard" {
		c.cachingGiven = false
	}
	k := c.tracking
	if c.queue != nil && c.queue.failed {
		return // it is never read, and what is noted in MULTI stays until EXEC
	}
	if spec.Flags&redis.ReadOnly == 0 || k.Broadcast || k.OptIn && !asked || k.OptOut && asked {
		return
	}
	space := c.keyspace.Name
	if c.queue != nil {
		space = c.queue.keyspace.Name
	}
	at, _ := spec.KeyIndexes(args)
	for _, i := range at {
		s.tracker.RecordReads(&c.Conn, &c.unansweredReads, space, args[i])
	}
}

// allowedWhileSubscribed are the commands that a client of RESP2 may use while it listens: it
// could not distinguish other answers from messages.
var allowedWhileSubscribed = map[string]bool{
	"subscribe": true, "unsubscribe": true, "psubscribe": true, "punsubscribe": true, "ssubscribe": true, "sunsubscribe": true,
	"ping": true, "quit": true, "reset": true,
}
