package mapcells

import (
	"fmt"
	"sync"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/lockmap"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// shard is one lock with its map.
type shard = lockmap.Map[uint64, uint64]

// padding returns the cell that shows false sharing: goroutines read disjoint
// shards whose locks do or do not share a cache line.
func padding(cfg Config) duel.Cell {
	workers := max(cfg.Cores, 2) // one goroutine alone shares nothing
	padded := make([]lockmap.Padded[uint64, uint64], workers)
	bare := make([]shard, workers)
	for w := range workers {
		for _, s := range []*shard{&padded[w].Map, &bare[w]} {
			s.Init()
			s.Store(1, 1)
		}
	}
	return duel.Cell{
		ID:    "map/padding",
		Title: fmt.Sprintf("RWMutex shards padded to a cache line against shards side by side, %d goroutines read a shard each", workers),
		Contestants: []duel.Contestant{
			{Name: "padded", Ours: true, Work: func(ops int) {
				readOwnShard(workers, ops, func(w int) *shard { return &padded[w].Map })
			}},
			{Name: "unpadded", Work: func(ops int) {
				readOwnShard(workers, ops, func(w int) *shard { return &bare[w] })
			}},
		},
	}
}

func readOwnShard(workers, ops int, of func(w int) *shard) {
	// Start together: alone, even an unpadded shard is fast.
	var ready sync.WaitGroup
	ready.Add(workers)
	workload.Parallel(workers, ops, func(w, n int) {
		s := of(w)
		ready.Done()
		ready.Wait()
		for range n {
			s.Load(1)
		}
	})
}
