package serve

import (
	"maps"
	"strings"

	"github.com/cleavekv/cleave/internal/redis"
)

// edge answers a request that is about the connection or the server.
type edge func(*worker, *client, redis.Request)

// edges are those answers, by the names of commands.
var edges = map[string]edge{}

// handle adds to edges.
func handle(more map[string]edge) { maps.Copy(edges, more) }

func init() {
	handle(map[string]edge{"multi": multi, "exec": exec, "discard": discard, "config|get": configGet})
}

func multi(w *worker, c *client, _ redis.Request) {
	w.say(c, func(out *redis.Writer) {
		if c.queue != nil {
			out.Fail(redis.Error("ERR MULTI calls can not be nested"))
			return
		}
		c.queue = &queue{}
		out.OK()
	})
}

func discard(w *worker, c *client, _ redis.Request) {
	w.say(c, func(out *redis.Writer) {
		if c.queue == nil {
			out.Fail(redis.Error("ERR DISCARD without MULTI"))
			return
		}
		c.queue = nil
		out.OK()
	})
}

func exec(w *worker, c *client, _ redis.Request) {
	q := c.queue
	c.queue = nil
	switch {
	case q == nil:
		w.say(c, func(out *redis.Writer) { out.Fail(redis.Error("ERR EXEC without MULTI")) })
	case q.failed:
		w.say(c, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of previous errors."))
		})
	case len(q.requests) == 0:
		w.say(c, func(out *redis.Writer) { out.Array(0) })
	default:
		w.unit(c, &unitCommand{c: c, requests: q.requests, multi: true})
	}
}

func configGet(w *worker, c *client, r redis.Request) {
	w.say(c, func(out *redis.Writer) {
		out.Map(1)
		out.Text(strings.ToLower(string(r.Args[2])))
		out.Text("")
	})
}
