package server

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/partition"
)

// Where writers are held up (see package admission), a worker does not wait for them: a write whose turn has not come goes
// to the backlog of its client, and waits on a goroutine with all that the client asks for behind it. If its turn would
// come too late it is refused there: THROTTLED. Units take the way of transactions, which wait before their commit.

// beginThrottled begins a request that writes where writers are held up.
func (w *worker) beginThrottled(c *client, r redis.Request, at keyLocation) {
	admitted := w.s.node.WriteLimits().TryAdmit(at.row.Position())
	w.flushWindow()
	if admitted && !c.Busy {
		size, known := at.groupHost.Group.LookupSize(at.row)
		if known || w.isBlindWrite(&r, at.groupHost) {
			w.stagedBytes += size
			w.stageSingle(c, r, at)
			return
		}
	}
	w.enqueueRequest(c, r, c.stagedUser)
	c.backlog.tasks[len(c.backlog.tasks)-1].admitted = admitted
}

// writePosition returns the position that a task writes if it has to be admitted.
func (t *task) writePosition(room []byte) (partition.Position, bool) {
	if t.run != nil || t.unit != nil || t.admitted || t.refusedTurn != nil || t.request.Spec.Flags&redis.Write == 0 {
		return room, false
	}
	return t.keyspace.AppendPosition(room[:0], t.request.Args[t.request.Spec.Keys.First]), true
}

// isThrottled reports whether any of the tasks of a client may have to wait for its turn.
func (s *Server) isThrottled(tasks []task) bool {
	limits := s.node.WriteLimits()
	if limits.IsEmpty() {
		return false
	}
	var room []byte
	writes := false
	for i := range tasks {
		if room, writes = tasks[i].writePosition(room); writes && limits.Covers(room) {
			return true
		}
	}
	return false
}

// waitForTurns takes the turns of all tasks of a client that has left its worker, and waits for them.
func (s *Server) waitForTurns(ctx context.Context, tasks []task) {
	limits := s.node.WriteLimits()
	if limits.IsEmpty() {
		return
	}
	var sum admission.Grant
	var room []byte
	writes := false
	for i := range tasks {
		t := &tasks[i]
		if room, writes = t.writePosition(room); !writes {
			continue
		}
		g, err := limits.Reserve(room)
		if t.admitted = err == nil; !t.admitted {
			t.refusedTurn = err
			continue
		}
		sum.Add(g)
	}
	if wait := sum.Wait(); wait > 0 {
		limits.Record(sum)
		sleepContext(ctx, wait)
	}
}

// countThrottled is how many writes were refused, clients of programs included.
func (s *Server) countThrottled() (n uint64) {
	for _, source := range admission.LimitSources() {
		n += s.node.WriteLimits().Totals(source).Refused
	}
	return n
}

// sleepContext waits, but not beyond the end of ctx.
func sleepContext(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
