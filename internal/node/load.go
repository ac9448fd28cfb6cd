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
	began time.Time // of the times of rates
	// groupTimes are what groups had done when they were asked last, writes the writes in them by shard then, and inGroup
	// the time that groups have spent on each shard since the node was opened.
	groupTimes map[partition.GroupID]groupTime
	writes     map[partition.ShardID]uint64
	inGroup    map[partition.ShardID]time.Duration
}

// groupTime is what a group has done: commands, and the time of its batches.
type groupTime struct {
	commands uint64
	busy     time.Duration
}

func newShardLoads() shardLoads {
	rates, _ := heat.NewShardRates[partition.ShardID](loadHalfLife) // it is positive
	return shardLoads{
		meter: load.NewMeter(), rates: rates, began: time.Now(),
		groupTimes: map[partition.GroupID]groupTime{}, writes: map[partition.ShardID]uint64{}, inGroup: map[partition.ShardID]time.Duration{},
	}
}

// Meter returns what counts the operations on shards.
func (n *Node) Meter() *load.Meter { return n.loads.meter }

// LoadRates returns what is asked of shards in a second; nothing of those that were never asked, nor in the first second.
func (n *Node) LoadRates() map[partition.ShardID]heat.Rate {
	n.loads.mu.Lock()
	defer n.loads.mu.Unlock()
	return maps.Collect(n.loads.rates.All(0))
}

// IsFixed reports whether a shard must stay what and where it is: it has the catalog.
func (n *Node) IsFixed(s partition.Shard) bool { return catalogKeys.IsFixed(s) }

// sampleLoads gives the rates what was counted, until the node is closed.
func (n *Node) sampleLoads() {
	ticker := time.NewTicker(loadSampleInterval)
	defer ticker.Stop()
	for {
		n.SampleLoads()
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// SampleLoads gives the rates, and the heat of keys, what was counted up to now. The node does so once a second; a caller
// that wants them to be of now asks for it.
func (n *Node) SampleLoads() {
	counts := n.loads.meter.ReadCounts()
	n.loads.mu.Lock()
	n.shareGroupTimes(counts)
	n.loads.addGroupTimes(counts)
	n.loads.rates.Record(time.Since(n.loads.began), toHeatCounts(counts))
	n.loads.mu.Unlock()
	n.CollectHeat()
}

// ReadLoads returns what was counted of shards. The time of writes that goroutines wait for is that of up to a second ago.
func (n *Node) ReadLoads() *load.Loads {
	l := n.loads.meter.Read()
	n.loads.mu.Lock()
	defer n.loads.mu.Unlock()
	n.loads.addGroupTimes(l)
	return l
}

// shareGroupTimes shares the time that each group was at work since the last call among the shards whose writes it has
// executed for goroutines, by their part of its commands: a goroutine that waits for a write knows only how long that
// was, and others wait at the same time. What loops execute they time themselves. n.loads.mu is held.
func (n *Node) shareGroupTimes(l *load.Loads) {
	m, s := n.Map(), &n.loads
	gained := make(map[partition.GroupID]groupTime, len(s.groupTimes))
	now := make(map[partition.GroupID]groupTime, len(s.groupTimes))
	for _, p := range n.GroupHosts() {
		metrics := p.Group.Metrics()
		at, was := groupTime{metrics.Commands, time.Duration(metrics.Service.SumNS)}, s.groupTimes[p.ID]
		now[p.ID] = at
		gained[p.ID] = groupTime{at.commands - min(was.commands, at.commands), at.busy - min(was.busy, at.busy)}
	}
	s.groupTimes = now
	writes, inGroup := make(map[partition.ShardID]uint64, len(s.writes)), make(map[partition.ShardID]time.Duration, len(s.inGroup))
	for id, c := range l.All() {
		if c.InGroup == 0 {
			continue
		}
		writes[id], inGroup[id] = c.InGroup, s.inGroup[id]
		owner, ok := m.Shard(id)
		if g := gained[owner.Group]; ok && g.commands > 0 {
			inGroup[id] += time.Duration(float64(g.busy) * min(1, float64(c.InGroup-min(s.writes[id], c.InGroup))/float64(g.commands)))
		}
	}
	s.writes, s.inGroup = writes, inGroup
}

// addGroupTimes adds the time that groups have spent on shards to what was counted of these. mu is held.
func (s *shardLoads) addGroupTimes(l *load.Loads) {
	for id, d := range s.inGroup {
		l.AddBusy(id, d)
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
