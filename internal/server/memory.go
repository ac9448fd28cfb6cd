package server

import (
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// memory is how much a store in memory may take, and takes.
//
// It is looked at some times a second, and not at each write: a burst may pass the limit by
// what it writes in between.
type memory struct {
	limitBytes, usedBytes atomic.Int64
	// overLimit reports whether what needs memory is refused, and reclaiming whether room is looked for.
	overLimit, reclaiming atomic.Bool
}

// memoryCheckInterval is how often a store with a limit is looked at.
const memoryCheckInterval = 50 * time.Millisecond

// reclaimInterval is how long a store is left alone after its room was looked for.
const reclaimInterval = time.Second

// errOOM is what Redis says.
const errOOM = redis.Error("OOM command not allowed when used memory > 'maxmemory'.")

// memoryUsage are the parts of what the stores hold in memory, in bytes.
type memoryUsage struct {
	rows, blocks, unflushed int64
	// log and tables are in memory if the store is.
	log, tables int64
}

// measureMemory measures.
func (s *Server) measureMemory() (h memoryUsage) {
	for _, host := range s.node.StoreHosts() {
		m := host.Store.Metrics()
		h.rows += m.Cache.Bytes
		h.blocks += m.BlockCacheBytes
		h.unflushed += int64(m.MemTableBytes)
		h.log += m.Log.LogBytes
		h.tables += m.TableBytes
	}
	return h
}

// inMemoryBytes is what of it is in memory.
func (h memoryUsage) inMemoryBytes(inMemory bool) int64 {
	n := h.rows + h.blocks + h.unflushed
	if inMemory {
		n += h.log + h.tables
	}
	return n
}

// updateMemory measures what a store in memory takes, and says whether writes go on.
func (s *Server) updateMemory() {
	limit := s.memory.limitBytes.Load()
	if !s.opts.Memory || limit == 0 {
		s.memory.overLimit.Store(false)
		return
	}
	used := s.measureMemory().inMemoryBytes(true)
	s.memory.usedBytes.Store(used)
	s.memory.overLimit.Store(used > limit)
}

// reclaimMemory gives back the room of what was deleted, in the background. While writes are refused
// nothing else would. A store to which nothing was written since has nothing to give.
func (s *Server) reclaimMemory(tidied map[*store.Store]wal.Position) {
	if !s.memory.overLimit.Load() || !s.memory.reclaiming.CompareAndSwap(false, true) {
		return
	}
	var todo []*store.Store
	for _, h := range s.node.StoreHosts() {
		if at := h.Store.Position(); tidied[h.Store] != at {
			tidied[h.Store] = at
			todo = append(todo, h.Store)
		}
	}
	s.running.Go(func() {
		defer s.memory.reclaiming.Store(false)
		for _, st := range todo {
			if err := st.Compact(s.ctx); err != nil && s.ctx.Err() == nil {
				s.opts.Log.Warn("look for memory that deletes have left", "error", err)
			}
		}
		s.updateMemory()
		select {
		case <-time.After(reclaimInterval): // it costs more than what one delete leaves
		case <-s.ctx.Done():
		}
	})
}

// watchMemory looks until the server is closed.
func (s *Server) watchMemory() {
	tick := time.NewTicker(memoryCheckInterval)
	defer tick.Stop()
	tidied := map[*store.Store]wal.Position{}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.updateMemory()
			s.reclaimMemory(tidied)
		}
	}
}
