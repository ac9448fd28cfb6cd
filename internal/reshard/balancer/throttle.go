package balancer

import (
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
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
	groups, shards := b.demands(b.node.Throttles().List())
	for _, l := range b.hotShards.Plan(k, time.Now(), groups, shards) {
		s, _ := b.last.shard(l.Shard)
		work := b.last.workOf(s.Group)
		d := b.describe(&distributor.Proposal{Shard: l.Shard, Group: s.Group, Before: work, After: work})
		d.Change, d.Reason, d.Evidence, d.Outcome = throttleChange, throttleReason, l.Reason, Kept
		if err := b.node.Throttles().Set(l.Shard, l.PerSecond, l.Reason, l.Until); err != nil {
			d.Outcome, d.Error = Refused, err.Error()
		}
		made = append(made, d)
	}
	return made
}

// throttleChange is the change of a decision to hold writers up.
const throttleChange = "throttle"

// throttleReason is that of all throttles, so that one which is renewed is one decision. The figures are its evidence.
const throttleReason = "others wait for it, and no change relieves it"

// demands returns what groups and shards want, for the throttle, where some are throttled.
func (b *Balancer) demands(throttled []node.ShardThrottle) (groups []ratekeeper.GroupDemand, shards []ratekeeper.ShardDemand) {
	for _, g := range b.last.situation.Groups {
		groups = append(groups, ratekeeper.GroupDemand{Group: g.ID, Wait: b.last.groupWaits[g.ID]})
	}
	groups = append(groups, ratekeeper.GroupDemand{Group: ratekeeper.Process, Wait: b.last.readWait})
	held := map[partition.ShardID]uint64{}
	for _, t := range throttled {
		held[t.Shard] = t.Waited + t.Refused
	}
	for i := range b.last.situation.Shards {
		s, m := &b.last.situation.Shards[i], &b.last.measures[i]
		waited, isHeld := held[s.ID]
		d := ratekeeper.ShardDemand{
			Shard: s.ID, Group: s.Group, Writes: m.Writes, Work: s.Work, Ops: m.Reads + m.Writes, CanChange: b.canChange(s, isHeld), IsChanging: b.isChanging(s),
			IsAtLimit: isHeld && waited > b.heldWriters[s.ID],
		}
		if ops := m.Reads + m.Writes; ops > 0 {
			d.WriteWork = s.Work * m.Writes / ops
		}
		shards = append(shards, d)
	}
	b.heldWriters = held
	return groups, shards
}

// canChange reports whether a shard may be relieved by a change. It may unless the planner has just said why not; and if it is
// throttled, which makes the planner see less of its load, only if the planner wants to change it.
func (b *Balancer) canChange(s *distributor.Shard, isHeld bool) bool {
	if b.isChanging(s) {
		return true
	}
	stuck := isHeld
	for _, p := range b.proposed {
		if p.Shard != s.ID {
			continue
		}
		switch p.Reason {
		case distributor.OneKey, distributor.MovingEdge, distributor.NoCut, distributor.NoGain:
			stuck = true
		}
	}
	return !stuck
}

// isChanging reports whether a job is at work on a shard, or the planner wants to begin one.
func (b *Balancer) isChanging(s *distributor.Shard) bool {
	return s.IsBusy || slices.ContainsFunc(b.proposed, func(p distributor.Proposal) bool { return p.Shard == s.ID && p.Change != distributor.Keep })
}
