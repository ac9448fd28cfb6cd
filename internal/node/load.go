package node

import (
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

// loadHistory is what is asked of shards: what was counted, and the rates of the last seconds.
type loadHistory struct {
	meter *load.Meter

	mu      sync.Mutex
	history load.History
}

// Meter returns what counts the operations on shards.
func (n *Node) Meter() *load.Meter { return n.loads.meter }

// LoadRates returns what is asked of shards in a second, as of the last seconds; nothing of those that were never asked,
// nor in the first two seconds.
func (n *Node) LoadRates() map[partition.ShardID]load.ShardRate {
	n.loads.mu.Lock()
	defer n.loads.mu.Unlock()
	return n.loads.history.Rates()
}

// sampleLoads gives the history what was counted, until the node is closed.
func (n *Node) sampleLoads() {
	ticker := time.NewTicker(load.SampleInterval)
	defer ticker.Stop()
	began := time.Now()
	for {
		counts := n.loads.meter.ReadCounts()
		n.loads.mu.Lock()
		n.loads.history.Record(time.Since(began), counts)
		n.loads.mu.Unlock()
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
