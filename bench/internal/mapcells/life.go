package mapcells

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// The metrics of a table's life.
var (
	metricGC    = duel.Metric{Name: "full GC", Unit: duel.Nanoseconds}
	metricStall = duel.Metric{Name: "worst insert", Unit: duel.Nanoseconds}
	metricSize  = duel.Metric{Name: "heap per entry", Unit: duel.Bytes}
)

// life returns the cell that builds one table of each kind, alone in the
// heap, and gauges what it does to its program: the slowest single insert
// while it grew, the memory it holds, the collection it causes.
func (s *shape[K, V]) life(cfg Config) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("map/%s/life", s.id),
		Title:   fmt.Sprintf("%s, what %d entries cost the program, built by %d goroutines", s.title, cfg.Entries, cfg.Cores),
		Metrics: []duel.Metric{metricGC, metricStall, metricSize},
	}
	for _, m := range s.makers {
		c := m.contestant()
		c.Gauge = func() []float64 {
			before := liveHeap()
			t := m.make()
			stall := s.slowestInsert(cfg, t)
			size := float64(liveHeap()-before) / float64(cfg.Entries)
			gc := collection()
			runtime.KeepAlive(t)
			return []float64{float64(gc), float64(stall), size}
		}
		cell.Contestants = append(cell.Contestants, c)
	}
	return cell
}

// slowestInsert fills t and returns the longest that one Store took.
func (s *shape[K, V]) slowestInsert(cfg Config, t table[K, V]) time.Duration {
	var mu sync.Mutex
	var worst time.Duration
	workload.Parallel(cfg.Cores, cfg.Entries, func(w, n int) {
		var mine time.Duration
		for i := range n {
			k := s.key(uint32(i*cfg.Cores + w))
			start := time.Now()
			t.Store(k, s.values[i%len(s.values)])
			mine = max(mine, time.Since(start))
		}
		mu.Lock()
		worst = max(worst, mine)
		mu.Unlock()
	})
	return worst
}

// liveHeap returns the bytes that survive a collection.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collection returns the time of a full collection that finds no garbage.
func collection() time.Duration {
	start := time.Now()
	runtime.GC()
	return time.Since(start)
}
