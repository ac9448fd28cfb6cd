package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/memlimit"
	"github.com/cleavekv/cleave/internal/ops/config"
)

const (
	// maxCacheBytes is the memory for rows of a store on a machine that has enough of it: twice as much
	// needs a setting. minCacheBytes is that on one that has little.
	maxCacheBytes = 512 << 20
	minCacheBytes = 4 << 20
	// cacheDivisor is the part of the memory that is for rows, without reservedMemory, or minCacheDivisor that of
	// all of it. Blocks of tables take half as much, and what waits for the tables up to half again; the
	// rest is for clients, garbage and the pages of files. What is reserved is what one request may take
	// on its way, a MULTI of 50,000 keys or a value of 50 MB, whatever memory there is.
	cacheDivisor    = 4
	minCacheDivisor = 16
	reservedMemory  = 256 << 20
	// maxMemoryBlockCache and maxMemoryFeed are, of each store in memory, the memory for blocks of its tables
	// and for the feed, as they are in package cleave.
	maxMemoryBlockCache = 16 << 20
	maxMemoryFeed       = 8 << 20
	// heapLimitPercent is the part of a cgroup's memory, in percent, above which garbage is collected
	// whatever that costs: the rest is for what is not on the heap.
	heapLimitPercent = 80
	// maxClientMemory is the default of maxmemory-clients, and minClientMemory what is enough for the largest
	// request.
	maxClientMemory = 1 << 30
	minClientMemory = 128 << 20
)

// computeCacheSizes returns how much memory the rows and the blocks of each store may take: what is set,
// or a part of what the process may take, if that is known.
func computeCacheSizes(c *config.Config, memory int64) (rows, blocks int64) {
	rows, blocks = c.Number("cache-mib")<<20, c.Number("block-cache-mib")<<20
	share := int64(maxCacheBytes)
	if memory > 0 {
		share = max(minCacheBytes, min(maxCacheBytes, max((memory-reservedMemory)/cacheDivisor, memory/minCacheDivisor)/max(1, c.Number("stores"))))
	}
	if rows == 0 {
		rows = share
	}
	if blocks == 0 {
		blocks = share / 2
	}
	return rows, blocks
}

// limitHeap makes the collector keep the heap below the limit of the cgroup, unless GOMEMLIMIT does.
func limitHeap(c *config.Config, l memlimit.Limit) {
	if l.Cgroup > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(computeHeapLimit(c, l.Bytes()))
	}
}

// computeHeapLimit returns what is left of so much memory for the heap: the rows of the stores, with the
// quarter by which they may pass their limit, are not on it, nor is anything that a store in memory has.
func computeHeapLimit(c *config.Config, memory int64) int64 {
	rows, _ := computeCacheSizes(c, memory)
	elsewhere := rows / 4 * 5 * max(1, c.Number("stores"))
	if stored := computeMaxMemory(c, memory); stored > 0 {
		elsewhere = stored
	}
	most := memory / 100 * heapLimitPercent
	return max(most-elsewhere, most/2)
}

const (
	// fixedMemory is what a server takes beside a store in memory, whatever is in it: the program, the
	// buffers of its loops, and minGarbageBytes.
	fixedMemory = 128 << 20
	// storedPercent is the part of the rest, in percent, that a store in memory may fill. What it takes
	// above that, while tables are merged for example, is up to half of it.
	storedPercent = 60
	// minStoredDivisor is the part of the memory that it may fill where there is hardly any.
	minStoredDivisor = 4
)

// computeMaxMemory returns how much the stores in memory may take, in a process that may take so much:
// what is set, or what leaves enough for the rest. It is 0 if there is no limit, or no store in memory.
func computeMaxMemory(c *config.Config, memory int64) int64 {
	most := c.Number("maxmemory")
	switch {
	case c.Text("storage") != "memory":
		return 0
	case most > 0 || memory <= 0:
		return most
	}
	return max((memory-fixedMemory)/100*storedPercent, memory/minStoredDivisor)
}

// writeDivisor is the part of the memory that one request that writes may have: on its way to the tables it is in
// memory up to eleven times, as what the client sent, as effects, in the log, among the rows, and in tables.
const writeDivisor = 32

// computeMaxWriteBytes returns how many bytes a request that writes may have in a process that may take so much
// memory, 0 for what the commands allow.
func computeMaxWriteBytes(memory int64) int {
	if memory <= 0 || memory/writeDivisor >= 64<<20 {
		return 0
	}
	return int(memory / writeDivisor)
}

// deriveClientSettings replaces settings that clients know, and that say that the server is to find a value, by
// the value for a process that may take so much memory.
func deriveClientSettings(settings map[string]string, c *config.Config, memory int64) {
	if _, has := settings["maxmemory"]; has {
		settings["maxmemory"] = strconv.FormatInt(computeMaxMemory(c, memory), 10)
	}
}

// defaultClientMemory is the default of maxmemory-clients: a quarter of what the process may take.
func defaultClientMemory(memory int64) string {
	most := int64(maxClientMemory)
	if memory > 0 {
		most = max(minClientMemory, min(maxClientMemory, memory/4))
	}
	return strconv.FormatInt(most, 10)
}

const (
	// minFreedBytes is how much less memory the stores must take for the heap to be given back, beside a
	// quarter, and how much of the heap must be free or garbage beyond what tuneGarbageCollection allows.
	minFreedBytes = 64 << 20
	// freeInterval is the pause after that: a release stops all goroutines for a moment.
	freeInterval = 5 * time.Second
	// quietBytes is how little an idle server allocates between two checks. After quietChecks of them,
	// when the stores have applied what waited to be, garbage is collected, since the runtime does so
	// only as memory is allocated; but not if less than minQuietBytes were allocated since the last time.
	quietBytes    = 1 << 20
	quietChecks   = 4
	minQuietBytes = 8 << 20
)

// memoryReclaimer decides when memory that is free is given back to the operating system, which the
// runtime does too, but over many minutes, and not before other memory is asked for.
type memoryReclaimer struct {
	peakBytes int64 // most that the stores took since
	lastFreed time.Time
	// allocatedBytes is what was allocated at the last check, and freedAtBytes at the last time that
	// memory was given back.
	allocatedBytes, freedAtBytes int64
	quiet                        int // how many checks in a row have found the server idle
}

// heapUse is what the heap takes, in bytes: objects with their garbage and free pages, what was alive at
// the last collection, and all that was ever allocated.
type heapUse struct{ mapped, live, allocated int64 }

// hasExcess reports whether much of the heap is neither alive nor the garbage that is tolerated.
func (h heapUse) hasExcess() bool {
	return h.mapped-h.live > minFreedBytes+h.live/100*int64(computeGarbagePercent(uint64(h.live)))
}

// shouldReclaim reports whether the stores take so much less than before, or so much of the heap is
// free, that it is worth it, or whether the server has garbage and nothing to do.
func (f *memoryReclaimer) shouldReclaim(stored int64, heap heapUse, now time.Time) bool {
	f.peakBytes = max(f.peakBytes, stored)
	dropped := f.peakBytes-stored >= max(minFreedBytes, f.peakBytes/4)
	if f.quiet++; heap.allocated-f.allocatedBytes >= quietBytes {
		f.quiet = 0
	}
	f.allocatedBytes = heap.allocated
	quiet := f.quiet >= quietChecks && heap.allocated-f.freedAtBytes >= minQuietBytes
	if !dropped && !quiet && !heap.hasExcess() || now.Sub(f.lastFreed) < freeInterval {
		return false
	}
	f.peakBytes, f.lastFreed, f.freedAtBytes = stored, now, heap.allocated
	return true
}

// sumStoredBytes is what all stores have in memory: rows, and with inMemory tables too.
func sumStoredBytes(db *cleave.DB, inMemory bool) (n int64) {
	for _, s := range db.Metrics().Stores {
		n += s.CacheBytes
		if inMemory {
			n += s.TableBytes
		}
	}
	return n
}

// tuneGarbageCollection lets the garbage be collected more often than a Go program does by itself,
// until ctx ends. Most of the heap of a server is rows, segments of the log and blocks of
// tables: large pieces without pointers that cost the collector nothing, so it need not wait
// until there is as much garbage as that. A setting of GOGC takes precedence.
// What rows and requests have left, after FLUSHALL say, is given back to the operating system.
func tuneGarbageCollection(ctx context.Context, db *cleave.DB, inMemory bool) {
	adapts := os.Getenv("GOGC") == ""
	var freed memoryReclaimer
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	for percent := 100; ; {
		metrics.Read(sample) // Go has had all of them since 1.21
		live := sample[0].Value.Uint64()
		if want := computeGarbagePercent(live); adapts && want != percent {
			percent = want
			debug.SetGCPercent(percent)
		}
		heap := heapUse{mapped: int64(sample[1].Value.Uint64() + sample[2].Value.Uint64()), live: int64(live), allocated: int64(sample[3].Value.Uint64())}
		if freed.shouldReclaim(sumStoredBytes(db, inMemory), heap, time.Now()) {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

const (
	// A quarter of the heap may be garbage, but minGarbageBytes in any case: a small heap
	// would be looked through all the time otherwise.
	minGarbagePercent = 25
	minGarbageBytes   = 64 << 20
)

// computeGarbagePercent returns how much garbage there may be beside so many bytes that are in use,
// as a share of them.
func computeGarbagePercent(live uint64) int {
	least := minGarbageBytes * 100 / max(live, 1<<20)
	return int(max(minGarbagePercent, least/5*5)) // in steps, as each change stops all goroutines for a moment
}

// addProcessor lets one goroutine more run at a time than there are processors. The loop
// that serves clients keeps its own while it waits for them, and Go takes it away only after
// a while: goroutines that read rows that are not in memory would leave a processor idle until
// then. A setting of GOMAXPROCS takes precedence.
func addProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
