package node

import (
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

const (
	// loadSampleInterval is how often the rates are given what was counted.
	loadSampleInterval = time.Second
	// loadHalfLife is that of the window of the rates. Over one second, a shard that is asked a few times a second is hot
	// now and cold then; over half a minute, what begins is seen late.
	loadHalfLife = 2 * time.Second
)

// shardLoads is what is asked of shards: what was counted, and the rates of the last seconds.
type shardLoads struct {
	meter *load.Meter

	mu    sync.Mutex
	rates *heat.ShardRates[partition.ShardID]
}

func newShardLoads() shardLoads {
	rates, _ := heat.NewShardRates[partition.ShardID](loadHalfLife) // it is positive
	return shardLoads{meter: load.NewMeter(), rates: rates}
}

// Meter returns what counts the operations on shards.
func (n *Node) Meter() *load.Meter { return n.loads.meter }

// LoadRates returns what is asked of shards in a second; nothing of those that were never asked, nor in the first second.
func (n *Node) LoadRates() map[partition.ShardID]heat.Rate {
	n.loads.mu.Lock()
	defer n.loads.mu.Unlock()
	return maps.Collect(n.loads.rates.All(0))
}

// sampleLoads gives the rates what was counted, until the node is closed.
func (n *Node) sampleLoads() {
	ticker := time.NewTicker(loadSampleInterval)
	defer ticker.Stop()
	for began := time.Now(); ; {
		counts := n.loads.meter.ReadCounts()
		n.loads.mu.Lock()
		n.loads.rates.Record(time.Since(began), toHeatCounts(counts))
		n.loads.mu.Unlock()
		n.CollectHeat()
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func toHeatCounts(l *load.Loads) iter.Seq2[partition.ShardID, heat.Counts] {
	return func(yield func(partition.ShardID, heat.Counts) bool) {
		for id, c := range l.All() {
			if !yield(id, heat.Counts{
				Reads: c.Reads, Writes: c.Writes, ScanReads: c.ScanReads, CrossShard: c.CrossShard, Conflicts: c.Conflicts,
				BytesIn: c.BytesIn, BytesOut: c.BytesOut, Errors: c.Errors, Service: c.Busy,
			}) {
				return
			}
		}
	}
}
