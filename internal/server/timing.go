package server

import (
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/stats"
)

// runTimed does something for a client and notes it if it took long. The keyspace is nil if it is
// not in one place.
func (c *client) runTimed(r *redis.Request, in *node.Keyspace, f func()) (took time.Duration) {
	began := time.Now()
	f()
	took = c.waited + time.Since(began)
	if c.s.recordLatency(stats.EventCommand, took) && !secretCommands[r.Spec.Name] {
		c.recordSlow(r, took, in)
	}
	return took
}

// secretCommands are the commands that have passwords in them.
var secretCommands = map[string]bool{"auth": true, "hello": true, "acl|setuser": true, "config|set": true}

// recordSlowRequests notes some of the requests that were executed if they took long.
func (w *worker) recordSlowRequests(took time.Duration) {
	slow := w.s.recordLatency(stats.EventBatch, took)
	if !slow && !w.hasWaited {
		return
	}
	noted := 0
	for i := range w.staged {
		a := &w.staged[i]
		if took := a.c.waited + took; slow || a.c.waited > 0 && w.s.slowlog.IsSlow(took) {
			r, space := &a.request, a.keyspace
			if a.unit != nil {
				r, space = &a.unit.items[0].Request, a.unit.items[0].keyspace
			}
			a.c.recordSlow(r, took, space)
			if noted++; noted == stats.MaxSlowlogPerBatch {
				return
			}
		}
	}
}

// locateRequest is the shard and the group of a request.
func (s *Server) locateRequest(space *node.Keyspace, r *redis.Request) stats.Location {
	at, err := r.Spec.KeyIndexes(r.Args)
	if err != nil || len(at) == 0 {
		return stats.Location{}
	}
	p := space.AppendPosition(nil, r.Args[at[0]])
	return stats.Location{Shard: s.node.Map().Find(p).ID, Group: s.node.GroupHostAt(p).ID}
}

// recordSlow notes a request that took long, and where it was executed unless the keyspace is nil.
func (c *client) recordSlow(r *redis.Request, took time.Duration, in *node.Keyspace) {
	at := stats.Location{}
	if in != nil {
		at = c.s.locateRequest(in, r)
	}
	e := c.newSlowlogEntry(r.Args, took, at)
	c.s.reportRequest("slow", 1, func() stats.SlowlogEntry { return e })
	c.s.slowlog.Record(e, r.Args)
}

// newSlowlogEntry is what there is to report about a request of the client without its values.
func (c *client) newSlowlogEntry(args [][]byte, took time.Duration, at stats.Location) stats.SlowlogEntry {
	return stats.NewSlowlogEntry(args, c.s.opts.Now(), took, c.RemoteAddr, c.Status.LoadInfo().Name, at)
}

// recordLatency is how long something took, for SLOWLOG and LATENCY.
func (s *Server) recordLatency(event string, took time.Duration) (slow bool) {
	if s.latency.IsOn() {
		s.latency.Record(event, s.opts.Now(), took)
	}
	return s.slowlog.IsSlow(took)
}

// reportRequest reports a request to the observer. It costs nothing if there is none.
func (s *Server) reportRequest(kind string, requests int, e func() stats.SlowlogEntry) {
	if s.opts.Observe == nil {
		return
	}
	entry := e()
	s.opts.Observe(api.ObservedRequest{Slow: entry.ToAPI(), Kind: kind, Requests: requests})
}

// runReported runs a transaction, and reports it unless it is reported already as one that took long.
func (s *Server) runReported(u *unit, run func()) {
	if s.opts.Observe == nil {
		run()
		return
	}
	began := time.Now()
	run()
	if took := time.Since(began); !s.slowlog.IsSlow(took) {
		s.reportRequest("transaction", len(u.items), func() stats.SlowlogEntry { return u.c.newSlowlogEntry(u.items[0].Args, took, stats.Location{}) })
	}
}
