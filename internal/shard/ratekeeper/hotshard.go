package ratekeeper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// ThrottleKnobs tune the throttle of hot shards. A zero is the default of each.
type ThrottleKnobs struct {
	// Off means that no shard is throttled: knob hot-throttle.
	Off bool
	// PerGroup is how many shards of a group are throttled at once. Default 1: knob hot-throttle-tracked.
	PerGroup int
	// Expire is how long a throttle holds that is not renewed, and Poll how often new ones are begun. Defaults 3 s and 5 s: knobs
	// hot-throttle-expire and -poll.
	Expire, Poll time.Duration
	// QueueWait is the wait for a group from which on it has no time for its others. Default 5 ms.
	QueueWait time.Duration
	// BusyWork is the share of a group's time from which on it is saturated. Default 0.9.
	BusyWork float64
}

// WithDefaults returns the knobs with their defaults.
func (k ThrottleKnobs) WithDefaults() ThrottleKnobs {
	k.PerGroup, k.Expire, k.Poll = cmp.Or(k.PerGroup, 1), cmp.Or(k.Expire, 3*time.Second), cmp.Or(k.Poll, 5*time.Second)
	k.QueueWait, k.BusyWork = cmp.Or(k.QueueWait, 5*time.Millisecond), cmp.Or(k.BusyWork, 0.9)
	return k
}

// ShardDemand is what a shard asks of its group.
type ShardDemand struct {
	Shard partition.ShardID
	Group partition.GroupID
	// Writes is how many there are a second, and Work the share of the group's time that all its operations take, WriteWork
	// that of its writes.
	Writes, Work, WriteWork float64
	// CanChange reports whether it can be split, or moved to another group, or a job is at work on it.
	CanChange bool
	// Limit is what its writers are limited to now, 0 for no limit, and IsAtLimit reports whether some waited or were refused
	// since the last call: without the limit there would be more.
	Limit     float64
	IsAtLimit bool
}

// GroupDemand is how a group does.
type GroupDemand struct {
	Group partition.GroupID
	// QueueWait is how long its writes wait.
	QueueWait time.Duration
	// Capacity is the work that it can do, 1 for all of its time.
	Capacity float64
}

// ShardLimit is what the writers of a shard should be limited to.
type ShardLimit struct {
	Shard     partition.ShardID
	PerSecond float64
	Reason    string
	// Until is when it ends unless it is renewed.
	Until time.Time
}

const (
	// leastOthersWork is the work of the other shards of a group below which they need no time.
	leastOthersWork = 0.02
	// targetWork is the share of its time that a group has with a throttled shard: beyond it requests wait for each other.
	targetWork = 0.75
	// steadyShare is how far from what it should be a limit stays as it is.
	steadyShare = 0.1
	// headroom is what is left to them above what they get now: they get less than they want while the group is saturated.
	headroom = 1.5
	// leastShare is the part of its group's time that a throttled shard keeps, whatever the others want.
	leastShare = 0.1
)

// HotShards decides which shards are throttled. It remembers when it has looked for new ones. The zero value is ready.
type HotShards struct{ lookedAt time.Time }

// Plan returns the shards whose writers should be limited now, by shard. Call it more often than once in
// [ThrottleKnobs].Expire: it renews what is still needed each time, and begins new ones once in Poll.
func (h *HotShards) Plan(k ThrottleKnobs, now time.Time, groups []GroupDemand, shards []ShardDemand) (limits []ShardLimit) {
	if k = k.WithDefaults(); k.Off {
		return nil
	}
	looks := now.Sub(h.lookedAt) >= k.Poll
	if looks {
		h.lookedAt = now
	}
	for i := range groups {
		g := &groups[i]
		own, work := ownShards(g.Group, shards)
		saturated := g.Capacity > 0 && work >= k.BusyWork*g.Capacity && g.QueueWait >= k.QueueWait
		limited := 0
		for j := range own {
			s := &own[j]
			if limited >= k.PerGroup || s.Limit == 0 && !(looks && saturated && j < k.PerGroup) {
				continue // it lends what the others do not use
			}
			if l, ok := s.plan(g, work-s.Work); ok {
				l.Until = now.Add(k.Expire)
				limits, limited = append(limits, l), limited+1
			}
		}
	}
	slices.SortFunc(limits, func(a, b ShardLimit) int { return cmp.Compare(a.Shard, b.Shard) })
	return limits
}

// ownShards returns the shards of a group by the work of their writes, the hottest first, and the work of all of them.
func ownShards(g partition.GroupID, shards []ShardDemand) (own []ShardDemand, work float64) {
	for _, s := range shards {
		if s.Group == g {
			own, work = append(own, s), work+s.Work
		}
	}
	slices.SortFunc(own, func(a, b ShardDemand) int {
		return cmp.Or(cmp.Compare(b.WriteWork, a.WriteWork), cmp.Compare(a.Shard, b.Shard))
	})
	return own, work
}

// plan returns what a shard is limited to so that the others of its group, which do so much work, have time.
func (s *ShardDemand) plan(g *GroupDemand, others float64) (l ShardLimit, ok bool) {
	if s.CanChange || s.WriteWork <= 0 || others < leastOthersWork*g.Capacity || s.Limit > 0 && !s.IsAtLimit || s.Limit == 0 && s.Work < others {
		return l, false
	}
	reads := s.Work - s.WriteWork // they are not throttled
	room := max(targetWork*g.Capacity-headroom*others-reads, leastShare*g.Capacity)
	l = ShardLimit{Shard: s.Shard, PerSecond: s.Writes * room / s.WriteWork}
	if s.Limit > 0 && math.Abs(l.PerSecond-s.Limit) < steadyShare*s.Limit {
		l.PerSecond = s.Limit // those that wait would have to ask anew
	}
	l.Reason = fmt.Sprintf("others of %v wait for it, and it cannot be split or moved", g.Group)
	return l, s.Limit > 0 || room < s.WriteWork
}
