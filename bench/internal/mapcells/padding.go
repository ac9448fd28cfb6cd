package mapcells

import (
	"fmt"
	"sync"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// bareLock is a shard's lock and map with nothing between it and the next.
type bareLock = locked[uint64, uint64]

// padding returns the cell that shows false sharing: goroutines read disjoint
// shards whose locks do or do not share a cache line.
func padding(cfg Config) duel.Cell {
	workers := max(cfg.Cores, 2) // one goroutine alone shares nothing
	padded := make([]paddedLock[uint64, uint64], workers)
	bare := make([]bareLock, workers)
	for w := range workers {
		padded[w].m, bare[w].m = oneEntry(), oneEntry()
	}
	return duel.Cell{
		ID:    "map/padding",
		Title: fmt.Sprintf("RWMutex shards padded to a cache line against shards side by side, %d goroutines read a shard each", workers),
		Contestants: []duel.Contestant{
			{Name: "padded", Ours: true, Work: func(ops int) {
				readOwnShard(workers, ops, func(w int) *bareLock { return &padded[w].locked })
			}},
			{Name: "unpadded", Work: func(ops int) {
				readOwnShard(workers, ops, func(w int) *bareLock { return &bare[w] })
			}},
		},
	}
}

func oneEntry() map[uint64]uint64 { return map[uint64]uint64{1: 1} }

func readOwnShard(workers, ops int, shard func(w int) *bareLock) {
	// Start together: alone, even an unpadded shard is fast.
	var ready sync.WaitGroup
	ready.Add(workers)
	workload.Parallel(workers, ops, func(w, n int) {
		s := shard(w)
		ready.Done()
		ready.Wait()
		for range n {
			s.Load(1)
		}
	})
}
