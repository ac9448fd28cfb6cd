package distributor

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"time"

	"github.com/cleavekv/cleave/partition"
)

// worldTest is a test, or a check of one.
type worldTest interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// world is a model of a store: keys with work and bytes, shards over them, and jobs that take time.
type world struct {
	t       worldTest
	planner *Planner
	rng     *rand.Rand
	noise   float64
	now     time.Duration
	step    time.Duration // of a round
	// work is the work of each key, if its group can do it, and size its bytes.
	work   []float64
	before []float64 // the sums of the work of all keys before each
	size   int64
	groups int
	// isEdge is a moving edge in the last shard, and filled how many keys there are of it: 0 for all.
	isEdge   bool
	edgeWork float64 // the share of work at the edge
	filled   int
	shards   []worldShard
	nextID   partition.ShardID
	jobs     []worldJob
	// counts are the proposals by change and reason.
	actions map[Change]int
	reasons map[Reason]int
	log     []string
}

type worldShard struct {
	id         partition.ShardID
	start, end int
	group      partition.GroupID
	rate       float64 // as measured over a window
}

type worldJob struct {
	ends time.Duration
	Proposal
}

func newWorld(t worldTest, k Knobs, groups, shardsPerGroup, keys int) *world {
	t.Helper()
	p, err := NewPlanner(k)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, planner: p, rng: rand.New(rand.NewPCG(1, 2)), work: make([]float64, keys), size: 100, groups: groups, nextID: 1, step: time.Second, edgeWork: 1,
		actions: map[Change]int{}, reasons: map[Reason]int{}}
	n := groups * shardsPerGroup
	for i := range n {
		w.shards = append(w.shards, worldShard{id: w.nextID, start: keys * i / n, end: keys * (i + 1) / n, group: partition.GroupID(1 + i/shardsPerGroup)})
		w.nextID++
	}
	return w
}

// toPosition is where a key is.
func toPosition(key int) partition.Position {
	return partition.Position(binary.BigEndian.AppendUint32([]byte{8}, uint32(key)))
}

func sumOf(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// loads are what is asked of the groups, from the first.
func (w *world) loads() []float64 {
	loads := make([]float64, w.groups)
	for _, s := range w.shards {
		loads[s.group-1] += w.workOf(s.start, s.end)
	}
	return loads
}

// workOf is the work of some keys.
func (w *world) workOf(start, end int) float64 { return w.before[end] - w.before[start] }

// imbalance is the highest load over the mean, and over the work of the hottest key.
func (w *world) imbalance() (toMean, toKey float64) {
	loads := w.loads()
	most := slices.Max(loads)
	return most / (sumOf(loads) / float64(len(loads))), most / slices.Max(w.work)
}

// view is what a planner is shown: rates of a window, and of a group that is asked too much what it can do.
func (w *world) view() Situation {
	v := Situation{Now: w.now, Jobs: len(w.jobs)}
	loads := w.loads()
	for i := range w.groups {
		v.Groups = append(v.Groups, GroupState{Group: partition.Group{ID: partition.GroupID(i + 1)}, Capacity: 1})
	}
	for i := range w.shards {
		s := &w.shards[i]
		sum := w.workOf(s.start, s.end)
		measured := sum / max(1, loads[s.group-1]) * (1 + w.noise*(w.rng.Float64()*2-1))
		s.rate += (measured - s.rate) * 0.5
		x := Shard{Keyspace: 1, Bytes: w.bytesOf(s), Work: s.rate,
			Shard: partition.Shard{ID: s.id, Group: s.group, Span: partition.Span{Start: toPosition(s.start), End: toPosition(s.end)}}}
		if x.IsEdge = w.isEdge && i == len(w.shards)-1; x.IsEdge {
			x.EdgeWork = w.edgeWork
		}
		x.IsBusy = slices.ContainsFunc(w.jobs, func(j worldJob) bool { return j.Shard == s.id || j.With == s.id })
		x.Cuts = w.cutsOf(s, sum)
		if keys := w.work[s.start:s.end]; sum > 0 {
			hottest := slices.Index(keys, slices.Max(keys))
			x.HotKey, x.HotKeyShare = toPosition(s.start+hottest), keys[hottest]/sum
		}
		v.Shards = append(v.Shards, x)
	}
	return v
}

// bytesOf is the size of a shard.
func (w *world) bytesOf(s *worldShard) int64 { return int64(w.endOf(s)-s.start) * w.size }

// endOf is where the keys of a shard end.
func (w *world) endOf(s *worldShard) int {
	if w.filled > 0 {
		return max(s.start, min(s.end, w.filled))
	}
	return s.end
}

// cutsOf are 32 positions by work and 16 by bytes.
func (w *world) cutsOf(s *worldShard, sum float64) (cuts []SplitPoint) {
	var places []int
	filled := w.endOf(s)
	for n := 1; n < 16; n++ {
		places = append(places, s.start+(filled-s.start)*n/16)
	}
	acc, next := 0.0, 1
	for i := s.start; i < s.end && sum > 0; i++ {
		if w.work[i] > sum/32 {
			places = append(places, i)
		}
		acc += w.work[i]
		for ; next < 32 && acc >= sum*float64(next)/32; next++ {
			places = append(places, i+1)
		}
	}
	sort.Ints(places)
	for _, at := range slices.Compact(places) {
		if at > s.start && at < s.end {
			c := SplitPoint{At: toPosition(at), Bytes: min(1, float64(at-s.start)/float64(max(1, filled-s.start)))}
			if sum > 0 {
				c.Work = w.workOf(s.start, at) / sum
			}
			cuts = append(cuts, c)
		}
	}
	return cuts
}

func (w *world) sumWork() {
	w.before = append(w.before[:0], 0)
	for _, x := range w.work {
		w.before = append(w.before, w.before[len(w.before)-1]+x)
	}
}

// run plays some time.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	w.sumWork()
	for end := w.now + d; w.now < end; w.now += w.step {
		w.jobs = slices.DeleteFunc(w.jobs, func(j worldJob) bool {
			if j.ends <= w.now {
				w.apply(j.Proposal)
				return true
			}
			return false
		})
		for _, x := range w.planner.Step(w.view()) {
			if x.Change == Keep {
				w.reasons[x.Reason]++
				continue
			}
			w.actions[x.Change]++
			w.reasons[x.Reason]++
			w.log = append(w.log, fmt.Sprint(w.now, ": ", x))
			w.jobs = append(w.jobs, worldJob{w.now + 2*time.Second, x})
		}
	}
}

func (w *world) apply(d Proposal) {
	w.t.Helper()
	i := slices.IndexFunc(w.shards, func(s worldShard) bool { return s.id == d.Shard })
	if i < 0 {
		w.t.Fatalf("%v is about a shard that is gone", d)
	}
	s := &w.shards[i]
	switch d.Change {
	case Move:
		if s.group != d.Group || s.group == d.To {
			w.t.Fatalf("%v: the shard is in %v", d, s.group)
		}
		s.group = d.To
	case Merge:
		next := w.shards[i+1]
		if next.id != d.With || next.group != s.group {
			w.t.Fatalf("%v: its right neighbour is %v in %v", d, next.id, next.group)
		}
		s.end = next.end
		w.shards = slices.Delete(w.shards, i+1, i+2)
	case Split:
		end := s.end
		at := make([]int, 0, len(d.At)+1)
		for _, p := range d.At {
			at = append(at, int(binary.BigEndian.Uint32(p[1:])))
		}
		at = append(at, end)
		if !slices.IsSorted(at) || at[0] <= s.start || len(slices.Compact(slices.Clone(at))) != len(at) {
			w.t.Fatalf("%v: cuts %v of [%d, %d)", d, at, s.start, end)
		}
		s.end = at[0]
		group := s.group
		for n := range len(at) - 1 {
			w.shards = slices.Insert(w.shards, i+1+n, worldShard{id: w.nextID, start: at[n], end: at[n+1], group: group})
			w.nextID++
		}
	}
}

// setZipf gives keys in random order a work by a zipf law, in sum as much.
func (w *world) setZipf(exponent, sum float64) {
	weights := make([]float64, len(w.work))
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -exponent)
	}
	total := sumOf(weights)
	for i, at := range w.rng.Perm(len(w.work)) {
		w.work[at] = weights[i] / total * sum
	}
}

// expectQuiet fails if more than one thing is done in an hour: rates are noisy.
func (w *world) expectQuiet() {
	w.t.Helper()
	before := len(w.log)
	w.run(time.Hour)
	if len(w.log) > before+1 {
		w.t.Errorf("an even load is followed by %d actions more: %v", len(w.log)-before, w.log[before:min(len(w.log), before+6)])
	}
}
