package serve

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

func init() {
	handle(map[string]func(*turn){
		"memory|doctor": memoryDoctor,
		"memory|help": help("MEMORY", "DOCTOR", "    Return memory problems reports.", "STATS", "    Return information about the memory usage of the server.",
			"USAGE <key> [SAMPLES <count>]", "    Return memory in bytes used by <key> and its value."),
	})
	handleSlow(map[string]func(*turn){"memory|stats": memoryStats})
}

// memory is how much a store in memory may take, and takes.
//
// It is looked at some times a second, and not at each write: a burst may pass the limit by
// what it writes in between.
type memory struct {
	limit, used atomic.Int64
	// over tells that what needs memory is refused, and tidying that room is looked for.
	over, tidying atomic.Bool
}

// memoryEvery is how often a store with a limit is looked at.
const memoryEvery = 50 * time.Millisecond

// tidyEvery is how long a store is left alone after its room was looked for.
const tidyEvery = time.Second

// errOOM is what Redis says.
const errOOM = redis.Error("OOM command not allowed when used memory > 'maxmemory'.")

// holdings are the parts of what the stores hold in memory, in bytes.
type holdings struct {
	rows, blocks, unflushed int64
	// log and tables are in memory if the store is.
	log, tables int64
}

// holdings measures.
func (s *Server) holdings() (h holdings) {
	for _, host := range s.node.Hosts() {
		m := host.Store.Metrics()
		h.rows += m.Cache.Bytes
		h.blocks += m.BlockCacheBytes
		h.unflushed += int64(m.MemTableBytes)
		h.log += m.Log.LogBytes
		h.tables += m.TableBytes
	}
	return h
}

// used is what of it is in memory.
func (h holdings) used(inMemory bool) int64 {
	n := h.rows + h.blocks + h.unflushed
	if inMemory {
		n += h.log + h.tables
	}
	return n
}

// lookAtMemory measures what a store in memory takes, and says whether writes go on.
func (s *Server) lookAtMemory() {
	limit := s.memory.limit.Load()
	if !s.opts.Memory || limit == 0 {
		s.memory.over.Store(false)
		return
	}
	used := s.holdings().used(true)
	s.memory.used.Store(used)
	s.memory.over.Store(used > limit)
}

// tidy gives back the room of what was deleted, in the background. While writes are refused
// nothing else would. A store to which nothing was written since has nothing to give.
func (s *Server) tidy(tidied map[*store.Store]wal.Position) {
	if !s.memory.over.Load() || !s.memory.tidying.CompareAndSwap(false, true) {
		return
	}
	var todo []*store.Store
	for _, h := range s.node.Hosts() {
		if at := h.Store.Position(); tidied[h.Store] != at {
			tidied[h.Store] = at
			todo = append(todo, h.Store)
		}
	}
	s.running.Go(func() {
		defer s.memory.tidying.Store(false)
		for _, st := range todo {
			if err := st.Tidy(s.ctx); err != nil && s.ctx.Err() == nil {
				s.opts.Log.Warn("look for memory that deletes have left", "error", err)
			}
		}
		s.lookAtMemory()
		select {
		case <-time.After(tidyEvery): // it costs more than what one delete leaves
		case <-s.ctx.Done():
		}
	})
}

// watchMemory looks until the server is closed.
func (s *Server) watchMemory() {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	tidied := map[*store.Store]wal.Position{}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.lookAtMemory()
			s.tidy(tidied)
		}
	}
}

func memoryStats(t *turn) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h := t.s.holdings()
	facts{
		{"total.allocated", m.HeapAlloc}, {"heap.system", m.Sys}, {"heap.garbage-collections", uint64(m.NumGC)},
		{"store.rows", h.rows}, {"store.blocks", h.blocks}, {"store.unflushed", h.unflushed}, {"store.log", h.log}, {"store.tables", h.tables},
		{"store.in-memory", h.used(t.s.opts.Memory)}, {"clients.count", t.s.clients.len()},
	}.write(t.out)
}

func memoryDoctor(t *turn) {
	if t.s.memory.over.Load() {
		t.out.Verbatim(fmt.Sprintf("The store takes %s, and maxmemory is %s: what needs memory is refused. Delete keys, or raise maxmemory.\n",
			human(uint64(t.s.memory.used.Load())), human(uint64(t.s.memory.limit.Load()))))
		return
	}
	t.out.Verbatim("Nothing is known to be wrong: see INFO memory and MEMORY STATS.\n")
}

func infoMemory(s *Server, b *strings.Builder) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h := s.holdings()
	used := m.HeapAlloc
	if s.opts.Memory {
		used = uint64(h.used(true)) // what maxmemory is about
	}
	limit := s.config.get("maxmemory")
	n, _ := strconv.ParseUint(limit, 10, 64) // it is a number: see config.set
	lines(b, "used_memory", used, "used_memory_human", human(used), "used_memory_rss", m.Sys, "heap_bytes", m.HeapAlloc,
		"row_cache_bytes", h.rows, "block_cache_bytes", h.blocks, "unflushed_bytes", h.unflushed, "log_bytes", h.log, "table_bytes", h.tables,
		"maxmemory", limit, "maxmemory_human", human(n), "maxmemory_policy", "noeviction")
}
