package main

import (
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/testkit/relief"
)

// maxShardBytes is less than most shards have.
const maxShardBytes = 64

// runBalancer makes rounds of the balancer as fast as they go, beside reshapers that change the same map.
func (c *child) runBalancer() {
	var b *balancer.Balancer
	c.db.Balancer(&b)
	if err := relief.Run(ctx, b, c.db.Map, maxShardBytes, maxShards, c.isStopping.Load, func(balancer.ReliefDecision) { c.balancerJobs.Add(1) }); err != nil {
		c.reportTrouble("%v", err)
	}
}
