package ratekeeper

import (
	"cmp"
	"fmt"
	"maps"
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
	// QueueWait is the wait for a group from which on it has no time for its others. Default 2 ms: knob hot-queue-wait.
	QueueWait time.Duration
	// ReadWait is how long requests wait on average before they are read from which on a process has no time for its other
	// shards. Default 250 us: knob hot-read-wait.
	ReadWait time.Duration
}

// WithDefaults returns the knobs with their defaults.
func (k ThrottleKnobs) WithDefaults() ThrottleKnobs {
	k.PerGroup, k.Expire, k.Poll = cmp.Or(k.PerGroup, 1), cmp.Or(k.Expire, 3*time.Second), cmp.Or(k.Poll, 5*time.Second)
	k.QueueWait, k.ReadWait = cmp.Or(k.QueueWait, 2*time.Millisecond), cmp.Or(k.ReadWait, 250*time.Microsecond)
	return k
}

// ShardDemand is what a shard asks of its group.
type ShardDemand struct {
	Shard partition.ShardID
	Group partition.GroupID
	// Writes is how many there are a second, and Work the time that all its operations take, WriteWork that of its writes.
	Writes, Work, WriteWork float64
	// Ops is how many operations there are a second.
	Ops float64
	// CanChange reports whether it can be split, or moved to another group, or a job is at work on it.
	CanChange bool
	// IsChanging reports whether it is about to be, or a job is at work on it. What all groups share no other change relieves.
	IsChanging bool
	// IsAtLimit reports whether it is throttled and some of its writers waited or were refused since the last call: without the
	// limit there would be more.
	IsAtLimit bool
}

// GroupDemand is how a group does, or with the group [Process] all groups of the process, which share its loops.
type GroupDemand struct {
	Group partition.GroupID
	// Wait is how long one of a hundred of its writes waits at least; of the process, how long requests wait on average before
	// they are read.
	Wait time.Duration
}

// Process stands for all groups of a process: no group has this number.
const Process partition.GroupID = 0

// has reports whether a shard is one of its shards.
func (g *GroupDemand) has(s *ShardDemand) bool {
	return g.Group == Process || s.Group == g.Group
}

// leastShare is the part of all work that the writers of a shard have at least, for a limit.
func (g *GroupDemand) leastShare() float64 {
	if g.Group == Process {
		return processShare
	}
	return fairShare
}

// longest is the wait from which on it has no time for its others.
func (g *GroupDemand) longest(k *ThrottleKnobs) time.Duration {
	if g.Group == Process {
		return k.ReadWait
	}
	return k.QueueWait
}

// isRelieved reports whether a change of a shard would do more for it than a throttle.
func (g *GroupDemand) isRelieved(s *ShardDemand) bool {
	if g.Group == Process {
		return s.IsChanging
	}
	return s.CanChange
}

// reason is told to writers that are refused.
func (g *GroupDemand) reason() string {
	if g.Group == Process {
		return "requests for other shards wait to be read for it"
	}
	return fmt.Sprintf("others of %v wait for it, and it cannot be split or moved", g.Group)
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
	// leastOthersPart is the part of all work that others must have, at least, to need time: a limit costs up to twice that.
	// Work beside the execution is shared by operations, so 20,000 SETs a second that come one at a time count as 0.07 to 0.09
	// beside 300,000 INCRs that come 16 at a time, though they cost more.
	leastOthersPart = 0.05
	// lowerBy and raiseBy are by what a budget changes in a step.
	lowerBy, raiseBy = 0.9, 1.1
	// fairShare is the part of the capacity that the writers of a hot shard keep, whatever the others want: beyond that these are
	// as hot as it is.
	fairShare = 0.5
	// processShare is the part of all work that the writers of a shard have before they are held up for the sake of other groups:
	// the halves of a hot range, split and moved apart, are no reason to hold up one of them.
	processShare = 0.67
	// harmSteps is after how many steps the others must have as many operations as when it began, less harmShare: what comes on the
	// same connections as the writers that are held up is held up with them.
	harmSteps, harmShare = 4, 0.1
	// proofSteps is after how many steps in which they waited the others must wait less, by helpedShare of what they waited
	// before, or the shard is not why they wait: four are enough to double their part from the least to all that they may
	// have, and rates take some seconds to show it.
	proofSteps, helpedShare = 10, 0.8
	// restTime is for how long a shard is left alone that was not why, twice as long if it was left alone shortly before, and
	// maxRest the longest.
	restTime, maxRest = time.Minute, time.Hour
)

// HotShards decides which shards are throttled. It remembers what it has decided, and when it has looked for new ones. The zero
// value is ready.
type HotShards struct {
	lookedAt  time.Time
	throttles map[partition.ShardID]*throttle
	rests     map[partition.ShardID]rest
	// candidates are the shards that kept others of the process waiting at the last look: rates of what has moved linger for
	// some seconds, so a shard is limited at the second look.
	candidates map[partition.ShardID]bool
}

// rest is until when a shard is left alone, and for how long that is.
type rest struct {
	until  time.Time
	length time.Duration
}

// throttle is what was decided about a shard.
type throttle struct {
	// group is whose others wait.
	group     partition.GroupID
	perSecond float64
	// capacity is all work that was done when it began, while there was more to do, wait how long the others waited, and least
	// what fairShare of the capacity was in writes. Held up, each costs more, since clients' pipelines fall apart: at that price a
	// limit would end at next to none.
	capacity, least float64
	wait            time.Duration
	// budget is how much work there may be in all, and waited how often the others have waited for it.
	budget float64
	waited int
	// steps is how often it was renewed, and othersOps how many operations the others had when it began.
	steps     int
	othersOps float64
}

// Plan returns the shards whose writers should be limited now, by shard. Call it more often than once in
// [ThrottleKnobs].Expire: it changes and renews what is still needed each time, and begins new ones once in Poll.
func (h *HotShards) Plan(k ThrottleKnobs, now time.Time, groups []GroupDemand, shards []ShardDemand) (limits []ShardLimit) {
	was := h.throttles
	h.throttles = map[partition.ShardID]*throttle{}
	if k = k.WithDefaults(); k.Off {
		return nil
	}
	maps.DeleteFunc(h.rests, func(_ partition.ShardID, r rest) bool { return !now.Before(r.until.Add(r.length)) })
	before := h.candidates
	looks := now.Sub(h.lookedAt) >= k.Poll
	if looks {
		h.lookedAt, h.candidates = now, map[partition.ShardID]bool{}
	}
	for i := range groups {
		g := &groups[i]
		own, work, ops := listShards(g, shards, was)
		limited := 0
		for j := range own {
			s := &own[j]
			if limited >= k.PerGroup || g.isRelieved(s) || work-s.Work < leastOthersPart*work {
				continue // what the others do not want it may have
			}
			t := was[s.Shard]
			switch {
			case t != nil && t.group != g.Group || h.throttles[s.Shard] != nil:
				continue // it is held up already
			case t != nil:
				h.candidates[s.Shard] = true // if it ends and others wait again, one look is enough
				t = h.renew(t, &k, now, g, s, ops-s.Ops)
			case looks && j < k.PerGroup && g.Wait >= g.longest(&k) && s.WriteWork >= g.leastShare()*work && !now.Before(h.rests[s.Shard].until):
				if g.Group == Process {
					if h.candidates[s.Shard] = true; !before[s.Shard] {
						continue
					}
				}
				t = &throttle{group: g.Group, capacity: work, least: fairShare * work * s.Writes / s.WriteWork, wait: g.Wait, budget: lowerBy * work, waited: 1, othersOps: ops - s.Ops}
			}
			if t == nil {
				continue
			}
			t.share(s, work-s.WriteWork)
			h.throttles[s.Shard] = t
			limited++
			limits = append(limits, ShardLimit{s.Shard, t.perSecond, g.reason(), now.Add(k.Expire)})
		}
	}
	slices.SortFunc(limits, func(a, b ShardLimit) int { return cmp.Compare(a.Shard, b.Shard) })
	return limits
}

// renew returns what becomes of a throttle while the others have so many operations a second, nil if it ends.
func (h *HotShards) renew(t *throttle, k *ThrottleKnobs, now time.Time, g *GroupDemand, s *ShardDemand, othersOps float64) *throttle {
	t.steps++
	switch {
	case !s.IsAtLimit:
		return nil // no writer waits
	case t.steps >= harmSteps && othersOps < (1-harmShare)*t.othersOps:
		h.leaveAlone(s.Shard, now)
		return nil
	case g.Wait >= g.longest(k) && t.waited >= proofSteps && float64(g.Wait) > helpedShare*float64(t.wait):
		h.leaveAlone(s.Shard, now)
		return nil
	case g.Wait >= g.longest(k):
		t.budget *= lowerBy
		t.waited++
	case g.Wait < g.longest(k)/2:
		t.budget *= raiseBy
	}
	return t
}

// leaveAlone lets no limit of a shard begin for a while.
func (h *HotShards) leaveAlone(s partition.ShardID, now time.Time) {
	if h.rests == nil {
		h.rests = map[partition.ShardID]rest{}
	}
	length := min(max(restTime, 2*h.rests[s].length), maxRest)
	h.rests[s] = rest{now.Add(length), length}
}

// share limits the writers of its shard to what is left of the budget beside all other work. For the others no more is kept free
// than they use, so that they may have twice as much in the next step, and nothing from fairShare on.
func (t *throttle) share(s *ShardDemand, rest float64) {
	t.budget = max(t.budget, t.capacity-rest)
	if s.WriteWork > 0 {
		t.perSecond = max((t.budget-rest)*s.Writes/s.WriteWork, t.least)
	}
}

// listShards returns the shards of a group, those with a throttle first, then by the work of their writes, and the work and the
// operations of all of them.
func listShards(g *GroupDemand, shards []ShardDemand, throttles map[partition.ShardID]*throttle) (own []ShardDemand, work, ops float64) {
	for i := range shards {
		if s := &shards[i]; g.has(s) {
			own, work, ops = append(own, *s), work+s.Work, ops+s.Ops
		}
	}
	slices.SortFunc(own, func(a, b ShardDemand) int {
		switch isA, isB := throttles[a.Shard] != nil, throttles[b.Shard] != nil; {
		case isA && !isB:
			return -1
		case isB && !isA:
			return 1
		}
		return cmp.Or(cmp.Compare(b.WriteWork, a.WriteWork), cmp.Compare(a.Shard, b.Shard))
	})
	return own, work, ops
}
