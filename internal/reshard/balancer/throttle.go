package balancer

import (
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/shard/ratekeeper"
	"github.com/cleavekv/cleave/partition"
)

// throttleHot limits the writers of hot shards that no change relieves, and renews that while they wait. It returns the
// decisions. mu is held.
func (b *Balancer) throttleHot() (made []*ReliefDecision) {
	k := b.tuning.throttle.WithDefaults()
	if b.tuning.manual {
		return nil
	}
	groups, shards := b.demands()
	b.readThrottles(shards)
	for _, l := range b.hotShards.Plan(k, time.Now(), groups, shards) {
		s, _ := b.last.shard(l.Shard)
		work := b.last.workOf(s.Group)
		d := b.describe(&distributor.Proposal{Shard: l.Shard, Group: s.Group, Before: work, After: work})
		d.Change, d.Reason, d.Evidence, d.Outcome = "throttle", throttleReason, l.Reason, Kept
		if err := b.node.Throttles().Set(l.Shard, l.PerSecond, l.Reason, l.Until); err != nil {
			d.Outcome, d.Error = Refused, err.Error()
		}
		made = append(made, d)
	}
	return made
}

// throttleReason is that of all throttles, so that one which is renewed is one decision. The figures are its evidence.
const throttleReason = "others of its group wait, and no change relieves it"

// demands returns what groups and shards want, for the throttle. A shard can be relieved by a change unless the planner
// has just said why not.
func (b *Balancer) demands() (groups []ratekeeper.GroupDemand, shards []ratekeeper.ShardDemand) {
	waits := map[partition.GroupID]time.Duration{}
	for i := range b.last.situation.Shards {
		s, m := &b.last.situation.Shards[i], &b.last.measures[i]
		waits[s.Group] = max(waits[s.Group], time.Duration(m.QueueWait*float64(time.Second)))
		d := ratekeeper.ShardDemand{Shard: s.ID, Group: s.Group, Writes: m.Writes, Work: s.Work, CanChange: !b.isStuck(s)}
		if ops := m.Reads + m.Writes; ops > 0 {
			d.WriteWork = s.Work * m.Writes / ops
		}
		shards = append(shards, d)
	}
	for _, g := range b.last.situation.Groups {
		groups = append(groups, ratekeeper.GroupDemand{Group: g.ID, QueueWait: waits[g.ID], Capacity: g.Capacity})
	}
	return groups, shards
}

// readThrottles completes the demands of shards with the throttles that hold.
func (b *Balancer) readThrottles(shards []ratekeeper.ShardDemand) {
	held := map[partition.ShardID]uint64{}
	for _, t := range b.node.Throttles().List() {
		held[t.Shard] = t.Waited + t.Refused
		for i := range shards {
			if d := &shards[i]; d.Shard == t.Shard {
				d.Limit, d.IsAtLimit = t.WritesPerSecond, held[t.Shard] > b.heldWriters[t.Shard]
			}
		}
	}
	b.heldWriters = held
}

// isStuck reports whether the planner has just said that no change relieves a shard.
func (b *Balancer) isStuck(s *distributor.Shard) bool {
	return !s.IsBusy && slices.ContainsFunc(b.proposed, func(p distributor.Proposal) bool {
		if p.Change != distributor.Keep || p.Shard != s.ID {
			return false
		}
		switch p.Reason {
		case distributor.OneKey, distributor.MovingEdge, distributor.NoCut, distributor.NoGain:
			return true
		}
		return false
	})
}
