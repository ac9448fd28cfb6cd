package serve

import (
	"bytes"
	"strings"

	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
)

// dispatch begins one request. The error is why there is no such command.
func (w *worker) dispatch(c *client, spec *redis.Spec, args [][]byte, err error) {
	if err == nil {
		c.seen.last.Store(spec)
		if err = spec.Check(args); err == nil {
			err = w.s.allowed(c, spec, args)
		}
		if err != nil || c.queue == nil || immediate[spec.Name] {
			w.s.stats.called(spec, err) // what is gathered is called by EXEC
		}
	}
	if err != nil {
		if speaksHTTP(args) {
			c.closing = true // a web page may make a browser send commands in its body
			c.conn.dirty()
			return
		}
		if c.queue != nil {
			c.queue.failed = true
		}
		w.say(c, nil, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	if c.tracks != nil {
		if len(w.looks) == 0 { // else it waits for answers
			w.s.tracker.answered(c)
		}
		w.s.track(c, spec, args)
	}
	r := redis.Request{Spec: spec, Args: args}
	switch {
	case spec.Name == "exec":
		w.exec(c)
	case c.queue != nil && !immediate[spec.Name]:
		w.enqueue(c, r)
	case spec.Flags&redis.Edge != 0:
		w.turn(c, r)
	case spec.Single():
		w.single(c, r)
	default:
		w.unit(c, &unit{c: c, items: []item{{r, c.space}}})
	}
}

// speaksHTTP tells whether a line is one of HTTP.
func speaksHTTP(args [][]byte) bool {
	return redis.Is(args[0], "POST") || redis.Is(args[0], "HOST:") || len(args) == 3 && bytes.HasPrefix(args[2], []byte("HTTP/"))
}

// immediate are the commands that MULTI does not gather.
var immediate = map[string]bool{"multi": true, "exec": true, "discard": true, "watch": true, "quit": true, "reset": true}

// allowed refuses what a client may not do now.
func (s *Server) allowed(c *client, spec *redis.Spec, args [][]byte) error {
	if c.queue != nil && spec.Flags&redis.NoMulti != 0 {
		return redis.Error("ERR Command not allowed inside a transaction")
	}
	if c.stranger() && spec.Flags&redis.NoAuth == 0 {
		return redis.Error("NOAUTH Authentication required.")
	}
	if spec.Flags&redis.DenyOOM != 0 && s.memory.over.Load() {
		return errOOM
	}
	u := c.account.User()
	if !u.All() {
		if err := s.permitted(c, u, spec, args); err != nil {
			return err
		}
	}
	c.allow(u)
	if c.listening && c.out.Version == resp.RESP2 && !whileListening[spec.Name] {
		return redis.Error("ERR Can't execute '" + strings.ToLower(string(args[0])) +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return nil
}
