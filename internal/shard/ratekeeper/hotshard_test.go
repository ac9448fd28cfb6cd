package ratekeeper

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// hotGroup is a saturated group with one hot shard that cannot be changed, beside one that wants time.
func hotGroup() ([]GroupDemand, []ShardDemand) {
	return []GroupDemand{{Group: 1, QueueWait: 20 * time.Millisecond, Capacity: 1}},
		[]ShardDemand{
			{Shard: 7, Group: 1, Writes: 90_000, Work: 0.9, WriteWork: 0.9},
			{Shard: 8, Group: 1, Writes: 5000, Work: 0.05, WriteWork: 0.05},
			{Shard: 9, Group: 1, Writes: 5000, Work: 0.05, WriteWork: 0.05},
		}
}

func TestHotShards_OthersWait_LimitsTheHotShardToWhatTheyLeave(t *testing.T) {
	groups, shards := hotGroup()
	now := time.Unix(1000, 0)
	limits := new(HotShards).Plan(ThrottleKnobs{}, now, groups, shards)
	if len(limits) != 1 || limits[0].Shard != 7 || math.Abs(limits[0].PerSecond-60_000) > 1 || !limits[0].Until.Equal(now.Add(3*time.Second)) {
		t.Fatalf("%+v", limits)
	}
	if want := "others of group 1 wait for it, and it cannot be split or moved"; limits[0].Reason != want {
		t.Errorf("the reason is %q, want %q", limits[0].Reason, want)
	}
}

func TestHotShards_NothingToGainOrSomethingBetterToDo_LimitsNone(t *testing.T) {
	for name, change := range map[string]func(*ThrottleKnobs, []GroupDemand, []ShardDemand){
		"off":                  func(k *ThrottleKnobs, _ []GroupDemand, _ []ShardDemand) { k.Off = true },
		"it can be split":      func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[0].CanChange = true },
		"the group has time":   func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[0].Work = 0.7 },
		"nothing waits":        func(_ *ThrottleKnobs, g []GroupDemand, _ []ShardDemand) { g[0].QueueWait = time.Millisecond },
		"the others want none": func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[1].Work, s[2].Work, s[0].Work = 0, 0, 1 },
		"it is read":           func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[0].WriteWork = 0 },
		"the others are hotter": func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) {
			s[0].Work, s[1].Work, s[2].Work = 0.4, 0.3, 0.3
		},
		"a group with more time": func(_ *ThrottleKnobs, g []GroupDemand, _ []ShardDemand) { g[0].Capacity = 2 },
	} {
		var k ThrottleKnobs
		groups, shards := hotGroup()
		change(&k, groups, shards)
		if limits := new(HotShards).Plan(k, time.Unix(1000, 0), groups, shards); len(limits) != 0 {
			t.Errorf("%s: %+v", name, limits)
		}
	}
}

// Reads are not throttled, so the writers have what these leave too; and a fair share in any case.
func TestHotShards_ShardIsReadToo_LimitsItsWritesAlone(t *testing.T) {
	groups, shards := hotGroup()
	shards[0].WriteWork, shards[0].Writes = 0.3, 30_000
	limits := new(HotShards).Plan(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards)
	if len(limits) != 1 || math.Abs(limits[0].PerSecond-10_000) > 1 {
		t.Errorf("%+v", limits)
	}
	shards[1].Work, shards[2].Work = 0.24, 0.25
	shards[0].Work, shards[0].WriteWork, shards[0].Writes = 0.9, 0.2, 50_000 // its reads alone leave nothing
	limits = new(HotShards).Plan(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards)
	if len(limits) != 1 || math.Abs(limits[0].PerSecond-25_000) > 1 {
		t.Errorf("%+v", limits)
	}
}

// One shard of each group, the hottest, unless a knob says more.
func TestHotShards_SeveralHotShards_LimitsSoManyOfEachGroup(t *testing.T) {
	groups := []GroupDemand{{Group: 1, QueueWait: time.Second, Capacity: 0.5}, {Group: 2, QueueWait: time.Second, Capacity: 0.5}}
	var shards []ShardDemand
	for g := range groups {
		for i := range 4 {
			work := []float64{0.3, 0.05, 0.1, 0.05}[i]
			shards = append(shards, ShardDemand{Shard: partition.ShardID(10*(g+1) + i), Group: groups[g].Group, Writes: 1000, Work: work, WriteWork: work})
		}
	}
	limits := new(HotShards).Plan(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards)
	if len(limits) != 2 || limits[0].Shard != 10 || limits[1].Shard != 20 {
		t.Errorf("%+v", limits)
	}
}

// A throttle is renewed each time while its writers wait, though the group has time by then; a new one has to wait for the
// next look. It is not when the writers are gone, or the shard can be changed.
func TestHotShards_Throttled_IsRenewedWhileNeeded(t *testing.T) {
	groups, shards := hotGroup()
	h, now := new(HotShards), time.Unix(1000, 0)
	first := h.Plan(ThrottleKnobs{}, now, groups, shards)
	now = now.Add(time.Second)
	if limits := h.Plan(ThrottleKnobs{}, now, groups, shards); len(limits) != 0 {
		t.Errorf("begun again before the next look: %+v", limits)
	}
	groups[0].QueueWait = 0
	shards[0].Limit, shards[0].Writes, shards[0].Work, shards[0].WriteWork, shards[0].IsAtLimit = first[0].PerSecond, 60_000, 0.6, 0.6, true
	limits := h.Plan(ThrottleKnobs{}, now, groups, shards)
	if len(limits) != 1 || limits[0].PerSecond != first[0].PerSecond || !limits[0].Until.Equal(now.Add(3*time.Second)) {
		t.Errorf("renewed: %+v", limits)
	}
	shards[1].Work = 0.2 // they want more
	if limits := h.Plan(ThrottleKnobs{}, now, groups, shards); len(limits) != 1 || math.Abs(limits[0].PerSecond-37_500) > 1 {
		t.Errorf("others want more: %+v", limits)
	}
	for what, change := range map[string]func(*ShardDemand){
		"none waits":      func(s *ShardDemand) { s.IsAtLimit = false },
		"it can be split": func(s *ShardDemand) { s.CanChange = true },
	} {
		s := slices.Clone(shards)
		change(&s[0])
		if limits := h.Plan(ThrottleKnobs{}, now, groups, s); len(limits) != 0 {
			t.Errorf("%s: %+v", what, limits)
		}
	}
}
