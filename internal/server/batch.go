package server

import (
	"context"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// batch is what is staged for the groups of one store: one write of its log.
type batch struct {
	store    *store.Store
	pipeline group.Pipeline
}

// stagedRequest is a request that is staged.
type stagedRequest struct {
	c        *client
	request  redis.Request
	keyspace *node.Keyspace
	command  command.Command     // of a single one
	unit     *unit               // of any other
	load     *load.ShardRecorder // of the shard of a single one
	refusals int8                // see task
	// batch executes it, as the one at index.
	batch *batch
	index int
}

// minParallelRequests is how many requests a batch has at least that another goroutine executes while
// the worker executes one: to wake it takes as long as some of them.
const minParallelRequests = 64

// stage adds a request to the batch of its store, behind all that is staged.
func (w *worker) stage(part *node.GroupHost, a stagedRequest, r group.Request) *stagedRequest {
	b := w.batches[part.Store]
	if b == nil {
		b = &batch{store: part.Store}
		w.batches[part.Store] = b
	}
	if b.pipeline.Len() == 0 {
		w.usedBatches = append(w.usedBatches, b)
	}
	a.batch, a.index = b, b.pipeline.Len()
	b.pipeline.Add(part.Group, r, a.c.ID)
	a.c.Staged++
	if len(w.staged) == 0 {
		w.stagedAt = time.Now()
	}
	w.staged = append(w.staged, a)
	return &w.staged[len(w.staged)-1]
}

// sharesMap reports whether what is located by a map may be staged beside what is. All of a round is located by one
// map: requests about one key are then in one batch, which keeps their order. If it may not, what is staged is to be
// executed first, and the rest located again.
func (w *worker) sharesMap(m *partition.Map) bool {
	if len(w.staged) == 0 && len(w.window) == 0 {
		w.stagedMap = m
		return true
	}
	return w.stagedMap == m
}

// commit executes what is staged and answers it.
func (w *worker) commit() {
	w.executeStaged()
	w.schedulePending()
}

// executeStaged executes what is staged, and answers it in its order. Clients whose requests have to wait are
// busy then, and go on with schedulePending.
func (w *worker) executeStaged() {
	w.flushWindow()
	w.flushCounts()
	if len(w.staged) > 0 {
		began := time.Now()
		w.executeBatches()
		took := time.Since(began)
		w.batchTime = took
		w.recordSlowRequests(took)
		for i := range w.staged {
			if a := &w.staged[i]; !w.replyStaged(a) {
				a.c = nil // its time comes
			}
		}
		w.recordRequestTimes(took)
		w.flushStagedLoad(took, began.Sub(w.stagedAt))
		for _, b := range w.usedBatches {
			b.pipeline.Reset()
		}
		clear(w.staged)
	}
	w.returnLoad()
	w.usedBatches, w.staged, w.stagedBytes, w.stagedMap, w.hasWaited = w.usedBatches[:0], w.staged[:0], 0, nil, false
	w.rowKeys = w.rowKeys[:0]
	clear(w.heldArgs)
	if w.heldArgs = w.heldArgs[:0]; cap(w.heldArgs) > maxRetainedArgs {
		w.heldArgs = nil
	}
	w.scratch.Reset()
}

// executeBatches executes the batches: at once where a store waits for its disk, or where there is much to do.
func (w *worker) executeBatches() {
	own := w.ownBatches[:0]
	var others sync.WaitGroup
	for i, b := range w.usedBatches {
		if i > 0 && (b.store.SyncsEachCommit() || w.hasProcessors && b.pipeline.Len() >= minParallelRequests) {
			others.Go(b.pipeline.Execute)
		} else {
			own = append(own, b)
		}
	}
	for _, b := range own {
		b.pipeline.Execute()
	}
	others.Wait()
	w.ownBatches = own
}

// holdArgs keeps a list of arguments until what is staged is executed: the parser writes
// that of the next request to the same place.
func (w *worker) holdArgs(args [][]byte) [][]byte {
	start := len(w.heldArgs)
	w.heldArgs = append(w.heldArgs, args...) // if it grows, what was held before stays where it is
	return w.heldArgs[start:len(w.heldArgs):len(w.heldArgs)]
}

// replyStaged answers a request that was executed, or leaves it for later.
func (w *worker) replyStaged(a *stagedRequest) (executed bool) {
	c := a.c
	c.Staged--
	reply, err := a.batch.pipeline.Reply(a.index)
	if err == nil {
		err = reply.Err
	}
	if isRetryable(err) {
		w.requeueRefused(a, err)
		return false
	}
	if c.backlog != nil && c.backlog.refused > 0 {
		w.holdReply(a, reply, err)
		return true
	}
	start := len(c.Out.Bytes)
	a.writeReply(&c.Out, reply, err)
	w.recordStaged(a, c.finishOp(a.commandSpec(), start))
	c.NotifyOutput()
	return true
}

// writeReply writes the reply to a request that was executed.
func (a *stagedRequest) writeReply(out *redis.Writer, reply command.Reply, err error) {
	switch {
	case a.unit == nil:
		reply.Err = err
		a.request.Spec.WriteReply(out, &a.request, a.command, reply)
	case err != nil:
		out.Fail(err)
	default:
		a.unit.writeReplies(out)
	}
}

// holdReply keeps the reply to a request that one store has executed behind one that another has refused: the
// client gets it in its place.
func (w *worker) holdReply(a *stagedRequest, reply command.Reply, err error) {
	c, spec := a.c, a.commandSpec()
	held := redis.Writer{Version: c.Out.Version, Limit: c.Out.Limit}
	a.writeReply(&held, reply, err)
	w.recordStaged(a, load.Op{BytesOut: len(held.Bytes), Failed: resp.IsError(held.Bytes)})
	c.backlog.addRefused(task{keyspace: a.keyspace, user: c.stagedUser, run: func(context.Context) {
		c.WriteReply(spec, func(out *redis.Writer) {
			out.Bytes = append(out.Bytes, held.Bytes...)
			out.HasOverflowed = out.HasOverflowed || held.HasOverflowed
		})
	}})
}

// commandSpec is the command that a request is.
func (a *stagedRequest) commandSpec() *redis.Spec {
	if a.unit != nil {
		return a.unit.commandSpec()
	}
	return a.request.Spec
}

// recordRequestTimes notes how long the requests took that were executed. Each has waited for all of them;
// what they have taken together is their share of that, and what was waited before.
func (w *worker) recordRequestTimes(took time.Duration) {
	share := took / time.Duration(len(w.staged))
	for rest := w.staged; len(rest) > 0; {
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
