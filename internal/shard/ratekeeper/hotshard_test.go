package ratekeeper

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// hotGroup is a group with one hot shard that cannot be changed, beside two that wait for it.
func hotGroup() ([]GroupDemand, []ShardDemand) {
	return []GroupDemand{{Group: 1, Wait: 20 * time.Millisecond}},
		[]ShardDemand{
			{Shard: 7, Group: 1, Writes: 90_000, Work: 0.9, WriteWork: 0.9},
			{Shard: 8, Group: 1, Writes: 5000, Work: 0.05, WriteWork: 0.05},
			{Shard: 9, Group: 1, Writes: 5000, Work: 0.05, WriteWork: 0.05},
		}
}

// round is one round of a group: a second later than the one before.
type round struct {
	now    time.Time
	groups []GroupDemand
	shards []ShardDemand
}

func newRound() *round {
	r := &round{now: time.Unix(1000, 0)}
	r.groups, r.shards = hotGroup()
	return r
}

// plan returns the limit of the hot shard, 0 if it has none.
func (r *round) plan(t *testing.T, h *HotShards) float64 {
	t.Helper()
	limits := h.Plan(ThrottleKnobs{}, r.now, r.groups, r.shards)
	r.now = r.now.Add(time.Second)
	if len(limits) == 0 {
		return 0
	}
	if len(limits) > 1 || limits[0].Shard != 7 {
		t.Fatalf("limits %+v", limits)
	}
	r.shards[0].IsAtLimit = true
	return limits[0].PerSecond
}

func TestHotShards_OthersWait_LimitsTheHotShard(t *testing.T) {
	groups, shards := hotGroup()
	now := time.Unix(1000, 0)
	limits := new(HotShards).Plan(ThrottleKnobs{}, now, groups, shards)
	if len(limits) != 1 || limits[0].Shard != 7 || math.Abs(limits[0].PerSecond-63_000) > 1 || !limits[0].Until.Equal(now.Add(3*time.Second)) {
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
		"nothing waits":        func(_ *ThrottleKnobs, g []GroupDemand, _ []ShardDemand) { g[0].Wait = time.Millisecond },
		"the others want none": func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[1].Work, s[2].Work, s[0].Work = 0, 0, 1 },
		"it is read":           func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[0].WriteWork = 0.05 },
		"the others have more": func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[1].Work = 0.9 },
	} {
		var k ThrottleKnobs
		groups, shards := hotGroup()
		change(&k, groups, shards)
		if limits := new(HotShards).Plan(k, time.Unix(1000, 0), groups, shards); len(limits) != 0 {
			t.Errorf("%s: %+v", name, limits)
		}
	}
}

// One shard of each group, the hottest, unless a knob says more.
func TestHotShards_SeveralHotShards_LimitsSoManyOfEachGroup(t *testing.T) {
	groups := []GroupDemand{{Group: 1, Wait: time.Second}, {Group: 2, Wait: time.Second}}
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

// A limit falls while others wait, never below a tenth, stays while they wait little, and rises while they do not.
func TestHotShards_Throttled_LimitFollowsHowLongOthersWait(t *testing.T) {
	r, h := newRound(), new(HotShards)
	r.plan(t, h)
	r.groups[0].Wait = 10 * time.Millisecond
	if got := r.plan(t, h); math.Abs(got-44_100) > 1 {
		t.Errorf("others wait on: %f, want it lowered", got)
	}
	r.groups[0].Wait = 1500 * time.Microsecond
	if got := r.plan(t, h); math.Abs(got-44_100) > 1 {
		t.Errorf("others wait little: %f, want it as it was", got)
	}
	r.groups[0].Wait = 100 * time.Microsecond
	if got := r.plan(t, h); math.Abs(got-48_510) > 1 {
		t.Errorf("others do not wait: %f, want it raised", got)
	}
	r.groups[0].Wait = 10 * time.Millisecond
	lowest := 0.0
	for range 20 {
		lowest = r.plan(t, h)
	}
	if math.Abs(lowest-9000) > 1 {
		t.Errorf("others wait all the time: %f, want a tenth of the first rate", lowest)
	}
}

// It ends when its writers have gone, or it can be changed; a new one waits for the next look.
func TestHotShards_ThrottleNotNeeded_Ends(t *testing.T) {
	for what, change := range map[string]func(*ShardDemand){
		"none waits":      func(s *ShardDemand) { s.IsAtLimit = false },
		"it can be split": func(s *ShardDemand) { s.CanChange = true },
	} {
		r, h := newRound(), new(HotShards)
		r.plan(t, h)
		before := r.shards[0]
		change(&r.shards[0])
		if got := r.plan(t, h); got != 0 {
			t.Errorf("%s: limited to %f", what, got)
		}
		r.shards[0] = before
		if got := r.plan(t, h); got != 0 {
			t.Errorf("%s: begun again before the next look", what)
		}
		r.now = r.now.Add(5 * time.Second)
		if got := r.plan(t, h); got == 0 {
			t.Errorf("%s: not begun again", what)
		}
	}
}

// If the others wait as long as before, the shard was not why.
func TestHotShards_ThrottleDoesNotHelp_EndsAndRests(t *testing.T) {
	r, h := newRound(), new(HotShards)
	for i := range 4 {
		if got := r.plan(t, h); got == 0 {
			t.Fatalf("it has ended after %d steps", i)
		}
	}
	ended := r.now
	for got := r.plan(t, h); got == 0; got = r.plan(t, h) {
		if r.now.Sub(ended) > 2*time.Minute {
			t.Fatal("it never begins again")
		}
	}
	if rested := r.now.Sub(ended); rested < time.Minute || rested > time.Minute+7*time.Second {
		t.Errorf("it rested for %v, want a minute", rested)
	}
}

// The loops of a process serve all groups: a shard that keeps them busy is limited for the sake of those of other groups, once,
// though its own group waits too, and as long as the loops are what others wait for.
func TestHotShards_LoopsAreBusy_LimitsTheHotShardOfAnyGroup(t *testing.T) {
	r, h := newRound(), new(HotShards)
	r.groups = []GroupDemand{{Group: 1}, {Group: 2}, {Group: Process, Wait: time.Millisecond}}
	r.shards[1].Group, r.shards[2].Group = 2, 2
	limits := h.Plan(ThrottleKnobs{}, r.now, r.groups, r.shards)
	if len(limits) != 1 || limits[0].Shard != 7 || limits[0].Reason != "requests for other shards wait to be read for it" {
		t.Fatalf("%+v", limits)
	}
	r.now, r.shards[0].IsAtLimit = r.now.Add(time.Second), true
	r.shards[1].Group, r.shards[2].Group, r.groups[0].Wait = 1, 1, 20*time.Millisecond
	r.groups[2].Wait = 100 * time.Microsecond
	if got := r.plan(t, h); math.Abs(got-1.1*63_000) > 1 {
		t.Errorf("requests do not wait to be read: %f, want it raised, whatever its group does", got)
	}
	r.shards[0].IsChanging = true
	r.shards[0].CanChange = true
	if got := r.plan(t, h); got != 0 {
		t.Errorf("it is split: %f, want no limit", got)
	}
}

func TestHotShards_LoopsAreBusyWithNoneInParticular_LimitsNone(t *testing.T) {
	for name, change := range map[string]func(*GroupDemand, []ShardDemand){
		"rounds are short":     func(g *GroupDemand, _ []ShardDemand) { g.Wait = 200 * time.Microsecond },
		"it is moved":          func(_ *GroupDemand, s []ShardDemand) { s[0].IsChanging = true },
		"the others want none": func(_ *GroupDemand, s []ShardDemand) { s[1].Work, s[2].Work = 0, 0 },
		"the others have more": func(_ *GroupDemand, s []ShardDemand) { s[1].Work = 0.9 },
		"it is read":           func(_ *GroupDemand, s []ShardDemand) { s[0].WriteWork = 0.05 },
	} {
		_, shards := hotGroup()
		groups := []GroupDemand{{Group: 1}, {Group: Process, Wait: time.Millisecond}}
		change(&groups[1], shards)
		if limits := new(HotShards).Plan(ThrottleKnobs{}, time.Unix(1000, 0), groups, shards); len(limits) != 0 {
			t.Errorf("%s: %+v", name, limits)
		}
	}
}

// With a group that does so much a second, whose writes wait as a queue does, and writers of the hot shard that take all they
// get: the others wait little in the end, the hot shard has most of what they leave, and what they no longer want too.
func TestHotShards_InAModel_OthersWaitLittleAndTheRestIsLent(t *testing.T) {
	const capacity = 100_000
	r, h := newRound(), new(HotShards)
	limit := math.Inf(1)
	others := 30_000.0
	step := func() {
		hot := min(limit, capacity-others)
		used := (hot + others) / capacity
		wait := time.Duration(math.MaxInt64)
		if used < 1 {
			wait = time.Duration(float64(50*time.Microsecond) / (1 - used)) // one of a hundred, of short ones
		}
		r.groups[0].Wait = min(wait, 40*time.Millisecond)
		r.shards[0] = ShardDemand{Shard: 7, Group: 1, Writes: hot, Work: hot / capacity, WriteWork: hot / capacity, IsAtLimit: !math.IsInf(limit, 1)}
		r.shards[1].Work, r.shards[1].WriteWork = others/capacity, others/capacity
		if limit = r.plan(t, h); limit == 0 {
			limit = math.Inf(1)
		}
	}
	settle := func(what string, least float64) {
		t.Helper()
		var waits []time.Duration
		sum := 0.0
		for i := range 60 {
			if step(); i >= 30 {
				waits, sum = append(waits, r.groups[0].Wait), sum+r.shards[0].Writes
			}
		}
		slices.Sort(waits)
		if median := waits[len(waits)/2]; median > 2*time.Millisecond {
			t.Errorf("%s: others wait for %v", what, median)
		}
		if mean := sum / 30; mean < least {
			t.Errorf("%s: the hot shard has %.0f writes a second, want %.0f", what, mean, least)
		}
	}
	settle("others want much", 0.7*70_000)
	others = 5000
	settle("others want little", 0.7*95_000)
}
