package actorcells

import (
	"fmt"
	"iter"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// Config is the size of the comparison.
type Config struct {
	// Entries is how many entries the state holds.
	Entries int
	// StreamLength is how many operations are drawn. A power of two, and at
	// least the largest batch for every client.
	StreamLength int
	// Cores is GOMAXPROCS.
	Cores int
}

// batchSizes are how many operations a client sends at once.
var batchSizes = []int{1, 8, 64}

// clientsPerCore are the numbers of clients: as many as can run, and as many
// as a server has.
var clientsPerCore = []int{1, 8}

// Cells yields scattered batches first, then batches for one shard.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		_ = scattered(cfg, yield) && oneShard(cfg, yield)
	}
}

// scattered yields the cells in which a batch holds keys of all shards.
func scattered(cfg Config, yield func(duel.Cell) bool) bool {
	shards := shardsPerCore * cfg.Cores
	contenders := append(maps(cfg.Entries),
		fleetContender(cfg.Entries, shards, actor.Combining),
		fleetContender(cfg.Entries, shards, actor.Owner),
		channelContender("channel, 1 op a trip", cfg.Entries, shards, true),
	)
	defer closeAll(contenders)
	steps := workload.Stream(workload.Uniform, cfg.Entries, cfg.StreamLength, 50, 1,
		func(i uint32) uint64 { return workload.Scramble(uint64(i)) })
	for _, perCore := range clientsPerCore {
		for _, size := range batchSizes {
			clients := perCore * cfg.Cores
			cell := duel.Cell{
				ID:    fmt.Sprintf("actor/x%d/batch-%d", perCore, size),
				Title: fmt.Sprintf("50 %% reads, 50 %% writes, %d shards, %d clients with batches of %d for all shards", shards, clients, size),
			}
			if !yield(fill(cell, contenders, steps, clients, size)) {
				return false
			}
		}
	}
	return true
}

// oneShard yields the cell in which the keys of a batch share a shard, as
// they do when a server sorts its input before it hands it on.
func oneShard(cfg Config, yield func(duel.Cell) bool) bool {
	const size = 64
	shards := shardsPerCore * cfg.Cores
	contenders := []contender{
		ownShardContender(cfg.Entries, shards, actor.Combining),
		ownShardContender(cfg.Entries, shards, actor.Owner),
		lockedShard(cfg.Entries, shards),
		channelContender("channel, 1 batch a trip", cfg.Entries, shards, false),
	}
	defer closeAll(contenders)
	steps := sortedByShard(workload.Stream(workload.Uniform, cfg.Entries, cfg.StreamLength, 50, 1,
		func(i uint32) uint64 { return workload.Scramble(uint64(i)) }), shards, size)
	cell := duel.Cell{
		ID:    "actor/one-shard",
		Title: fmt.Sprintf("50 %% reads, 50 %% writes, %d shards, %d clients with batches of %d for one shard each", shards, 8*cfg.Cores, size),
	}
	return yield(fill(cell, contenders, steps, 8*cfg.Cores, size))
}

// fill adds the contenders to a cell.
func fill(cell duel.Cell, contenders []contender, steps []op, clients, size int) duel.Cell {
	cell.Metrics = duel.Costs
	for _, c := range contenders {
		cell.Contestants = append(cell.Contestants, duel.Contestant{
			Name: c.name, Ours: c.ours, Family: c.family,
			Work: func(ops int) { play(c, steps, clients, size, ops) },
		})
	}
	return cell
}

// play lets every client send its share in batches. Clients start at
// different places of the stream; none wraps within a batch.
func play(c contender, steps []op, clients, size, ops int) {
	workload.Parallel(clients, ops, func(w, n int) {
		run := c.client()
		replies := make([]uint64, size)
		at := w * len(steps) / clients / size * size
		for n > 0 {
			batch := min(size, n)
			run(steps[at:at+batch], replies[:batch])
			for _, r := range replies[:batch] {
				if r != 1 {
					panic("lost a key")
				}
			}
			n -= batch
			if at += size; at+size > len(steps) {
				at = 0
			}
		}
	})
}

// sortedByShard reorders steps so that each run of size steps has one shard,
// and drops the rest.
func sortedByShard(steps []op, shards, size int) []op {
	waiting := make([][]op, shards)
	var out []op
	for _, s := range steps {
		i := shardOf(s.Key, shards)
		waiting[i] = append(waiting[i], s)
		if len(waiting[i]) == size {
			out = append(out, waiting[i]...)
			waiting[i] = nil
		}
	}
	return out
}

func closeAll(contenders []contender) {
	for _, c := range contenders {
		if c.close != nil {
			c.close()
		}
	}
}
