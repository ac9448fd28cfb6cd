// Package relief runs the balancer of a store under a test as fast as it goes: it splits, moves and merges shards for the
// least of reasons while the test checks what a store promises.
package relief

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/partition"
)

// restlessKnobs make the balancer split, move and merge for the least of reasons, and again at once. How large a shard may
// be is for the test to say: splits of what is larger come before moves.
var restlessKnobs = map[string]string{
	"imbalance": "1.01", "busy-work": "0.001", "cold-work": "0.0001",
	"max-moves": "100", "max-jobs": "4", "settle": "20ms", "residence": "40ms", "payback": "1h", "copy-bytes": "1e9", "max-edge-splits": "1000",
}

// pause is between two rounds: a server makes one a second.
const pause = 5 * time.Millisecond

// Run makes rounds of a balancer that splits shards of more than maxBytes until stopped reports true, and none while the map has
// maxShards: the test is to merge them. began is called with each decision for which a job has begun.
func Run(ctx context.Context, b *balancer.Balancer, current func() *partition.Map, maxBytes, maxShards int, stopped func() bool, began func(balancer.ReliefDecision)) error {
	knobs := maps.Clone(restlessKnobs)
	knobs["shard-max-bytes"], knobs["shard-min-bytes"] = strconv.Itoa(maxBytes), strconv.Itoa(maxBytes/4)
	if err := b.SetKnobs(ctx, knobs); err != nil {
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
