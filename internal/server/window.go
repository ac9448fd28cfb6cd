package server

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/stats"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
)

// The commands that most requests are.
var getSpec, setSpec = redis.SpecByName("get"), redis.SpecByName("set")

// windowEntry is a request of one command on one key whose row is about to be looked at.
// Invariant: those that wait are of one client, whose requests are taken; all that it asks
// for else comes after them.
type windowEntry struct {
	c    *client
	user *acl.User // the user whose permissions were checked
	keyLocation
	prefetch group.Lookup
	// key is that of a GET that is answered past the queue of its group. It is good until
	// the client's next bytes are taken.
	key []byte
	// command is what is staged for any other request, if the row is known in memory.
	command command.Command
	request redis.Request
}

// addGetToWindow begins a GET. Several are answered together: most of the time of one is waiting
// for memory, and they wait for it together.
func (w *worker) addGetToWindow(c *client, key []byte, at keyLocation) {
	w.windowGets++
	w.addToWindow(windowEntry{c: c, keyLocation: at, key: key})
}

// addRequestToWindow begins another request. Whether its row is in memory is asked for several
// together too.
func (w *worker) addRequestToWindow(c *client, r redis.Request, at keyLocation) {
	cmd := w.buildOrReject(c, &r, at.row)
	if cmd == nil {
		return
	}
	c.Staged++ // until it is staged
	w.addToWindow(windowEntry{c: c, keyLocation: at, command: cmd, request: r})
}

func (w *worker) addToWindow(l windowEntry) {
	l.prefetch, l.user = l.groupHost.Group.NewLookup(l.row), l.c.stagedUser
	if w.window = append(w.window, l); len(w.window) == cap(w.window) {
		w.flushWindow()
	}
}

// flushWindow answers the reads that have begun, and stages the other requests.
func (w *worker) flushWindow() {
	if len(w.window) == 0 {
		return
	}
	timed := w.windowGets > 0 && w.untimedWindows == 0
	var began time.Duration
	if timed {
		w.recordReadTimes() // with the time of the one before
		began = stats.MonotonicNow()
	}
	looks := w.window
	w.window, w.windowGets = w.window[:0], 0
	for i := range looks {
		looks[i].prefetch.PrefetchRow()
	}
	reads := 0
	for i := range looks {
		if l := &looks[i]; l.command != nil {
			w.stageIfInMemory(l)
		} else if w.lookupAndReply(l) {
			reads++
		}
	}
	switch w.unrecordedReads += reads; {
	case timed:
		w.readTime = (stats.MonotonicNow() - began) / time.Duration(len(looks))
		w.untimedWindows = windowsPerTiming - 1
	case reads > 0 && w.untimedWindows > 0:
		w.untimedWindows--
	}
	clear(looks)
}

// windowsPerTiming is of how many looks of a round one is timed, and stands for the others: to ask for the time twice
// takes about as long as to find a row.
const windowsPerTiming = 4

// recordReadTimes notes how long the reads took that were answered.
func (w *worker) recordReadTimes() {
	if w.unrecordedReads > 0 {
		together := w.readTime * time.Duration(w.unrecordedReads)
		w.s.stats.RecordTime(getSpec, w.unrecordedReads, w.readTime, together)
		w.roundReads, w.roundReadTime = w.roundReads+w.unrecordedReads, w.roundReadTime+together
	}
	w.unrecordedReads = 0
}

// flushCounts adds what the worker has counted to the counters of the server, and lets the next look be timed.
func (w *worker) flushCounts() {
	w.calls.Flush()
	w.recordReadTimes()
	w.untimedWindows = 0
	w.flushReadLoad()
}

// stageIfInMemory stages a request if its row is known in memory. If not, the row is brought
// there first, and what the client asks for behind it waits too.
func (w *worker) stageIfInMemory(l *windowEntry) {
	c := l.c
	c.Staged--
	size, known := 0, !c.Busy && w.isBlindWrite(&l.request, l.groupHost)
	if !c.Busy && !known {
		size, known = l.groupHost.Group.LookupSize(l.row)
	}
	if !known {
		w.enqueueRequest(c, l.request, l.user)
		return
	}
	w.stagedBytes += size
	w.stageRequest(c, l.request, l.keyLocation, l.command)
}

// isBlindWrite reports whether a request is executed without a look at the row that it replaces.
func (w *worker) isBlindWrite(r *redis.Request, part *node.GroupHost) bool {
	return r.Spec == setSpec && len(r.Args) == 3 && part.Group.CanSetBlindly()
}

// lookupAndReply answers a read if the row is known in memory. If not, it is left to do, and so are
// those behind this one: see enqueueRequest.
func (w *worker) lookupAndReply(l *windowEntry) (answered bool) {
	c := l.c
	var row command.Row
	found, known := false, false
	// A keyspace that was emptied is another: see runTask. That is asked right before the look, since rows
	// of it that are seen gone come before all that is looked at behind them.
	if !c.Busy && c.keyspace.CheckOpen() == nil {
		row, w.rowBuf, found, known = l.prefetch.Get(w.rowBuf[:0])
	}
	if !known {
		w.enqueueRequest(c, newGetRequest(l.key), l.user)
		return false
	}
	start := len(c.Out.Bytes)
	c.writeGetReply(row, found)
	if cap(w.rowBuf) > conn.MaxRetainedBytes {
		w.rowBuf = nil
	}
	c.FinishReply(getSpec, start)
	bytesIn, bytesOut := getRequestBytes+resp.BulkBytes(len(l.key)), max(0, len(c.Out.Bytes)-start)
	l.load.RecordRead(bytesIn, bytesOut)
	if found && row.Type() != command.String {
		l.load.RecordError()
	}
	if w.s.observesOps.Load() {
		w.s.observeOp(c.keyspace, l.key, w.readTime, load.Op{BytesIn: bytesIn, BytesOut: bytesOut})
	}
	if w.isSampled(bytesIn + bytesOut) {
		w.recordAccess(c, getSpec, l.row.Position(), load.Op{BytesIn: bytesIn, BytesOut: bytesOut}, w.readTime, w.readTime)
	}
	c.NotifyOutput()
	return true
}

// writeGetReply answers a GET.
func (c *client) writeGetReply(row command.Row, found bool) {
	switch {
	case !found:
		c.Out.Null()
	case row.Type() != command.String:
		c.Out.Fail(command.ErrWrongType)
	default:
		c.Out.Bulk(row.Payload)
	}
}

// newGetRequest is the request for a key.
func newGetRequest(key []byte) redis.Request {
	return redis.Request{Spec: getSpec, Args: [][]byte{getArg, key}}
}

var getArg = []byte("GET")

// getRequestBytes is how many bytes a GET has on the wire but for its key.
const getRequestBytes = len("*2\r\n$3\r\nGET\r\n")

// runGet answers a GET, and waits as long as it takes.
func (s *Server) runGet(ctx context.Context, c *client, t *task) {
	start, began := len(c.Out.Bytes), time.Now()
	p := t.keyPosition()
	err := s.withGroup(ctx, p, func(part *node.GroupHost) error {
		s.prefetchRow(ctx, part, p)
		row, found, err := part.Group.Read(ctx, p, nil)
		if err == nil && found && row.Kind == command.Chunked {
			var reply command.Reply // its chunks are rows too: they are read of one moment
			if reply, err = s.readSnapshot(ctx, t.keyspace, p, &command.Get{Key: p}); err == nil {
				found, row = reply.Kind == command.Bytes, command.Row{Kind: command.String, Payload: reply.Bytes}
			}
		}
		if err == nil {
			c.writeGetReply(row, found)
		}
		return err
	})
	if err != nil {
		c.Out.Fail(err)
	}
	c.recordTask(t, p, c.finishOp(getSpec, start), began)
}

// replyReadRow answers a GET of a row that was read.
func (c *client) replyReadRow(t *task) {
	start := len(c.Out.Bytes)
	c.writeGetReply(t.readRow.Row, t.readRow.Found)
	c.recordReadTask(t, c.finishOp(getSpec, start))
}
