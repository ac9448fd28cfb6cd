package balancer

import (
	"testing"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/shard/ratekeeper"
	"github.com/cleavekv/cleave/partition"
)

// A shard is throttled only if the planner has just said that no change relieves it, and no job is at work on it.
func TestBalancer_Demands_LeaveShardsThatCanBeRelievedAlone(t *testing.T) {
	shard := func(id partition.ShardID, work float64) distributor.Shard {
		return distributor.Shard{Shard: partition.Shard{ID: id, Group: 1}, Work: work}
	}
	b := &Balancer{last: &observation{
		situation: distributor.Situation{
			Shards: []distributor.Shard{shard(1, 0.9), shard(2, 0.1)},
			Groups: []distributor.GroupState{{Group: partition.Group{ID: 1}, Capacity: 1}},
		},
		measures:   []classify.ShardMeasures{{ID: 1, Writes: 9000}, {ID: 2, Writes: 1000}},
		groupWaits: map[partition.GroupID]time.Duration{1: 20 * time.Millisecond},
	}}
	keep := func(r distributor.Reason) []distributor.Proposal {
		return []distributor.Proposal{{Reason: r, Shard: 1, Group: 1}}
	}
	for _, c := range []struct {
		name      string
		proposed  []distributor.Proposal
		isBusy    bool
		held      []node.ShardThrottle
		throttled bool
	}{
		{"one key", keep(distributor.OneKey), false, nil, true},
		{"a moving edge", keep(distributor.MovingEdge), false, nil, true},
		{"one key, and a job at work", keep(distributor.OneKey), true, nil, false},
		{"a change to be seen yet", keep(distributor.Settling), false, nil, false},
		{"a split", []distributor.Proposal{{Change: distributor.Split, Shard: 1, Group: 1}}, false, nil, false},
		{"nothing said", nil, false, nil, false},
		{"throttled, and nothing said of what is left", nil, false, []node.ShardThrottle{{Shard: 1, Waited: 1}}, true},
		{"throttled, and a split", []distributor.Proposal{{Change: distributor.Split, Shard: 1, Group: 1}}, false, []node.ShardThrottle{{Shard: 1, Waited: 1}}, false},
	} {
		b.proposed, b.heldWriters = c.proposed, nil
		b.last.situation.Shards[0].IsBusy = c.isBusy
		groups, shards := b.demands(c.held)
		limits := new(ratekeeper.HotShards).Plan(ratekeeper.ThrottleKnobs{}, time.Now(), groups, shards)
		if throttled := len(limits) == 1 && limits[0].Shard == 1; throttled != c.throttled {
			t.Errorf("%s: limits %+v", c.name, limits)
		}
	}
}

// Of the waits in the server those count that are for a group, and not those of writers that are held up.
func TestSumWaits_ThrottledShard_IsLeftOut(t *testing.T) {
	space := partition.Keyspace{ID: 1, Kind: partition.Range}
	m, err := partition.NewMap([]partition.Group{{ID: 1}}, &space, space.AppendPosition(nil, []byte("m")))
	if err != nil {
		t.Fatal(err)
	}
	times := map[partition.ShardID]*load.ShardLoad{}
	for s := range m.Shards(partition.Whole) {
		times[s.ID] = &load.ShardLoad{Wait: actor.Histogram{SumNS: uint64(s.ID) * uint64(time.Millisecond)}}
		times[s.ID].Wait.Counts[20] = 1
	}
	hot := m.Find(space.AppendPosition(nil, []byte("x"))).ID
	all, others := sumWaits(m, times, nil)[1], sumWaits(m, times, []node.ShardThrottle{{Shard: hot}})[1]
	if all.Count() != uint64(len(times)) || others.Count() != all.Count()-1 || all.SumNS-others.SumNS != uint64(hot)*uint64(time.Millisecond) {
		t.Errorf("all %+v, others %+v", all, others)
	}
}

// All groups of a process share its loops: where requests wait to be read, a shard is throttled though its group has time, and
// nothing is said about it, but not while it is about to be changed.
func TestBalancer_Demands_RequestsWaitToBeRead_ThrottlesAcrossGroups(t *testing.T) {
	shard := func(id partition.ShardID, g partition.GroupID, work float64) distributor.Shard {
		return distributor.Shard{Shard: partition.Shard{ID: id, Group: g}, Work: work}
	}
	for _, c := range []struct {
		name      string
		readWait  time.Duration
		proposed  []distributor.Proposal
		throttled bool
	}{
		{"requests wait", time.Millisecond, nil, true},
		{"none waits", time.Microsecond, nil, false},
		{"it is to be moved", time.Millisecond, []distributor.Proposal{{Change: distributor.Move, Shard: 1, Group: 1}}, false},
	} {
		b := &Balancer{proposed: c.proposed, last: &observation{
			situation: distributor.Situation{
				Shards: []distributor.Shard{shard(1, 1, 0.9), shard(2, 2, 0.1)},
				Groups: []distributor.GroupState{{Group: partition.Group{ID: 1}, Capacity: 1}, {Group: partition.Group{ID: 2}, Capacity: 1}},
			},
			measures: []classify.ShardMeasures{{ID: 1, Writes: 9000}, {ID: 2, Writes: 1000}}, readWait: c.readWait,
		}}
		groups, shards := b.demands(nil)
		h := new(ratekeeper.HotShards)
		h.Plan(ratekeeper.ThrottleKnobs{}, time.Now(), groups, shards) // it is limited at the second look
		limits := h.Plan(ratekeeper.ThrottleKnobs{}, time.Now().Add(5*time.Second), groups, shards)
		if throttled := len(limits) == 1 && limits[0].Shard == 1; throttled != c.throttled {
			t.Errorf("%s: limits %+v", c.name, limits)
		}
	}
}
