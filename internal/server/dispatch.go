package server

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/settings"
	"github.com/cleavekv/cleave/internal/server/stats"
)

// dispatch begins one request. The error is why there is no such command.
func (w *worker) dispatch(c *client, spec *redis.Spec, args [][]byte, err error) {
	if err == nil {
		c.Status.LastCommand.Store(spec)
		if err = spec.CheckArity(args); err == nil {
			err = w.s.checkAllowed(c, spec, args)
		}
		if err != nil || c.queue == nil || unqueuedCommands[spec.Name] {
			w.s.stats.RecordCall(spec, err) // what is gathered is called by EXEC
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
	// inExec tells that the answer is part of that of an EXEC.
	inExec bool
}

// collectMailFirst has the messages that wait come before the answer: a client may take what
// comes behind it for another answer. Nobody leaves more of those that it is about.
func (t *call) collectMailFirst() {
	if !t.inExec && !t.c.IsReplyDiscarded() { // else there is no place for them, or no answer
		t.c.CollectMail()
	}
}

// handler answers a turn.
type handler struct {
	handle func(*call)
	// isBlocking tells that it may take long. Then it is done on a goroutine, and the client
	// is busy.
	isBlocking bool
	// mayBlock tells the same of one request; nil for never.
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

// checkPermission refuses what a user may not do.
func (s *Server) checkPermission(c *client, u *acl.User, spec *redis.Spec, args [][]byte) error {
	reason, object := checkACL(u, spec, args)
	if reason == "" {
		return nil
	}
	s.deniedLog.record(&call{s: s, c: c}, reason, object, u.Name)
	switch reason {
	case "command":
		return redis.Error("NOPERM this user has no permissions to run the '" + spec.Name + "' command")
	case "key":
		return redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	}
	return redis.Error("NOPERM this user has no permissions to access one of the channels used as arguments")
}

// checkACL is why a user may not do something, and what that is; empty if it may.
func checkACL(u *acl.User, spec *redis.Spec, args [][]byte) (reason, object string) {
	if !u.CanRun(spec) && spec.Flags&redis.NoAuth == 0 {
		return "command", spec.Name
	}
	access := acl.Read
	if spec.Flags&redis.Write != 0 {
		access = acl.Write
		if spec.Flags&redis.ReadOnly != 0 || !writeOnlyCommands[spec.Name] || returnsOldValue(spec, args) {
			access |= acl.Read
		}
	}
	at, _ := spec.KeyIndexes(args)
	for _, i := range at {
		if !u.CanAccessKey(args[i], access) {
			return "key", string(args[i])
		}
	}
	channels, pattern := requestChannels(spec, args)
	for _, name := range channels {
		if !u.CanAccessChannel(name, pattern) {
			return "channel", string(name)
		}
	}
	return "", ""
}

// writeOnlyCommands are the commands that write without telling anything about what was there: who
// may write a key and not read it may use them.
var writeOnlyCommands = map[string]bool{"set": true, "setex": true, "psetex": true, "mset": true, "del": true, "unlink": true, "hset": true, "hmset": true, "expire": true}

// returnsOldValue reports whether a SET answers with what was there.
func returnsOldValue(spec *redis.Spec, args [][]byte) bool {
	return spec == setSpec && slices.ContainsFunc(args[min(3, len(args)):], func(word []byte) bool { return redis.IsKeyword(word, "GET") })
}

// requestChannels are the channels that a request names.
func requestChannels(spec *redis.Spec, args [][]byte) (names [][]byte, pattern bool) {
	switch spec.Name {
	case "subscribe", "ssubscribe":
		return args[1:], false
	case "psubscribe":
		return args[1:], true
	case "publish", "spublish":
		return args[1:2], false
	}
	return nil, false
}

func init() { registerHandlers(map[string]func(*call){"acl|log": handleACLLog}) }

// deniedLog is the newest of what was refused.
type deniedLog struct {
	mu      sync.Mutex
	entries []deniedEntry
}

type deniedEntry struct {
	count                                     int
	reason, context, object, user, clientInfo string
	first                                     time.Time
}

func (d *deniedLog) record(t *call, reason, object, user string) {
	now, object := t.s.opts.Now(), object[:min(len(object), maxNameBytes)]
	user = user[:min(len(user), maxNameBytes)]
	context := "toplevel"
	if t.c.queue != nil {
		context = "multi"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.entries {
		e := &d.entries[i]
		if e.reason == reason && e.context == context && e.object == object && e.user == user && now.Sub(e.first) < time.Minute {
			e.count++
			return
		}
	}
	d.entries = slices.Insert(d.entries, 0, deniedEntry{1, reason, context, object, user, t.s.formatClient(&t.c.Conn, now), now})
	d.entries = d.entries[:min(len(d.entries), settings.MaxDeniedEntries)]
}

func handleACLLog(t *call) {
	n := 10
	if len(t.Args) > 3 {
		t.out.Fail(redis.SubcommandArity(&t.Request))
		return
	}
	if len(t.Args) == 3 {
		if redis.IsKeyword(t.Args[2], "RESET") {
			t.s.deniedLog.mu.Lock()
			t.s.deniedLog.entries = nil
			t.s.deniedLog.mu.Unlock()
			t.out.OK()
			return
		}
		most, ok := redis.Integer(t.Args[2])
		if !ok {
			t.out.Fail(redis.ErrNotInteger)
			return
		}
		n = int(max(0, most))
	}
	t.s.deniedLog.mu.Lock()
	list := slices.Clone(t.s.deniedLog.entries[:min(n, len(t.s.deniedLog.entries))])
	t.s.deniedLog.mu.Unlock()
	t.out.Array(len(list))
	for _, e := range list {
		t.out.Map(7)
		t.out.Text("count")
		t.out.Int(int64(e.count))
		for _, p := range [][2]string{{"reason", e.reason}, {"context", e.context}, {"object", e.object}, {"username", e.user},
			{"age-seconds", fmt.Sprintf("%.3f", t.s.opts.Now().Sub(e.first).Seconds())}, {"client-info", e.clientInfo}} {
			t.out.Text(p[0])
			t.out.Text(p[1])
		}
	}
}
