package server

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/stats"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// worker takes requests of clients, stages those that are to be executed in a group, and
// commits them together. It belongs to one goroutine.
type worker struct {
	s *Server
	// staged are requests to be executed, in the order of their replies, batches where they are executed, by
	// store, and stagedMap the map that has located them. Those of usedBatches are not empty.
	staged      []stagedRequest
	stagedMap   *partition.Map
	batches     map[*store.Store]*batch
	usedBatches []*batch
	// ownBatches are those that the worker executes itself, and hasProcessors reports whether another goroutine may
	// execute some at the same time.
	ownBatches    []*batch
	hasProcessors bool
	stagedBytes   int // of the values that what is staged may answer
	// pending are clients that have something left to do, as long as they have not left.
	pending []*client
	// hasWaited reports whether some have waited before they were staged.
	hasWaited     bool
	inlineClients []*client // whose rows the worker reads itself
	nowMS         int64
	calls         stats.CallBuffer

	// request and builder are what a command is made of.
	request redis.Request
	builder redis.Builder

	scratch  redis.CommandPool
	rowKeys  []byte   // row keys of this round
	heldArgs [][]byte // arguments of what is staged

	// window are requests of the client at hand whose rows are looked at together, next.
	window     []windowEntry
	windowGets int    // how many of them are GETs
	rowBuf     []byte // memory for one row
	// unrecordedReads is how many reads were answered whose time is not noted, each how long the last took that was
	// timed, and untimed how many looks come before another is.
	unrecordedReads, untimedWindows int
	readTime                        time.Duration

	// load counts what is asked of shards; nil between the rounds of a stream: see shardLoad. roundReads is how many of
	// the operations that it has counted were answered by windows, and roundReadTime how long those took together.
	// stagedAt is when the first of those that are staged was, and batchTime how long the
	// batch took that is answered.
	// routes are where keys go, by keyspace, and lastRoutes those of the keyspace that was asked for last.
	routes        []*routeTable
	lastRoutes    *routeTable
	load          *load.Recorder
	ownsLoad      bool
	roundReads    int
	roundReadTime time.Duration
	stagedAt      time.Time
	batchTime     time.Duration
	// heat samples what is asked for; nil if that is off, and for the worker of a stream, which shares a recorder: then
	// heatWeight is what the operation stands for that was chosen last.
	heat        *heat.Recorder
	heatWeight  float64
	positionBuf []byte
}

const (
	// maxStaged is how many requests are committed at once: enough for a sync to be
	// shared, and few enough for the first not to wait long for the last.
	maxStaged = 8192
	// rowKeyBytes is how much memory there is for row keys in a round.
	rowKeyBytes = 1 << 20
	// maxRetainedArgs is for how many arguments memory is kept.
	maxRetainedArgs = 4 * maxStaged
	// streamRowKeyBytes is how much there is for the round of a single connection.
	streamRowKeyBytes = 4 << 10
)

// newWorker returns a worker with so much room for row keys: those of a loop are many,
// those of one connection few.
func newWorker(s *Server, room int) *worker {
	return &worker{
		s: s, batches: map[*store.Store]*batch{}, rowKeys: make([]byte, 0, room), window: make([]windowEntry, 0, rowcache.MaxPrefetchKeys),
		hasProcessors: runtime.GOMAXPROCS(0) > 1, calls: s.stats.NewCallBuffer(),
	}
}

// newLoopWorker returns the worker of a loop, which has counters of its own.
func newLoopWorker(s *Server) *worker {
	w := newWorker(s, rowKeyBytes)
	w.load, w.ownsLoad = s.node.Meter().NewRecorder(), true
	w.heat = s.newHeatRecorder()
	return w
}

// Accept implements [conn.Executor].
func (w *worker) Accept(t conn.Transport, from, to string) (*conn.Conn, string) {
	c, refused := w.s.newClient(t, from, to)
	if c == nil {
		return nil, refused
	}
	c.w = w
	return &c.Conn, ""
}

// BeginRound implements [conn.Executor].
func (w *worker) BeginRound(nowMS int64) { w.nowMS = nowMS }

// Commit implements [conn.Executor].
func (w *worker) Commit() { w.commit() }

// EndRound implements [conn.Executor].
func (w *worker) EndRound(reads int, took time.Duration) { w.load.RecordRound(reads, took) }

// takeRequests takes the requests at the front of data and returns what is left. It stops at a
// request that takes long: then the client is busy. Of a server that ends it takes nothing:
// what the client has asked for before may have been refused for that.
func (w *worker) takeRequests(c *client, data []byte) (rest []byte) {
	c.Stalled = false
	if w.s.ctx.Err() != nil {
		return data
	}
	c.Status.LastRequestMS.Store(w.nowMS)
	c.Out.Limit = int(c.OutputLimit().Hard)
	had := len(data)
	if c.hasBacklog() && len(c.Out.Bytes) > conn.MaxUnreadBytes {
		c.Stalled = true
		return data
	}
	if w.restageBacklog(c); c.Busy {
		return data
	}
	if c.hasBacklog() {
		c.Stalled = true
		return data
	}
	for len(data) > 0 && (!c.Busy || !c.HandedOff) && !c.Closing {
		args, n, err := c.Parser.Next(data, *w.s.requestLimits(c))
		if err != nil {
			w.rejectProtocolError(c, err)
			return nil
		}
		if n == 0 {
			break
		}
		if len(c.Out.Bytes) > conn.MaxUnreadBytes {
			c.Stalled = true // it is taken again when they are read
			break
		}
		if len(args) == 0 {
			data = data[n:]
			continue
		}
		spec, err := redis.LookupRequest(args)
		if !(err == nil && spec.IsSingleKey() && c.queue == nil) {
			if w.flushWindow(); c.Busy {
				break // it is taken again when they are done
			}
		}
		if c.Busy && c.backlog.isFull() {
			break
		}
		data = data[n:]
		w.dispatch(c, spec, args, err)
		if w.isFull() {
			w.commit()
		}
	}
	w.flushWindow()
	c.Status.RecordPartialRequest(len(data) > 0 && !c.Busy && !c.Stalled, len(data) < had, w.nowMS)
	return data
}

// isFull reports whether enough is staged to be committed.
func (w *worker) isFull() bool {
	return len(w.staged) >= maxStaged || w.stagedBytes > conn.MaxUnreadBytes
}

// rejectProtocolError ends a client that does not speak the protocol.
func (w *worker) rejectProtocolError(c *client, err error) {
	var protocol *resp.ProtocolError
	large, reason := errors.As(err, &protocol) && protocol.TooLarge, "protocol error"
	if large {
		w.s.stats.LargeRequests.Add(1)
		reason = "request too large"
	}
	w.s.clients.Log.LogClosed(&c.Conn, reason, "error", err)
	w.replyInOrder(c, nil, func(out *redis.Writer) {
		out.Bytes = resp.AppendError(out.Bytes, "ERR "+err.Error())
		c.Closing, c.Lingering = true, large // here: the client may be another's now
	})
}

// replyInOrder writes a reply that needs no group, behind those that are staged. It may be called
// after the round, so it must not point to anything of that.
func (w *worker) replyInOrder(c *client, spec *redis.Spec, write func(*redis.Writer)) {
	if w.ensureExecuted(c) {
		c.WriteReply(spec, write)
		return
	}
	w.enqueueTask(c, task{run: func(context.Context) { c.WriteReply(spec, write) }})
}

// ensureExecuted executes what a client has staged, and reports whether that is done. If not, the
// client is busy, and what it asks for next goes to its backlog.
func (w *worker) ensureExecuted(c *client) bool {
	w.flushWindow()
	w.flushCounts()
	if c.Staged > 0 {
		w.executeStaged()
		if c.Busy {
			return false
		}
		w.schedulePending()
	}
	return !c.Busy // it may be with rows that are not in memory
}

// beginSingle begins a request that is one command on one key.
func (w *worker) beginSingle(c *client, r redis.Request) {
	key := r.Args[r.Spec.Keys.First]
	if err := command.CheckKey(key); err != nil {
		w.replyInOrder(c, r.Spec, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	if c.Busy {
		w.enqueueRequest(c, r, c.stagedUser)
		return
	}
	at := w.locateKey(c, key)
	switch {
	case at.groupHost == nil:
		w.enqueueRequest(c, r, c.stagedUser) // behind what was refused
	case r.Spec == getSpec && c.Staged == 0:
		w.addGetToWindow(c, key, at)
	case at.groupHost.Group.HasLargeRequest(): // all clients of the worker would wait for it
		w.flushWindow()
		w.enqueueExclusive(c, r, c.stagedUser)
	case r.Spec.Flags&redis.Write != 0 && w.s.node.WriteLimits().Covers(at.row.Position()):
		w.beginThrottled(c, r, at)
	case len(w.window) == 0 && w.isBlindWrite(&r, at.groupHost):
		w.stageSingle(c, r, at)
	default:
		w.addRequestToWindow(c, r, at)
	}
}

// stageSingle stages a request that is one command on one key.
func (w *worker) stageSingle(c *client, r redis.Request, at keyLocation) {
	if cmd := w.buildOrReject(c, &r, at.row); cmd != nil {
		w.stageRequest(c, r, at, cmd)
	}
}

// buildOrReject returns the command that a request is. If it is none, it says why and returns nil.
func (w *worker) buildOrReject(c *client, r *redis.Request, row group.RowKey) command.Command {
	cmd, err := w.buildCommand(r, row)
	if err != nil {
		w.replyInOrder(c, r.Spec, func(out *redis.Writer) { out.Fail(err) })
		return nil
	}
	return cmd
}

// buildCommand returns the command that a request is, and lets the request keep its arguments: both are
// good until the round ends.
func (w *worker) buildCommand(r *redis.Request, row group.RowKey) (command.Command, error) {
	r.Args = w.holdArgs(r.Args)
	w.request = *r
	w.builder = redis.Builder{Request: &w.request, Key: row.Position(), Pool: &w.scratch}
	return r.Spec.Build(&w.builder)
}

// stageRequest adds a command to those of its group.
func (w *worker) stageRequest(c *client, r redis.Request, at keyLocation, cmd command.Command) *stagedRequest {
	return w.stage(at.groupHost, stagedRequest{c: c, request: r, keyspace: c.keyspace, command: cmd, load: at.load},
		group.Request{Command: cmd, Key: at.row.Position(), Gate: newGate(c.keyspace, r.Spec), NonBlocking: true, ReadOnly: r.Spec.Flags&redis.Write == 0})
}

// keyLocation is where a key is by the map of the round: its row key, which is good until the round ends, the group
// that serves it, and what the worker counts of its shard.
type keyLocation struct {
	row group.RowKey
	shardRoute
}

// locateKey returns where a key is. What is staged by an older map is executed before. If the client has to wait for
// that, there is no group.
func (w *worker) locateKey(c *client, key []byte) keyLocation {
	if cap(w.rowKeys)-len(w.rowKeys) < 2*len(key)+16 {
		w.executeStaged()
		if c.Busy {
			return keyLocation{}
		}
		w.schedulePending()
	}
	start := len(w.rowKeys)
	w.rowKeys = c.keyspace.AppendPosition(group.AppendRowKeyPrefix(w.rowKeys), key)
	row := group.RowKey(w.rowKeys[start:len(w.rowKeys):len(w.rowKeys)])
	if m := w.s.node.Map(); w.sharesMap(m) {
		r := w.routeKey(c.keyspace, m, row)
		if r.groupHost == nil { // there is a newer map by now
			return w.locateKey(c, key)
		}
		return keyLocation{row, r}
	}
	w.executeStaged()
	if c.Busy {
		return keyLocation{}
	}
	w.schedulePending()
	return w.locateKey(c, key)
}

// newGate is what must hold of a keyspace when a request is executed.
func newGate(k *node.Keyspace, s *redis.Spec) group.Gate {
	if s.Flags&redis.Write != 0 {
		return node.UnindexedGate{Keyspace: k}
	}
	return k
}
