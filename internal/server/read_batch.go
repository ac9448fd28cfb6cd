package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
)

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

// readBatch is a way to the disk for some clients: it brings what all of them want.
type readBatch struct {
	stores  []storeReads
	rowKeys []byte // what the row keys are made of
}

// storeReads is what is wanted of a store, whichever of its groups serve it: rows in memory, and rows that are to be
// read. Each time that a store is asked costs as much as some rows.
type storeReads struct {
	store        *store.Store
	prefetchRows [][]byte
	readTasks    []*task // of reads
	rows         group.RowBuffer
}

// readBatchPool are those that have ended, to be used again.
var readBatchPool = sync.Pool{New: func() any { return new(readBatch) }}

// maxPooledKeyBytes is for how many bytes of row keys, and maxPooledStores for how many stores, memory is used
// again.
const maxPooledKeyBytes, maxPooledStores = 64 << 10, 8

// maxBatchTasks is the maximum of requests of a client in one batch. The others go into another batch: no client
// waits for all that others want, and those that have left want nothing more.
const maxBatchTasks = 64

// planReadBatch returns the trip for some clients. Reads in front are to be read, and the rows of
// other requests to be in memory.
func (s *Server) planReadBatch(clients []*client) *readBatch {
	t := readBatchPool.Get().(*readBatch)
	for _, c := range clients {
		front, tasks := true, c.backlog.remaining()
		tasks = tasks[:min(len(tasks), maxBatchTasks)]
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
			m, shard, part := s.node.Locate(row.Position())
			w := t.forStore(part.Store)
			if front {
				a.readMap, a.readShard = m, shard
				w.rows.Add(part.Group, row)
				w.readTasks = append(w.readTasks, a)
			} else {
				w.prefetchRows = append(w.prefetchRows, row)
			}
		}
	}
	return t
}

// forStore is what is wanted of a store.
func (t *readBatch) forStore(of *store.Store) *storeReads {
	for i := range t.stores {
		if t.stores[i].store == of {
			return &t.stores[i]
		}
	}
	if n := len(t.stores); n < cap(t.stores) {
		t.stores = t.stores[:n+1] // with the memory of one that has ended
	} else {
		t.stores = append(t.stores, storeReads{})
	}
	w := &t.stores[len(t.stores)-1]
	w.store = of
	return w
}

// fetchRows reads what is to be read: all of it, or what needs no wait for a disk.
func (t *readBatch) fetchRows(ctx context.Context, nonBlocking bool) {
	for i := range t.stores {
		w := &t.stores[i]
		began := time.Now()
		w.rows.Read(ctx, nonBlocking)
		share := time.Since(began) / time.Duration(max(1, len(w.readTasks)))
		for i, a := range w.readTasks {
			a.readRow, a.readTime = &w.rows.Rows[i], share
		}
	}
}

// returnToPool lets the memory be used again: nothing that was read is looked at any more.
func (t *readBatch) returnToPool() {
	if cap(t.rowKeys) > maxPooledKeyBytes || cap(t.stores) > maxPooledStores {
		return
	}
	for i := range t.stores {
		w := &t.stores[i]
		clear(w.prefetchRows)
		clear(w.readTasks)
		w.rows.Reset()
		w.store, w.prefetchRows, w.readTasks = nil, w.prefetchRows[:0], w.readTasks[:0]
	}
	t.stores, t.rowKeys = t.stores[:0], t.rowKeys[:0]
	readBatchPool.Put(t)
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

// prefetchRows brings rows of a store into memory.
func prefetchRows(ctx context.Context, of *store.Store, rows [][]byte) {
	for some := range slices.Chunk(rows, maxShareRows) {
		if ctx.Err() == nil {
			of.Prefetch(some...)
		}
	}
}
