package server

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/storage/pages"
)

func init() {
	registerHandlers(map[string]func(*call){
		"memory|doctor": handleMemoryDoctor,
		"memory|help": newHelpHandler("MEMORY", "DOCTOR", "    Return memory problems reports.", "STATS", "    Return information about the memory usage of the server.",
			"USAGE <key> [SAMPLES <count>]", "    Return memory in bytes used by <key> and its value."),
	})
	registerBlockingHandlers(map[string]func(*call){"memory|stats": handleMemoryStats})
}

func handleMemoryStats(t *call) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h := t.s.measureMemory()
	replyMap{
		{"total.allocated", m.HeapAlloc}, {"heap.system", m.Sys}, {"heap.garbage-collections", uint64(m.NumGC)},
		{"store.rows", h.rows}, {"store.blocks", h.blocks}, {"store.unflushed", h.unflushed}, {"store.log", h.log}, {"store.tables", h.tables},
		{"store.in-memory", h.inMemoryBytes(t.s.opts.Memory)}, {"clients.count", t.s.clients.Len()},
	}.writeReply(t.out)
}

func handleMemoryDoctor(t *call) {
	if t.s.memory.overLimit.Load() {
		t.out.Verbatim(fmt.Sprintf("The store takes %s, and maxmemory is %s: what needs memory is refused. Delete keys, or raise maxmemory.\n",
			formatBytes(uint64(t.s.memory.usedBytes.Load())), formatBytes(uint64(t.s.memory.limitBytes.Load()))))
		return
	}
	t.out.Verbatim("Nothing is known to be wrong: see INFO memory and MEMORY STATS.\n")
}

func infoMemory(s *Server, b *strings.Builder) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h := s.measureMemory()
	used := m.HeapAlloc + uint64(pages.MappedBytes())
	if s.opts.Memory {
		used = uint64(h.inMemoryBytes(true)) // what maxmemory is about
	}
	limit := s.config.Get("maxmemory")
	n, _ := strconv.ParseUint(limit, 10, 64) // it is a number: see config.set
	writeInfoLines(b, "used_memory", used, "used_memory_human", formatBytes(used), "used_memory_rss", m.Sys+uint64(pages.MappedBytes()), "heap_bytes", m.HeapAlloc,
		"row_cache_bytes", h.rows, "block_cache_bytes", h.blocks, "unflushed_bytes", h.unflushed, "log_bytes", h.log, "table_bytes", h.tables,
		"maxmemory", limit, "maxmemory_human", formatBytes(n), "maxmemory_policy", "noeviction")
}
