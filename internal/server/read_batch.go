package server

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/group"
)

const (
	// maxInlineRows is how many rows, or few more, the worker reads by itself at once if their
	// blocks are in memory: to give them to another thread takes half as much time again,
	// and more would hold up those whose rows are known.
	maxInlineRows = 64
	// minHelperRows is how many rows a goroutine beside the worker is given if there are more of
	// them; of very many it is given a half.
	minHelperRows = 128
	// fastPoolReaders is how many goroutines bring the rows of some clients, and fastPoolRows how many
	// rows each brings at a time: the clients that wait for these go on while it brings
	// others. As long as rows are near, waking more costs more than it gains.
	fastPoolReaders, fastPoolRows = 4, 64
	// slowPoolReaders and slowPoolRows are the same if there is a disk to wait for: it reads many at
	// once.
	slowPoolReaders, slowPoolRows = 64, 16
)

// schedulePending schedules the clients that have something left to do. The worker reads rows for some,
// goroutines beside it for others if there are many, and those that are left come with
// the next round. Whatever has to wait for a disk goes to goroutines at once.
func (w *worker) schedulePending() {
	w.hasOverflow = false
	if len(w.pending) == 0 {
		return
	}
	exclusive, pooled, helped := w.splitPending()
	for _, c := range exclusive {
		w.s.running.Go(func() {
			sleepContext(w.s.ctx, w.s.throttleTime(c.backlog.remaining()))
			w.s.runBacklogs(w.s.ctx, []*client{c})
		})
	}
	w.s.scheduleOnPool(pooled)
	if len(helped) > 0 {
		w.helpers.Add(1)
		w.s.running.Go(func() {
			defer w.helpers.Add(-1)
			w.s.readAsHelper(helped)
		})
	}
	if len(w.inlineClients) > 0 {
		slow := w.s.readFast(w.inlineClients)
		w.hasResumed = w.hasResumed || len(slow) < len(w.inlineClients)
		w.s.scheduleOnPool(slices.Clone(slow)) // w.inlineClients is used again
		clear(w.inlineClients)
	}
}

// splitPending decides where the clients with something left to do go on: each on a goroutine of its own,
// some goroutines for all of them, one beside the worker, or the worker itself: w.inlineClients. Those that
// stay with the worker remain in w.pending.
func (w *worker) splitPending() (exclusive, pooled, helped []*client) {
	w.inlineClients = w.inlineClients[:0]
	inlineRoom, helperRoom, fast := maxInlineRows, w.planHelperRows(), w.s.isStorageFast()
	w.pending = slices.DeleteFunc(w.pending, func(c *client) bool {
		if c.Staged > 0 {
			return false // what it has staged comes first
		}
		c.mergeRefused()
		switch tasks := c.backlog.remaining(); {
		case needsExclusive(tasks) || w.s.throttleTime(tasks) > 0:
			// It may wait for a lock, which must delay no other request. And it leaves now: what it asks for next
			// may depend on this.
			c.SendOutput()
			exclusive = append(exclusive, c)
		case !fast || !c.canReadInline():
			c.SendOutput()
			pooled = append(pooled, c)
		case inlineRoom > 0:
			w.inlineClients, inlineRoom = append(w.inlineClients, c), inlineRoom-len(tasks)
		case helperRoom > 0:
			helped, helperRoom = append(helped, c), helperRoom-len(tasks)
		default:
			w.hasOverflow = true
			return false
		}
		c.AccountMemory()
		c.Status.UnreadSinceMS.Store(0) // nothing is written until it is back
		c.HandedOff = true
		return true
	})
	return exclusive, pooled, helped
}

// canReadInline reports whether it may be that what a client has left to do is done without a disk.
func (c *client) canReadInline() bool {
	tasks := c.backlog.remaining()
	return len(tasks) <= maxInlineRows && tasks[0].isGet()
}

// planHelperRows is how many rows a goroutine beside the worker is to read now.
func (w *worker) planHelperRows() int {
	if w.helpers.Load() >= w.maxHelpers {
		return 0
	}
	tasks := countTasks(w.pending)
	if tasks <= maxInlineRows {
		return 0
	}
	return max(minHelperRows, (tasks-maxInlineRows)/2)
}

// isStorageFast reports whether no disk was slow of late.
func (s *Server) isStorageFast() bool {
	return !slices.ContainsFunc(s.node.StoreHosts(), func(h *node.StoreHost) bool { return !h.Store.IsStorageFast() })
}

// readAsHelper reads for clients beside the worker, and gives them to others if there is a disk to
// wait for.
func (s *Server) readAsHelper(clients []*client) {
	for len(clients) > 0 {
		share := splitClients(clients, fastPoolRows)[0]
		clients = clients[len(share):]
		switch slow := s.readFast(share); {
		case !s.isStorageFast():
			s.scheduleOnPool(slices.Concat(slow, clients))
			return
		case len(slow) > 0:
			s.runBacklogs(s.ctx, slow)
		}
	}
}

// scheduleOnPool gives clients that have something left to do to some goroutines.
func (s *Server) scheduleOnPool(clients []*client) {
	hands, share := fastPoolReaders, fastPoolRows
	if !s.isStorageFast() {
		hands, share = slowPoolReaders, slowPoolRows
	}
	shares := splitClients(clients, min(max(1, (countTasks(clients)+hands-1)/hands), share))
	var next atomic.Int64
	for range min(len(shares), hands) {
		s.running.Go(func() {
			for i := next.Add(1); i <= int64(len(shares)); i = next.Add(1) {
				s.runBacklogs(s.ctx, shares[i-1])
			}
		})
	}
}

// readFast answers those of the clients whose rows are in memory or on fast storage, and returns the others, at the front of
// the list.
func (s *Server) readFast(clients []*client) (slow []*client) {
	t := s.planReadBatch(clients)
	defer t.returnToPool()
	t.fetchRows(s.ctx, (*group.Group).ReadManyNonBlocking)
	return slices.DeleteFunc(clients, func(c *client) bool {
		if !c.replyReadRows() {
			return false
		}
		c.Resume()
		return true
	})
}

// replyReadRows answers the reads of a client in their order as long as they are
// known, and reports whether nothing is left to do.
func (c *client) replyReadRows() bool {
	b, began := c.backlog, c.backlog.done
	for first := true; len(b.remaining()) > 0; first = false {
		t := &b.remaining()[0]
		if !t.isReadCurrent(first) || len(c.Out.Bytes) > conn.MaxUnreadBytes || c.account.User() != t.user {
			break
		}
		c.replyReadRow(t)
		b.done++
	}
	if b.done == began {
		b.discardReads()
		return false
	}
	c.finishBacklogRun(began)
	return c.backlog == nil
}

// countTasks returns how much clients have left to do.
func countTasks(clients []*client) (tasks int) {
	for _, c := range clients {
		tasks += len(c.backlog.remaining())
	}
	return tasks
}

// splitClients divides clients: each share has so many tasks at most, or is one client.
func splitClients(clients []*client, most int) (shares [][]*client) {
	start, have := 0, 0
	for i, c := range clients {
		n := len(c.backlog.remaining())
		if i > start && have+n > most {
			shares = append(shares, clients[start:i])
			start, have = i, 0
		}
		have += n
	}
	if start < len(clients) {
		shares = append(shares, clients[start:])
	}
	return shares
}

// maxThrottleTime is how long a client is held up at most, for all that it has sent at once.
const maxThrottleTime = 200 * time.Millisecond

// throttleTime is for how long a client is held up whose requests write to a range that is moved:
// for each of them as long as one that comes alone.
func (s *Server) throttleTime(tasks []task) (sum time.Duration) {
	var room []byte
	for i := range tasks {
		if t := &tasks[i]; t.isStageable() && t.request.Spec.Flags&redis.Write != 0 {
			room = t.keyspace.AppendPosition(room[:0], t.request.Args[t.request.Spec.Keys.First])
			sum += s.node.GroupHostAt(room).Group.WriteDelay(room)
		}
	}
	return min(sum, maxThrottleTime)
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

// readBatch is a way to the disk for some clients: it brings what all of them want.
type readBatch struct {
	groups  []groupReads
	rowKeys []byte // what the row keys are made of
}

// groupReads is what is wanted of a group: rows in memory, and rows that are to be read.
type groupReads struct {
	groupHost              *node.GroupHost
	prefetchRows, readRows [][]byte
	readTasks              []*task // of reads
	results                group.RowBuffer
}

// readBatchPool are those that have ended, to be used again.
var readBatchPool = sync.Pool{New: func() any { return new(readBatch) }}

// maxPooledKeyBytes is for how many bytes of row keys, and maxPooledGroups for how many groups, memory is used
// again.
const maxPooledKeyBytes, maxPooledGroups = 64 << 10, 8

// maxBatchTasks is the maximum of requests of a client in one batch, and maxSlowBatchTasks that with a disk to wait
// for. The others go into another batch: no client waits for all that others want, and those that
// have left want nothing more.
const maxBatchTasks, maxSlowBatchTasks = 256, 32

// planReadBatch returns the trip for some clients. Reads in front are to be read, and the rows of
// other requests to be in memory.
func (s *Server) planReadBatch(clients []*client) *readBatch {
	t := readBatchPool.Get().(*readBatch)
	most := maxBatchTasks
	if !s.isStorageFast() {
		most = maxSlowBatchTasks
	}
	for _, c := range clients {
		front, tasks := true, c.backlog.remaining()
		tasks = tasks[:min(len(tasks), most)]
		c.backlog.prefetchedTo = c.backlog.done + len(tasks)
		for i := range tasks {
			a := &tasks[i]
			front = front && a.isGet()
			if !a.isStageable() {
				continue // it looks for itself
			}
			start := len(t.rowKeys)
			t.rowKeys = a.appendRowKey(t.rowKeys) // if it grows, the others stay where they are
			row := group.RowKey(t.rowKeys[start:len(t.rowKeys):len(t.rowKeys)])
			w := t.forGroup(s.node.GroupHostAt(row.Position()))
			if front {
				w.readRows, w.readTasks = append(w.readRows, row), append(w.readTasks, a)
			} else {
				w.prefetchRows = append(w.prefetchRows, row)
			}
		}
	}
	return t
}

// forGroup is what is wanted of a group.
func (t *readBatch) forGroup(part *node.GroupHost) *groupReads {
	for i := range t.groups {
		if t.groups[i].groupHost == part {
			return &t.groups[i]
		}
	}
	if n := len(t.groups); n < cap(t.groups) {
		t.groups = t.groups[:n+1] // with the memory of one that has ended
	} else {
		t.groups = append(t.groups, groupReads{})
	}
	w := &t.groups[len(t.groups)-1]
	w.groupHost = part
	return w
}

// fetchRows reads what is to be read.
func (t *readBatch) fetchRows(ctx context.Context, by func(*group.Group, context.Context, *group.RowBuffer, [][]byte)) {
	for i := range t.groups {
		w := &t.groups[i]
		by(w.groupHost.Group, ctx, &w.results, w.readRows)
		for i, a := range w.readTasks {
			a.readRow = &w.results.Rows[i]
		}
	}
}

// returnToPool lets the memory be used again: nothing that was read is looked at any more.
func (t *readBatch) returnToPool() {
	if cap(t.rowKeys) > maxPooledKeyBytes || cap(t.groups) > maxPooledGroups {
		return
	}
	for i := range t.groups {
		w := &t.groups[i]
		clear(w.prefetchRows)
		clear(w.readRows)
		clear(w.readTasks)
		w.groupHost, w.prefetchRows, w.readRows, w.readTasks = nil, w.prefetchRows[:0], w.readRows[:0], w.readTasks[:0]
	}
	t.groups, t.rowKeys = t.groups[:0], t.rowKeys[:0]
	readBatchPool.Put(t)
}

// runBacklogs reads what some clients need together, runs what is left of each (runBacklog: transactions
// and other requests that wait), and resumes them.
func (s *Server) runBacklogs(ctx context.Context, clients []*client) {
	t := s.planReadBatch(clients)
	defer t.returnToPool()
	for i := range t.groups {
		s.prefetchRows(ctx, t.groups[i].groupHost, t.groups[i].prefetchRows)
	}
	t.fetchRows(ctx, (*group.Group).ReadMany)
	for _, c := range clients {
		s.prefetchRefused(ctx, c)
		s.runBacklog(ctx, c)
		c.Resume()
	}
}

// prefetchRefused brings into memory what requests of a client need that were refused for that.
func (s *Server) prefetchRefused(ctx context.Context, c *client) {
	tasks := c.backlog.tasks[c.backlog.done:c.backlog.prefetchedTo]
	for i := range tasks {
		t := &tasks[i]
		if t.refusals == 0 || !t.isStageable() || ctx.Err() != nil || c.Disconnected.Load() {
			continue
		}
		p := t.keyPosition()
		if cmd, err := t.buildCommand(p); err == nil {
			s.node.GroupHostAt(p).Group.PrefetchCommand(cmd)
		}
	}
}

// prefetchRows brings rows of a part into memory.
func (s *Server) prefetchRows(ctx context.Context, part *node.GroupHost, rows [][]byte) {
	for some := range slices.Chunk(rows, fastPoolRows) {
		if ctx.Err() == nil {
			part.Group.PrefetchRows(some...)
		}
	}
}
