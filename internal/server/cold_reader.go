package server

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/internal/node"
)

const (
	// maxInlineRows is how many rows, or few more, the worker reads by itself at once while storage is fast: to give
	// them to another thread takes half as much time again, and more would hold up those whose rows are known.
	maxInlineRows = 64
	// maxColdReaders is how many goroutines read at once if there is a disk to wait for: it serves many at once.
	// While storage is fast they do not wait, and there are as many as processors.
	maxColdReaders = 64
	// maxShareRows is how many rows a goroutine reads at a time: together they cost less than one by one, and the
	// clients that wait for these go on while it reads others.
	maxShareRows = 64
)

// coldReader reads rows that are not in memory for clients, on a bounded number of goroutines. Clients are served in
// the order in which they came.
type coldReader struct {
	s *Server

	mu      sync.Mutex
	queue   []*client
	tasks   int // that those have left to do
	readers int
}

// enqueue lets clients wait for their rows.
func (r *coldReader) enqueue(clients []*client) {
	if len(clients) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.tasks = append(r.queue, clients...), r.tasks+countTasks(clients)
	for range min(len(r.queue), r.maxReaders()) - r.readers {
		r.readers++
		r.s.running.Go(r.run)
	}
}

// maxReaders is how many goroutines may read now.
func (r *coldReader) maxReaders() int {
	if r.s.isStorageFast() {
		return runtime.GOMAXPROCS(0)
	}
	return maxColdReaders
}

// run reads for clients as long as there are any.
func (r *coldReader) run() {
	for {
		share := r.takeShare()
		if share == nil {
			return
		}
		r.s.runBacklogs(r.s.ctx, share)
	}
}

// takeShare takes some clients from the queue: those whose rows are a share of all, or one client. If there are none
// the reader ends.
func (r *coldReader) takeShare() (share []*client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := min(r.tasks/r.maxReaders(), maxShareRows)
	n, rows := 0, 0
	for n < len(r.queue) {
		more := len(r.queue[n].backlog.remaining())
		if n > 0 && rows+more > most {
			break
		}
		n, rows = n+1, rows+more
	}
	if n == 0 {
		r.queue, r.readers = nil, r.readers-1
		return nil
	}
	share, r.queue, r.tasks = r.queue[:n:n], r.queue[n:], r.tasks-rows
	return share
}

// countTasks returns how much clients have left to do.
func countTasks(clients []*client) (tasks int) {
	for _, c := range clients {
		tasks += len(c.backlog.remaining())
	}
	return tasks
}

// schedulePending schedules the clients that have something left to do: each on a goroutine of its own, with the
// cold reader, or with the worker itself, which reads their rows now.
func (w *worker) schedulePending() {
	if len(w.pending) == 0 {
		return
	}
	exclusive, cold := w.splitPending()
	for _, c := range exclusive {
		w.s.running.Go(func() {
			w.s.waitForTurns(w.s.ctx, c.backlog.remaining())
			w.s.runBacklogs(w.s.ctx, []*client{c})
		})
	}
	if len(w.inlineClients) > 0 {
		cold = append(cold, w.s.readFast(w.inlineClients)...)
		clear(w.inlineClients)
	}
	w.s.coldReader.enqueue(cold)
}

// splitPending decides where the clients with something left to do go on. w.inlineClients stay with the worker, as
// long as few rows are to be read and storage is fast.
func (w *worker) splitPending() (exclusive, cold []*client) {
	w.inlineClients = w.inlineClients[:0]
	inlineRoom, fast := maxInlineRows, w.s.isStorageFast()
	w.pending = slices.DeleteFunc(w.pending, func(c *client) bool {
		if c.Staged > 0 {
			return false // what it has staged comes first
		}
		c.backlog.refused, c.backlog.prefetchedTo = 0, 0
		switch tasks := c.backlog.remaining(); {
		case needsExclusive(tasks) || w.s.isThrottled(tasks):
			// It may wait for a lock or its turn, which must delay no other request. And it leaves now: what it asks for next
			// may depend on this.
			c.SendOutput()
			exclusive = append(exclusive, c)
		case fast && inlineRoom > 0 && len(tasks) <= maxInlineRows && tasks[0].isGet():
			w.inlineClients, inlineRoom = append(w.inlineClients, c), inlineRoom-len(tasks)
		default:
			c.SendOutput()
			cold = append(cold, c)
		}
		c.AccountMemory()
		c.Status.UnreadSinceMS.Store(0) // nothing is written until it is back
		c.HandedOff = true
		return true
	})
	return exclusive, cold
}

// isStorageFast reports whether no disk was slow of late.
func (s *Server) isStorageFast() bool {
	return !slices.ContainsFunc(s.node.StoreHosts(), func(h *node.StoreHost) bool { return !h.Store.IsStorageFast() })
}

// readFast answers those of the clients whose rows are in memory or on fast storage, and returns the others, at the front of
// the list.
func (s *Server) readFast(clients []*client) (slow []*client) {
	t := s.planReadBatch(clients)
	defer t.returnToPool()
	t.fetchRows(s.ctx, true)
	return slices.DeleteFunc(clients, func(c *client) bool {
		if !c.replyReadRows() {
			return false
		}
		c.Resume()
		return true
	})
}

// runBacklogs reads what some clients need together, runs what is left of each (runBacklog: transactions
// and other requests that wait), and resumes them.
func (s *Server) runBacklogs(ctx context.Context, clients []*client) {
	t := s.planReadBatch(clients)
	defer t.returnToPool()
	for i := range t.stores {
		prefetchRows(ctx, t.stores[i].store, t.stores[i].prefetchRows)
	}
	t.fetchRows(ctx, false)
	for _, c := range clients {
		s.prefetchRefused(ctx, c)
		s.runBacklog(ctx, c)
		c.Resume()
	}
}
