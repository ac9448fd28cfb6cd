package server

import (
	"net"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

// Which keys are hot is known by a sample of the operations that load.go counts. The worker of a loop has a recorder of
// its own; those of streams and goroutines share one. Position, client and names are looked up for sampled operations
// alone.

// newHeatRecorder returns a recorder for a worker that stays, nil if heat is off.
func (s *Server) newHeatRecorder() *heat.Recorder {
	m := s.node.Heat()
	if m == nil {
		return nil
	}
	r := m.NewRecorder()
	s.heatMu.Lock()
	defer s.heatMu.Unlock()
	s.heatRecorders = append(s.heatRecorders, r)
	return r
}

// releaseHeatRecorders forgets the recorders of workers, all of which have ended.
func (s *Server) releaseHeatRecorders() {
	s.heatMu.Lock()
	defer s.heatMu.Unlock()
	for _, r := range s.heatRecorders {
		s.node.Heat().Release(r)
	}
	s.heatRecorders = nil
}

// isSampled reports whether an operation of so many bytes is in the sample: then it is to be handed to recordAccess.
func (w *worker) isSampled(bytes int) bool {
	if w.heat != nil {
		return w.heat.Sampled(heat.Cost(bytes, 0))
	}
	if w.s.sharedHeat == nil {
		return false
	}
	w.heatWeight = w.s.sharedHeat.Sampled(heat.Cost(bytes, 0))
	return w.heatWeight > 0
}

// recordAccess records an operation that isSampled has chosen: how much time was spent on it, and how long it took.
func (w *worker) recordAccess(c *client, spec *redis.Spec, p partition.Position, o load.Op, busy, service time.Duration) {
	a := c.newAccess(spec, p, o, busy, service)
	if w.heat != nil {
		w.s.node.RecordAccessBy(w.heat, &a)
		return
	}
	w.s.node.RecordAccess(&a, w.heatWeight)
}

// recordSampled samples an operation that the worker has executed in a batch.
func (w *worker) recordSampled(c *client, spec *redis.Spec, k *node.Keyspace, key []byte, o load.Op, busy, service time.Duration) {
	if w.isSampled(o.BytesIn + o.BytesOut) {
		w.positionBuf = k.AppendPosition(w.positionBuf[:0], key)
		w.recordAccess(c, spec, w.positionBuf, o, busy, service)
	}
}

// recordSampled samples an operation that a goroutine has executed for the client.
func (c *client) recordSampled(spec *redis.Spec, k *node.Keyspace, key []byte, o load.Op, busy, service time.Duration) {
	if c.s.sharedHeat == nil {
		return
	}
	if weight := c.s.sharedHeat.Sampled(heat.Cost(o.BytesIn+o.BytesOut, busy)); weight > 0 {
		a := c.newAccess(spec, k.AppendPosition(nil, key), o, busy, service)
		c.s.node.RecordAccess(&a, weight)
	}
}

func (c *client) newAccess(spec *redis.Spec, p partition.Position, o load.Op, busy, service time.Duration) heat.Access {
	return heat.Access{
		Key: p, Write: o.Write, BytesIn: o.BytesIn, BytesOut: o.BytesOut, Busy: busy, Service: service,
		Command: spec.Name, Client: c.heatName(), Address: c.RemoteAddr,
	}
}

// maxHeatNameBytes is how much of the name of a client is kept beside its host.
const maxHeatNameBytes = 24

// heatName is what the connections of one program on one machine have in common: the name that the client has set, or
// else its library or its user, and the host, such as shop@10.0.0.7.
func (c *client) heatName() string {
	info := c.Status.LoadInfo()
	name := info.Name
	if name == "" {
		name = info.Library
	}
	if name == "" && info.User != acl.DefaultUser {
		name = info.User
	}
	host, _, err := net.SplitHostPort(c.RemoteAddr)
	if err != nil {
		host = c.RemoteAddr
	}
	if name == "" {
		return host
	}
	return name[:min(len(name), maxHeatNameBytes)] + "@" + host
}
