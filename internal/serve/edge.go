package serve

import (
	"strings"

	"github.com/cleavekv/cleave/internal/redis"
)

// edge answers a request that is about the connection or the server.
func (w *worker) edge(c *client, r redis.Request) {
	answer, ok := edges[r.Spec.Name]
	if !ok {
		w.literal(c, func(out *redis.Writer) { out.Fail(redis.Error("ERR " + r.Spec.Name + " is not answered")) })
		return
	}
	answer(w, c, r)
}

var edges map[string]func(*worker, *client, redis.Request)

func init() {
	edges = map[string]func(*worker, *client, redis.Request){
		"ping": ping, "multi": multi, "exec": exec, "discard": discard, "config|get": configGet,
	}
}

func ping(w *worker, c *client, r redis.Request) {
	w.literal(c, func(out *redis.Writer) {
		if len(r.Args) > 1 {
			out.Bulk(r.Args[1])
		} else {
			out.Simple("PONG")
		}
	})
}

func multi(w *worker, c *client, _ redis.Request) {
	w.literal(c, func(out *redis.Writer) {
		if c.queue != nil {
			out.Fail(redis.Error("ERR MULTI calls can not be nested"))
			return
		}
		c.queue = &queue{}
		out.OK()
	})
}

func discard(w *worker, c *client, _ redis.Request) {
	w.literal(c, func(out *redis.Writer) {
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
		w.literal(c, func(out *redis.Writer) { out.Fail(redis.Error("ERR EXEC without MULTI")) })
	case q.failed:
		w.literal(c, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of previous errors."))
		})
	case len(q.requests) == 0:
		w.literal(c, func(out *redis.Writer) { out.Array(0) })
	default:
		w.unit(c, &unitCommand{c: c, requests: q.requests, multi: true})
	}
}

func configGet(w *worker, c *client, r redis.Request) {
	w.literal(c, func(out *redis.Writer) {
		out.Map(1)
		out.Text(strings.ToLower(string(r.Args[2])))
		out.Text("")
	})
}
