package ratekeeper

import (
	"math"
	"math/rand/v2"
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
	if len(limits) != 1 || limits[0].Shard != 7 || math.Abs(limits[0].PerSecond-80_000) > 1 || !limits[0].Until.Equal(now.Add(3*time.Second)) {
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
		"the others want few":  func(_ *ThrottleKnobs, _ []GroupDemand, s []ShardDemand) { s[1].Work, s[2].Work = 0.02, 0.02 },
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

// A limit falls while others wait, stays while they wait little, and rises while they do not. It never falls below half of the
// capacity, and never leaves more than twice what the others use.
func TestHotShards_Throttled_LimitFollowsHowLongOthersWait(t *testing.T) {
	for _, c := range []struct{ others, first, second, raised, lowest float64 }{
		{0.3, 0.6, 0.51, 0.591, 0.5},
		{0.2, 0.7, 0.61, 0.691, 0.6},
		{0.06, 0.88, 0.88, 0.974, 0.88},
	} {
		r, h := newRound(), new(HotShards)
		r.shards[0].Work, r.shards[0].WriteWork = 1-c.others, 1-c.others
		for i := range r.shards[1:] {
			r.shards[1+i].Work, r.shards[1+i].WriteWork = c.others/2, c.others/2
		}
		next := func(what string, wait time.Duration, want float64) {
			t.Helper()
			r.groups[0].Wait = wait
			if got := r.plan(t, h) / r.shards[0].Writes * r.shards[0].Work; math.Abs(got-want) > 0.001 {
				t.Errorf("others have %v, %s: %.3f of all work, want %.3f", c.others, what, got, want)
			}
		}
		next("they wait", 20*time.Millisecond, c.first)
		next("they wait on", 10*time.Millisecond, c.second)
		next("they wait little", 1500*time.Microsecond, c.second)
		next("they do not wait", 100*time.Microsecond, c.raised)
		for range 20 {
			r.plan(t, h)
		}
		for range 20 {
			r.groups[0].Wait = 10 * time.Millisecond
			r.plan(t, h)
		}
		next("they wait all the time", 10*time.Millisecond, c.lowest)
	}
}

// Writes that are held up cost more, and that is no reason to hold up more of them: the limit would end at next to nothing.
func TestHotShards_HeldUpWritesCostMore_KeepsHalfOfTheFirst(t *testing.T) {
	r, h := newRound(), new(HotShards)
	first := r.shards[0].Writes
	for i := range 30 {
		r.groups[0].Wait = 20 * time.Millisecond / time.Duration(1+min(i, 1))
		limit := r.plan(t, h)
		if limit < 0.5*first {
			t.Fatalf("limited to %.0f after %d steps, of %.0f writes at first", limit, i, first)
		}
		// At most as much as before, at six times the price; the others have what they want.
		r.shards[0].Writes = min(limit, 25_000)
		r.shards[0].Work, r.shards[0].WriteWork = r.shards[0].Writes*6e-5/3, r.shards[0].Writes*6e-5/3
		r.shards[1].Work, r.shards[2].Work = 0.25, 0.25
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
	for i := range proofSteps {
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
	if limits := h.Plan(ThrottleKnobs{}, r.now, r.groups, r.shards); len(limits) != 0 {
		t.Fatalf("limited at the first look: %+v", limits)
	}
	r.now = r.now.Add(5 * time.Second)
	limits := h.Plan(ThrottleKnobs{}, r.now, r.groups, r.shards)
	if len(limits) != 1 || limits[0].Shard != 7 || limits[0].Reason != "requests for other shards wait to be read for it" {
		t.Fatalf("%+v", limits)
	}
	r.now, r.shards[0].IsAtLimit = r.now.Add(time.Second), true
	r.shards[1].Group, r.shards[2].Group, r.groups[0].Wait = 1, 1, 20*time.Millisecond
	r.groups[2].Wait = 100 * time.Microsecond
	if got := r.plan(t, h); math.Abs(got-89_000) > 1 {
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
		"the others want few":  func(_ *GroupDemand, s []ShardDemand) { s[1].Work, s[2].Work = 0.02, 0.02 },
		"the others have more": func(_ *GroupDemand, s []ShardDemand) { s[1].Work = 0.9 },
		"it is read":           func(_ *GroupDemand, s []ShardDemand) { s[0].WriteWork = 0.05 },
		"a hot range in two halves": func(_ *GroupDemand, s []ShardDemand) {
			s[0].Work, s[0].WriteWork, s[1].Work, s[2].Work = 0.52, 0.52, 0.48, 0
		},
	} {
		_, shards := hotGroup()
		groups := []GroupDemand{{Group: 1}, {Group: Process, Wait: time.Millisecond}}
		change(&groups[1], shards)
		h := new(HotShards)
		for look := range 3 {
			if limits := h.Plan(ThrottleKnobs{}, time.Unix(1000+5*int64(look), 0), groups, shards); len(limits) != 0 {
				t.Errorf("%s: %+v", name, limits)
			}
		}
	}
}

// Others that come on the connections of the writers that are held up are held up with them: that ends the limit soon, for
// twice as long each time.
func TestHotShards_OthersAreHeldUpToo_EndsAndRestsLonger(t *testing.T) {
	r, h := newRound(), new(HotShards)
	held, rests := 0, []time.Duration{}
	var ended time.Time
	part := 1.0
	for range 1000 {
		for i, writes := range []float64{75_000, 12_500, 12_500} {
			s := &r.shards[i]
			s.Writes, s.Ops = part*writes, part*writes
			s.Work, s.WriteWork = part*writes/100_000, part*writes/100_000
		}
		limit := r.plan(t, h)
		part = 1
		r.groups[0].Wait = 20 * time.Millisecond
		if limit > 0 {
			r.groups[0].Wait = 5 * time.Millisecond // fewer wait less
			if part = limit / 75_000; !ended.IsZero() {
				rests, ended = append(rests, r.now.Sub(ended)), time.Time{}
			}
			held++
		} else if ended.IsZero() && held > 0 {
			ended = r.now
		}
	}
	if len(rests) < 3 || rests[1] < 2*time.Minute || rests[2] < 4*time.Minute || held > 5*(len(rests)+1) {
		t.Errorf("held up for %d of 1000 seconds, and left alone for %v", held, rests)
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
	others = 8000
	settle("others want little", 0.7*92_000)
}

// loops are a model of a process whose loops serve all groups: a hot shard that takes all it gets, on connections that pipeline,
// and others, each of whose requests costs more and counts the same, as work beside the execution is shared by operations.
type loops struct {
	wants float64 // part of the capacity that the others want
	costs float64 // of a request of the others, in those of the hot shard
	wait  func(used float64) time.Duration
	round *round
	h     HotShards
	limit float64 // in parts of the capacity
	// hot and others are what they had in the last step.
	hot, others float64
}

// hotWrites is what the hot shard can do a second when it is alone.
const hotWrites = 100_000

// loopWait is how long requests wait to be read: the more, the less of the time the loops wait for them.
func loopWait(used float64) time.Duration {
	return min(2*time.Millisecond, time.Duration(float64(20*time.Microsecond)/max(1e-9, 1-used)))
}

func newLoops(wants, costs float64) *loops {
	r := newRound()
	r.groups = []GroupDemand{{Group: 1}, {Group: 2}, {Group: Process}}
	return &loops{wants: wants, costs: costs, wait: loopWait, round: r, limit: math.Inf(1)}
}

// step is a second. Without a limit the others have half of what they want.
func (l *loops) step(t *testing.T) {
	t.Helper()
	l.others = min(l.wants, max(1-l.limit, min(l.wants, 1)/2))
	l.hot = min(l.limit, 1-l.others)
	used := l.hot + l.others
	of := used / (l.hot + l.others/l.costs)
	hot, others := of*l.hot, of*l.others/l.costs
	l.round.groups[2].Wait = l.wait(used)
	l.round.shards = []ShardDemand{
		{Shard: 7, Group: 1, Writes: l.hot * hotWrites, Work: hot, WriteWork: hot, IsAtLimit: !math.IsInf(l.limit, 1)},
		{Shard: 8, Group: 2, Writes: 1000, Work: others, WriteWork: others},
	}
	if l.limit = l.round.plan(t, &l.h) / hotWrites; l.limit == 0 {
		l.limit = math.Inf(1)
	}
}

// settle returns what each has on average after a while, and how long requests wait in most steps.
func (l *loops) settle(t *testing.T) (hot, others float64, wait time.Duration) {
	t.Helper()
	const steps = 50
	var waits []time.Duration
	for i := range 2 * steps {
		if l.step(t); i >= steps {
			hot, others, waits = hot+l.hot/steps, others+l.others/steps, append(waits, l.round.groups[2].Wait)
		}
	}
	slices.Sort(waits)
	return hot, others, waits[steps/2]
}

// Where the loops are busy the others get what they want and wait little, and the hot shard has most of what they leave: also if
// their requests cost several times what is counted of them, and if waits are noise for the most part.
func TestHotShards_InAModelOfLoops_HotShardHasMostOfWhatOthersLeave(t *testing.T) {
	for costs, all := range map[float64][]float64{1: {0.12, 0.2, 0.3, 0.4}, 3: {0.3, 0.4, 0.45}} {
		for _, wants := range all {
			l := newLoops(wants, costs)
			hot, others, wait := l.settle(t)
			if others < 0.95*wants || wait >= 250*time.Microsecond || hot < 0.75*(1-wants) {
				t.Errorf("others want %v at a cost of %v: they have %.2f and wait for %v, and the hot shard has %.2f", wants, costs, others, wait, hot)
			}
		}
	}
	for name, wait := range map[string]func(*rand.Rand, float64) time.Duration{
		"noise": func(r *rand.Rand, used float64) time.Duration {
			return min(3*time.Millisecond, time.Duration(float64(loopWait(used))*math.Exp(1.5*r.NormFloat64())))
		},
		"long whatever is done": func(_ *rand.Rand, used float64) time.Duration {
			if used < 0.99 {
				return time.Millisecond
			}
			return 2 * time.Millisecond
		},
	} {
		for _, wants := range []float64{0.12, 0.2, 0.3, 0.45} {
			r := rand.New(rand.NewPCG(1, 2))
			l := newLoops(wants, 1)
			l.wait = func(used float64) time.Duration { return wait(r, used) }
			if hot, _, _ := l.settle(t); hot < 0.6*(1-wants) {
				t.Errorf("waits are %s: others want %v, and the hot shard has %.2f", name, wants, hot)
			}
		}
	}
}

// A heavy load beside a trickle keeps nearly all of its throughput, and one beside others that take all they get has half.
func TestHotShards_InAModelOfLoops_LeastAndMostThatOthersGet(t *testing.T) {
	for _, c := range []struct{ wants, hot float64 }{{0.01, 0.98}, {0.06, 0.87}, {0.1, 0.79}, {2, 0.5}, {0.6, 0.39}} {
		l := newLoops(c.wants, 1)
		l.wait = func(used float64) time.Duration { return 2 * time.Millisecond }
		for i := range 200 {
			if l.step(t); i > 0 && l.hot < c.hot {
				t.Errorf("others want %v: the hot shard has %.2f after %d steps, want %.2f", c.wants, l.hot, i, c.hot)
				break
			}
		}
	}
}
