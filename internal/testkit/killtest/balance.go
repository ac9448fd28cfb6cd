package main

import (
	"time"

	"github.com/cleavekv/cleave/internal/reshard/balancer"
)

// restlessKnobs make the balancer split, move and merge for the least of reasons, and again at once.
var restlessKnobs = map[string]string{
	"shard-max-bytes": "64", "shard-min-bytes": "16", "imbalance": "1.01", "busy-work": "0.001", "cold-work": "0.0001",
	"max-moves": "100", "max-jobs": "4", "settle": "20ms", "residence": "40ms", "payback": "1h", "copy-bytes": "1e9", "max-edge-splits": "1000",
}

// balancePause is between two rounds: a server makes one a second.
const balancePause = 5 * time.Millisecond

// runBalancer makes rounds of the balancer as fast as they go, beside reshapers that change the same map.
func (c *child) runBalancer() {
	var b *balancer.Balancer
	c.db.Balancer(&b)
	if err := b.SetKnobs(ctx, restlessKnobs); err != nil {
		c.reportTrouble("set the knobs of the balancer: %v", err)
		return
	}
	for !c.isStopping.Load() {
		time.Sleep(balancePause)
		if c.db.Map().Len() >= maxShards {
			continue // reshapers merge them
		}
		made, err := b.Rebalance(ctx)
		if err != nil {
			c.reportTrouble("a round of the balancer: %v", err)
			return
		}
		for _, d := range made {
			if d.Job != 0 {
				c.balancerJobs.Add(1)
			}
		}
	}
}
