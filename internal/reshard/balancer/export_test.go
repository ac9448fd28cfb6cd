package balancer

import (
	"context"
	"maps"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/partition"
)

// Round does a round in which the planner is shown what a test makes of what was measured, and that finds what a test says.
func (b *Balancer) Round(ctx context.Context, byHand bool, found []classify.Finding, change func(*distributor.Situation)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.observe(ctx); err != nil {
		return err
	}
	b.found = found
	change(&b.last.situation)
	return b.act(ctx, byHand)
}

// Pieces are the shards that are remembered as made by splits.
func (b *Balancer) Pieces() []partition.ShardID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.planner.Pieces()
}

// HasEdgeAfterSplit reports whether a shard that is new has the edge that its left neighbour had.
func (b *Balancer) HasEdgeAfterSplit(left, right partition.ShardID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.observer
	w.edges = map[partition.ShardID]*edge{left: {share: 1, windows: edgeWindows}}
	w.seen = map[partition.ShardID]int{left: 10}
	w.collected = -1 // whatever was collected is new
	w.updateEdges(b.node.Map(), w.at)
	return w.edges[right].isMoving()
}

// LeaveEdge is what a shard with an edge is shown to be in the round after nothing is written there, and for how many such rounds
// there is an edge.
func LeaveEdge(work, reads float64) (left float64, isEdge bool, rounds int) {
	e := &edge{share: 1, windows: edgeWindows}
	w := &observer{edges: map[partition.ShardID]*edge{1: e.add(0, 0)}}
	s := &distributor.Shard{Shard: partition.Shard{ID: 1}, Work: work}
	w.describeEdge(s, heat.Rate{Reads: 1000 * reads, Writes: 1000 * (1 - reads)}, 1)
	for rounds = 1; e != nil && rounds < 1000; rounds++ {
		e = e.add(0, 0)
	}
	return s.Work, s.IsEdge, rounds
}

// DescribeThrottle says whether the writers of a shard that was found are limited, and why not, where requests wait so long before
// they are read.
func (b *Balancer) DescribeThrottle(f classify.Finding, readWait time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last.readWait = readWait
	return b.describeThrottle(&f)
}

// IsNewShard reports whether a shard that was busy for some rounds counts as new.
func IsNewShard(rounds int, writes float64, known bool) bool {
	w := &observer{edges: map[partition.ShardID]*edge{}}
	if known {
		w.edges[1] = &edge{windows: edgeWindows}
	}
	s := &distributor.Shard{Shard: partition.Shard{ID: 1}}
	w.describeEdge(s, heat.Rate{Writes: writes}, rounds)
	return s.IsNew
}

// OverheadOf is how much work an operation counts beside its execution in a process that uses so many processors.
func OverheadOf(used float64, rates map[partition.ShardID]heat.Rate) float64 {
	return (&observer{used: used}).overheadOf(rates)
}

// RoundsSeen is in how many rounds each shard was measured.
func (b *Balancer) RoundsSeen() map[partition.ShardID]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.observer.seen)
}
