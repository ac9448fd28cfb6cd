package ratekeeper

import (
	"math"
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

func TestPlanThrottles_OthersWait_LimitsTheHotShardToWhatTheyLeave(t *testing.T) {
	groups, shards := hotGroup()
	now := time.Unix(1000, 0)
	limits := PlanThrottles(ThrottleKnobs{}, now, groups, shards)
	if len(limits) != 1 || limits[0].Shard != 7 || math.Abs(limits[0].PerSecond-85_000) > 1 || !limits[0].Until.Equal(now.Add(3*time.Second)) {
		t.Fatalf("%+v", limits)
	}
	if want := "it takes 90 % of the time of group 1, whose others wait 20 ms, and cannot be split or moved"; limits[0].Reason != want {
		t.Errorf("the reason is %q, want %q", limits[0].Reason, want)
	}
}

func TestPlanThrottles_NothingToGainOrSomethingBetterToDo_LimitsNone(t *testing.T) {
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
		if limits := PlanThrottles(k, time.Unix(1000, 0), groups, shards); len(limits) != 0 {
			t.Errorf("%s: %+v", name, limits)
		}
	}
}

// Reads are not throttled, so the writers have what these leave too; and a fair share in any case.
func TestPlanThrottles_ShardIsReadToo_LimitsItsWritesAlone(t *testing.T) {
	groups, shards := hotGroup()
	shards[0].WriteWork, shards[0].Writes = 0.3, 30_000
	limits := PlanThrottles(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards)
	if len(limits) != 1 || math.Abs(limits[0].PerSecond-25_000) > 1 {
		t.Errorf("%+v", limits)
	}
	shards[0].Work, shards[0].WriteWork, shards[0].Writes = 0.55, 0.5, 50_000
	shards[1].Work, shards[2].Work = 0.24, 0.25
	shards[0].Work = 0.9 // its reads alone leave nothing
	shards[0].WriteWork = 0.2
	limits = PlanThrottles(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards)
	if len(limits) != 1 || math.Abs(limits[0].PerSecond-25_000) > 1 {
		t.Errorf("%+v", limits)
	}
}

// One shard of each group, the hottest, unless a knob says more.
func TestPlanThrottles_SeveralHotShards_LimitsSoManyOfEachGroup(t *testing.T) {
	groups := []GroupDemand{{Group: 1, QueueWait: time.Second, Capacity: 0.5}, {Group: 2, QueueWait: time.Second, Capacity: 0.5}}
	var shards []ShardDemand
	for g := range groups {
		for i := range 4 {
			work := []float64{0.3, 0.05, 0.1, 0.05}[i]
			shards = append(shards, ShardDemand{Shard: partition.ShardID(10*(g+1) + i), Group: groups[g].Group, Writes: 1000, Work: work, WriteWork: work})
		}
	}
	limits := PlanThrottles(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards)
	if len(limits) != 2 || limits[0].Shard != 10 || limits[1].Shard != 20 {
		t.Errorf("%+v", limits)
	}
}
