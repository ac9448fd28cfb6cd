package server

import (
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
)

// batch is what is staged for the groups of one store.
type batch struct {
	many     group.Pipeline
	requests []stagedRequest
}

// stagedRequest is a request that is staged.
type stagedRequest struct {
	c        *client
	request  redis.Request
	keyspace *node.Keyspace
	command  command.Command // of a single one
	unit     *unit           // of any other
	refusals int8            // see task
}

// openBatch returns the batch of a group for a request of a client.
// Invariant: whatever else the client has staged is of the same store.
func (w *worker) openBatch(c *client, part *node.GroupHost) *batch {
	b := w.batches[part.Store]
	if b == nil {
		b = new(batch)
		w.batches[part.Store] = b
	}
	if len(b.requests) == 0 {
		w.usedBatches = append(w.usedBatches, b)
	}
	c.stagedStore = part.Store
	c.Staged++
	w.staged++
	return b
}

// commit executes what is staged and answers it.
func (w *worker) commit() {
	w.executeStaged()
	w.schedulePending()
}

// executeStaged executes what is staged. Clients whose requests have to wait are busy then, and
// go on with schedulePending.
func (w *worker) executeStaged() {
	w.flushWindow()
	w.flushReadTimes()
	for _, b := range w.usedBatches {
		began := time.Now()
		b.many.Execute()
		took := time.Since(began)
		w.recordSlowBatch(b, took)
		for i := range b.requests {
			if !w.replyStaged(b, i) {
				b.requests[i].c = nil // its time comes
			}
		}
		w.recordBatchTimes(b, took)
		b.many.Reset()
		clear(b.requests)
		b.requests = b.requests[:0]
	}
	w.usedBatches, w.staged, w.stagedBytes, w.hasWaited = w.usedBatches[:0], 0, 0, false
	w.rowKeys = w.rowKeys[:0]
	clear(w.heldArgs)
	if w.heldArgs = w.heldArgs[:0]; cap(w.heldArgs) > maxRetainedArgs {
		w.heldArgs = nil
	}
	w.scratch.Reset()
}

// holdArgs keeps a list of arguments until what is staged is executed: the parser writes
// that of the next request to the same place.
func (w *worker) holdArgs(args [][]byte) [][]byte {
	start := len(w.heldArgs)
	w.heldArgs = append(w.heldArgs, args...) // if it grows, what was held before stays where it is
	return w.heldArgs[start:len(w.heldArgs):len(w.heldArgs)]
}

// replyStaged answers a request of a batch, or leaves it for later.
func (w *worker) replyStaged(b *batch, i int) (answered bool) {
	a := &b.requests[i]
	c := a.c
	c.Staged--
	reply, err := b.many.Reply(i)
	if err == nil {
		err = reply.Err
	}
	if isRetryable(err) {
		w.requeueRefused(a, err)
		return false
	}
	start := len(c.Out.Bytes)
	switch {
	case a.unit == nil:
		reply.Err = err
		a.request.Spec.WriteReply(&c.Out, &a.request, a.command, reply)
	case err != nil:
		c.Out.Fail(err)
	default:
		a.unit.writeReplies(&c.Out)
	}
	c.FinishReply(a.commandSpec(), start)
	c.NotifyOutput()
	return true
}

// commandSpec is the command that a request is.
func (a *stagedRequest) commandSpec() *redis.Spec {
	if a.unit != nil {
		return a.unit.commandSpec()
	}
	return a.request.Spec
}

// recordBatchTimes notes how long the requests of a batch took that are answered. Each has waited for
// all of it; what they have taken together is their share of it, and what was waited before.
func (w *worker) recordBatchTimes(b *batch, took time.Duration) {
	share := took / time.Duration(len(b.requests))
	for rest := b.requests; len(rest) > 0; {
		a, n := &rest[0], 1
		switch {
		case a.c == nil:
		case a.unit != nil:
			a.unit.recordTime(w.s.stats, a.c.waited+took, a.c.waited+share)
		default:
			for n < len(rest) && rest[n].c != nil && rest[n].request.Spec == a.request.Spec && rest[n].c.waited == a.c.waited {
				n++
			}
			w.s.stats.RecordTime(a.request.Spec, n, a.c.waited+took, a.c.waited+share*time.Duration(n))
		}
		rest = rest[n:]
	}
}
