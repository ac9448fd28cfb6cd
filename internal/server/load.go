package server

import (
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/stats"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

// What is asked of shards is counted when the reply is made: by the worker in its recorder, which it flushes with its
// counts of commands, and by goroutines at the meter. A request that is refused before it comes to a shard, for its
// arguments, its user or the memory, is not counted.

// shardLoad returns what the worker counts of the shard at an index of a map.
func (w *worker) shardLoad(m *partition.Map, shard int) *load.ShardRecorder {
	if w.load == nil {
		w.load = w.s.node.Meter().BorrowRecorder()
	}
	return w.load.At(m, shard)
}

// flushReadLoad gives the reads of the round that windows have answered the mean of their times.
func (w *worker) flushReadLoad() {
	if w.roundReads > 0 {
		w.load.SetTimes(w.roundReadTime, w.roundReadTime/time.Duration(w.roundReads), 0)
		w.load.Flush()
		w.roundReads, w.roundReadTime = 0, 0
	}
}

// flushStagedLoad gives the operations of a batch its time. They were staged one after the other for so long, and each
// has waited for half of that.
func (w *worker) flushStagedLoad(took, staging time.Duration) {
	if w.load != nil {
		w.load.SetTimes(took, took, staging/2)
		w.load.Flush()
	}
}

// returnLoad ends a round of a worker that has a recorder for that long only.
func (w *worker) returnLoad() {
	if w.load != nil && !w.ownsLoad {
		w.s.node.Meter().ReturnRecorder(w.load)
		w.load = nil
	}
}

// resetSlotCounters begins to count by slot, anew if it was done before, or ends it.
func (s *Server) resetSlotCounters(on bool) {
	if !on {
		s.slotCounters.Store(nil)
	} else {
		s.slotCounters.Store(new(stats.SlotCounters))
	}
	s.updateObserved()
}

// updateObserved notes whether each operation is counted for its slot or for HOTKEYS.
func (s *Server) updateObserved() {
	h := s.hotKeySession.Load()
	s.observesOps.Store(s.slotCounters.Load() != nil || h != nil && h.isActive(time.Now()))
}

// observeOp counts an operation for its slot and for HOTKEYS, if that is asked for. Only the default keyspace has such
// figures: a server of Redis has no other.
func (s *Server) observeOp(k *node.Keyspace, key []byte, busy time.Duration, o load.Op) {
	if !s.observesOps.Load() || k.Name != node.DefaultKeyspace {
		return
	}
	if c := s.slotCounters.Load(); c != nil {
		c.Record(k.SlotOf(key), busy, o.BytesIn, o.BytesOut)
	}
	if h := s.hotKeySession.Load(); h != nil && !h.record(k, key, busy, o, time.Now()) {
		s.updateObserved()
	}
}

// recordStaged counts a request that was executed in a batch, given its reply.
func (w *worker) recordStaged(a *stagedRequest, reply load.Op) {
	share := w.batchTime / time.Duration(len(w.staged))
	if u := a.unit; u != nil {
		reply.CrossShard = slices.ContainsFunc(u.loads, func(l *load.ShardRecorder) bool { return l != u.loads[0] })
		u.visitOps(reply, func(key int, it *unitRequest, name []byte, o load.Op) {
			busy := share / time.Duration(len(u.loads))
			u.loads[key].Record(o, a.c.waited)
			w.s.observeOp(it.keyspace, name, busy, o)
			w.recordSampled(a.c, it.Spec, it.keyspace, name, o, busy, w.batchTime)
		})
		return
	}
	reply.Write, reply.BytesIn = a.request.Spec.Flags&redis.Write != 0, a.request.WireBytes()
	a.load.Record(reply, a.c.waited)
	key := a.request.Args[a.request.Spec.Keys.First]
	w.s.observeOp(a.keyspace, key, share, reply)
	w.recordSampled(a.c, a.request.Spec, a.keyspace, key, reply, share, w.batchTime)
}

// finishOp ends the reply to a request that begins at a place, and returns what is counted of the reply.
func (c *client) finishOp(spec *redis.Spec, start int) (reply load.Op) {
	reply.Failed = resp.IsError(c.Out.Bytes[start:])
	c.FinishReply(spec, start)
	reply.BytesOut = max(0, len(c.Out.Bytes)-start)
	return reply
}

// recordTask counts a request about one key that a goroutine has executed by itself, given its reply and when it began.
func (c *client) recordTask(t *task, p partition.Position, reply load.Op, began time.Time) {
	reply.Write, reply.BytesIn = t.request.Spec.Flags&redis.Write != 0, t.request.WireBytes()
	took := time.Since(began)
	m, shard, _ := c.s.node.Locate(p)
	c.s.node.Meter().Record(m, shard, reply, took, took, c.waitedUntil(began))
	key := t.request.Args[t.request.Spec.Keys.First]
	c.s.observeOp(t.keyspace, key, took, reply)
	c.recordSampled(t.request.Spec, t.keyspace, key, reply, took, took)
}

// recordReadTask counts a GET that was read with others.
func (c *client) recordReadTask(t *task, reply load.Op) {
	reply.BytesIn = t.request.WireBytes()
	c.s.node.Meter().Record(t.readMap, t.readShard, reply, t.readTime, t.readTime, c.waitedUntil(time.Now())-t.readTime)
	c.s.observeOp(t.keyspace, t.request.Args[1], t.readTime, reply)
	c.recordSampled(getSpec, t.keyspace, t.request.Args[1], reply, t.readTime, t.readTime)
}

// waitedUntil is how long what is left to do of a client has waited.
func (c *client) waitedUntil(at time.Time) time.Duration {
	if c.backlog == nil {
		return 0
	}
	return at.Sub(c.backlog.waitingSince)
}

// recordUnit counts the requests of a unit that a goroutine has executed by itself, given the reply and when it began.
func (c *client) recordUnit(u *unit, reply load.Op, began time.Time) {
	took, keys := time.Since(began), 0
	first, isCross := partition.ShardID(0), false
	u.visitOps(reply, func(_ int, it *unitRequest, key []byte, _ load.Op) {
		id := c.s.node.Map().Find(it.keyspace.AppendPosition(nil, key)).ID
		if keys++; keys == 1 {
			first = id
		}
		isCross = isCross || id != first
	})
	reply.CrossShard = isCross
	u.visitOps(reply, func(_ int, it *unitRequest, key []byte, o load.Op) {
		busy := took / time.Duration(keys)
		m, shard, _ := c.s.node.Locate(it.keyspace.AppendPosition(nil, key))
		c.s.node.Meter().Record(m, shard, o, busy, took, c.waitedUntil(began))
		c.s.observeOp(it.keyspace, key, busy, o)
		c.recordSampled(it.Spec, it.keyspace, key, o, busy, took)
	})
}

// visitOps visits the operations of a unit that was executed, one for each key of a request, with the number of the key
// among [unit.allKeys]. The reply is that of the unit: those of the requests of a MULTI are in it.
func (u *unit) visitOps(reply load.Op, visit func(key int, it *unitRequest, name []byte, o load.Op)) {
	if u.multi && (reply.Failed || u.watchedChanged) {
		return // none of them was executed
	}
	n, from := len(u.watchedKeys), 0
	items := u.items
	if u.multi {
		items = items[:len(u.replyEnds)] // those that were executed
	}
	for i := range items {
		it := &items[i]
		if u.multi {
			answer := u.out.Bytes[from:u.replyEnds[i]]
			reply, from = load.Op{BytesOut: len(answer), Failed: resp.IsError(answer), CrossShard: reply.CrossShard}, u.replyEnds[i]
		}
		at, _ := it.Spec.KeyIndexes(it.Args)
		if !it.isServerCommand() {
			reply.Write, reply.BytesIn = it.Spec.Flags&redis.Write != 0, it.WireBytes()
			for j, k := range at {
				visit(n+j, it, it.Args[k], reply.Share(j, len(at)))
			}
		}
		n += len(at)
	}
}
