// Package relief runs the balancer of a store under a test as fast as it goes: it splits, moves and merges shards for the
// least of reasons while the test checks what a store promises.
package relief

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/partition"
)

// restlessKnobs make the balancer split, move and merge for the least of reasons, and again at once.
var restlessKnobs = map[string]string{
	"shard-max-bytes": "100000", "shard-min-bytes": "20000", "imbalance": "1.01", "busy-work": "0.001", "cold-work": "0.0001",
	"max-moves": "100", "max-jobs": "4", "settle": "20ms", "residence": "40ms", "payback": "1h", "copy-bytes": "1e9", "max-edge-splits": "1000",
}

// pause is between two rounds: a server makes one a second.
const pause = 5 * time.Millisecond

// Run makes rounds of a balancer until stopped reports true, and none while the map has maxShards: somebody else is to
// merge them. began is called with each decision for which a job has begun.
func Run(ctx context.Context, b *balancer.Balancer, current func() *partition.Map, maxShards int, stopped func() bool, began func(balancer.ReliefDecision)) error {
	if err := b.SetKnobs(ctx, restlessKnobs); err != nil {
		return fmt.Errorf("set the knobs of the balancer: %w", err)
	}
	for ; !stopped(); time.Sleep(pause) {
		if current().Len() >= maxShards {
			continue
		}
		made, err := b.Rebalance(ctx)
		if err != nil {
			return fmt.Errorf("a round of the balancer: %w", err)
		}
		for _, d := range made {
			if d.Job != 0 {
				began(d)
			}
		}
	}
	return nil
}
