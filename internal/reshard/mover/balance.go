package mover

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// Groups that were added are filled from the others: shards are moved as long as that
// evens groups out, and split, the largest first, where those that there are, are too
// large for that. A group that was added gives something back while it has more than
// the mean and another one is far from full.
//
// So none is left with less than half of the mean, if shards can be halved. If one had,
// another one would have more than the mean. A shard of that of a quarter of the mean at
// most would have been moved, and half of any other, unless that half is as much as
// what is between the two: then the one has less than twice what the other has.
const (
	// fullShare is how much of the mean a group has when nothing is split for it any more,
	// and overfull what a move may fill it to.
	fullShare, overfullShare = 0.75, 1.25
	// largeShare is how much of the mean a shard has that is split. Pieces of more than an
	// eighth come of it, and eight of those fill a group. Where more splits are asked
	// for, halves were none, and the job ends with groups as they are.
	largeShare        = 0.25
	maxSplitsPerGroup = 8
)

// fillPlan is what the groups have, and will have when all that is asked for is done.
type fillPlan struct {
	job        *Job
	state      ClusterState
	loads      groupLoads
	meanLoad   float64 // of the groups that take shards
	pools      []*shardPool
	splitsLeft int // that may still be asked for
}

// shardPool is the shards of one group that may be moved to the same groups.
type shardPool struct {
	group      partition.GroupID
	isNewGroup bool // the group is one of those that are filled
	pin        partition.Constraint
	targets    []partition.GroupID // other groups that were added, and may take them
	// candidates are those that nothing was asked for yet, the lightest first.
	candidates []candidate
}

// candidate is a shard, or a part of one in a plan.
type candidate struct {
	partition.Shard
	size   Size
	weight float64
	// isPartial reports whether it is not all of a shard, and whole whether there is no place to
	// split it at.
	isPartial, isUnsplittable bool
}

func (j *Job) newFillPlan(v ClusterState) *fillPlan {
	f := &fillPlan{job: j, state: v, loads: measureLoads(v), splitsLeft: maxSplitsPerGroup*len(j.Groups) - int(j.Cost.Splits)}
	takers := 0
	for _, g := range v.Map.Groups() {
		if f.meanLoad += f.loads[g.ID]; !g.Draining {
			takers++
		}
	}
	f.meanLoad /= float64(max(takers, 1))
	for s := range v.Map.Shards(partition.Whole) {
		p := candidate{Shard: s, size: v.sizeOfShard(s.ID), weight: v.weightOfShard(s.ID)}
		for i := range v.Jobs {
			f.countRunningJob(&v.Jobs[i], p)
		}
		if !v.isFixedShard(s) && !isBusy(v.Jobs, s.Span) && v.checkStores(s.Group) == nil {
			h := f.findOrAddPool(s)
			h.candidates = append(h.candidates, p)
		}
	}
	for _, h := range f.pools {
		slices.SortStableFunc(h.candidates, func(a, b candidate) int { return cmp.Compare(a.weight, b.weight) })
	}
	return f
}

// findOrAddPool returns where a shard belongs.
func (f *fillPlan) findOrAddPool(s partition.Shard) *shardPool {
	for _, h := range f.pools {
		if h.group == s.Group && h.pin == s.Pin {
			return h
		}
	}
	h := &shardPool{group: s.Group, isNewGroup: slices.Contains(f.job.Groups, s.Group), pin: s.Pin}
	for _, id := range f.job.Groups {
		if g, ok := f.state.Map.Group(id); ok && id != s.Group && f.state.canTakeShards(g) && s.Pin.Allows(g.Labels) {
			h.targets = append(h.targets, id)
		}
	}
	f.pools = append(f.pools, h)
	return h
}

// countRunningJob counts what a job under way will do with a shard. If it were not counted, a
// group would be filled again by each survey of the map before the shards have come.
func (f *fillPlan) countRunningJob(o *Job, p candidate) {
	switch {
	case o.Phase.IsFinal() || o.Undo || o.Shard != p.ID || o.From != p.Group || o.Expect != p.Changed:
	case o.Kind == Move:
		f.moveLoad(p.Group, o.To, p.weight)
	case o.Kind == Split && o.Parent == f.job.ID:
		f.countSplit(p)
	}
}

// countSplit counts a split as done, with one half gone where it is needed. Which half that is
// is unknown before the split is done.
func (f *fillPlan) countSplit(p candidate) {
	if to := f.findLeastLoaded(f.findOrAddPool(p.Shard)); to != 0 {
		f.moveLoad(p.Group, to, p.weight/2)
	}
}

func (f *fillPlan) moveLoad(from, to partition.GroupID, weight float64) {
	f.loads[from] -= weight
	f.loads[to] += weight
}

// findLeastLoaded returns the group with the least of those that may take what is in a stock,
// or 0.
func (f *fillPlan) findLeastLoaded(h *shardPool) (to partition.GroupID) {
	for _, id := range h.targets {
		if to == 0 || f.loads[id] < f.loads[to] {
			to = id
		}
	}
	return to
}

// findTarget returns the group that takes something of a stock, or 0, and whether it is far from
// full.
func (f *fillPlan) findTarget(h *shardPool) (to partition.GroupID, low bool) {
	to = f.findLeastLoaded(h)
	if low = f.loads[to] < fullShare*f.meanLoad; h.isNewGroup && (!low || f.loads[h.group] <= f.meanLoad) {
		return 0, false
	}
	return to, low
}

// next returns what to ask for next, and for which piece. A move is counted as done.
func (f *fillPlan) next() (r Request, p candidate, ok bool) {
	h, i := f.findBestMove(true)
	if h == nil {
		if r, p, ok = f.nextSplit(); ok {
			return r, p, true
		}
		if h, i = f.findBestMove(false); h == nil {
			return r, p, false
		}
	}
	p = h.removeAt(i)
	to := f.findLeastLoaded(h)
	f.moveLoad(p.Group, to, p.weight)
	return f.job.newMoveRequest(p.Shard, to), p, true
}

// removeAt removes a piece.
func (h *shardPool) removeAt(i int) candidate {
	p := h.candidates[i]
	h.candidates = slices.Delete(h.candidates, i, i+1)
	return p
}

// insert adds a piece.
func (h *shardPool) insert(p candidate) {
	i, _ := h.searchWeight(p.weight)
	h.candidates = slices.Insert(h.candidates, i, p)
}

func (h *shardPool) searchWeight(weight float64) (int, bool) {
	return slices.BinarySearchFunc(h.candidates, weight, func(p candidate, w float64) int { return cmp.Compare(p.weight, w) })
}

// findBestMove returns the piece whose move evens groups out most, or nil: a move must leave
// the group that takes the piece with less than the one that gives it had. One that
// fits does not leave it with more than a little above the mean. Those that do not fit
// are for groups that are far from full, when nothing can be split.
func (f *fillPlan) findBestMove(fits bool) (best *shardPool, at int) {
	gain := 0.0
	for _, h := range f.pools {
		to, low := f.findTarget(h)
		if to == 0 || !fits && !low {
			continue
		}
		gap, room := f.loads[h.group]-f.loads[to], overfullShare*f.meanLoad-f.loads[to]
		// The nearer a piece is to half of what is between the two, the better: so it
		// is one of those on both sides of that, or of what there is room for.
		i, _ := h.searchWeight(gap / 2)
		if fits {
			most, _ := h.searchWeight(room)
			i = min(i, most)
		}
		for k := max(i-1, 0); k <= i && k < len(h.candidates); k++ {
			w := h.candidates[k].weight
			if won := w * (gap - w); won > gain && (!fits || w <= room) {
				best, at, gain = h, k, won
			}
		}
	}
	return best, at
}

// nextSplit asks for a split of the largest piece of which a half is good for a group that
// is far from full.
func (f *fillPlan) nextSplit() (r Request, p candidate, ok bool) {
	for f.splitsLeft > 0 && f.state.SplitPoint != nil {
		h, i := f.findLargest()
		if h == nil {
			break
		}
		p := &h.candidates[i]
		at, in, ok := f.state.SplitPoint(p.Shard)
		if !ok || !p.Span.Contains(at) || bytes.Equal(at, p.Span.Start) {
			p.isUnsplittable = true
			continue
		}
		f.splitsLeft--
		r = Request{Kind: Split, Shard: p.ID, Expect: p.Changed, In: in, At: []partition.Position{at}, Parent: f.job.ID}
		return r, h.removeAt(i), true
	}
	return r, p, false
}

// findLargest returns what to split, or nil.
func (f *fillPlan) findLargest() (largest *shardPool, at int) {
	most := largeShare * f.meanLoad
	for _, h := range f.pools {
		to, low := f.findTarget(h)
		if to == 0 || !low {
			continue
		}
		for i := len(h.candidates) - 1; i >= 0 && h.candidates[i].weight > most; i-- {
			if p := &h.candidates[i]; !p.isUnsplittable && f.loads[h.group]-p.weight/2 > f.loads[to] {
				largest, at, most = h, i, p.weight
			}
		}
	}
	return largest, at
}

// splitCandidate puts both halves in the place of a piece, for a plan.
func (f *fillPlan) splitCandidate(p candidate, at partition.Position) {
	h := f.findOrAddPool(p.Shard)
	p.weight, p.isPartial = p.weight/2, true
	p.size = Size{Rows: p.size.Rows / 2, Bytes: p.size.Bytes / 2, Heat: p.size.Heat / 2}
	right := p
	p.Span.End, right.Span.Start = at, at
	h.insert(p)
	h.insert(right)
}

// groupLoads is how much each group that may own shards has.
type groupLoads map[partition.GroupID]float64

// sizeOfShard is what is known about a shard.
func (v *ClusterState) sizeOfShard(id partition.ShardID) Size {
	if v.ShardSize == nil {
		return Size{}
	}
	return v.ShardSize(id)
}

// weightOfShard is what a shard counts when groups are filled evenly: its bytes, and
// one more, so that shards of which nothing is known count alike.
func (v *ClusterState) weightOfShard(id partition.ShardID) float64 {
	return float64(v.sizeOfShard(id).Bytes) + 1
}

// storeOfGroup names the store of a group.
func (v *ClusterState) storeOfGroup(g partition.GroupID) uint64 {
	if v.HomeStore == nil {
		return uint64(g)
	}
	return v.HomeStore(g)
}

func measureLoads(v ClusterState) groupLoads {
	l := groupLoads{}
	for _, g := range v.Map.Groups() {
		l[g.ID] = 0
	}
	for s := range v.Map.Shards(partition.Whole) {
		l[s.Group] += v.weightOfShard(s.ID)
	}
	return l
}

// findLeastLoaded returns the group with the least that may take a shard, or 0.
func (l groupLoads) findLeastLoaded(v *ClusterState, s partition.Shard) (to partition.GroupID) {
	for _, g := range v.Map.Groups() {
		if g.ID != s.Group && v.canTakeShards(g) && s.Pin.Allows(g.Labels) && (to == 0 || l[g.ID] < l[to]) {
			to = g.ID
		}
	}
	return to
}

// groupSums is what is known about all shards of each group.
type groupSums map[partition.GroupID]*groupSum

type groupSum struct {
	bytes, heat float64
	shards      int
}

func (v *ClusterState) sumByGroup(m *partition.Map) groupSums {
	of := groupSums{}
	for _, g := range m.Groups() {
		of[g.ID] = &groupSum{}
	}
	for s := range m.Shards(partition.Whole) {
		of[s.Group].add(v.sizeOfShard(s.ID), 1)
	}
	return of
}

func (s *groupSum) add(size Size, sign float64) {
	s.bytes += sign * float64(size.Bytes)
	s.heat += sign * size.Heat
	s.shards += int(sign)
}

// countMove counts a move as done.
func (of groupSums) countMove(s plannedStep) {
	of[s.source].add(s.size, -1)
	of[s.To].add(s.size, 1)
	if s.isPartial {
		of[s.source].shards++ // the other half stays
	}
}

// measureSkew is how uneven the groups of a map are.
func (of groupSums) measureSkew(m *partition.Map) Skew {
	var bytes, heat []float64
	for _, g := range m.Groups() {
		if s := of[g.ID]; s.shards > 0 || !g.Draining {
			bytes, heat = append(bytes, s.bytes), append(heat, s.heat)
		}
	}
	return Skew{Bytes: maxOverMean(bytes), Heat: maxOverMean(heat)}
}

// maxOverMean is the largest by the mean, 1 if there is nothing.
func maxOverMean(of []float64) float64 {
	sum := 0.0
	for _, x := range of {
		sum += x
	}
	if sum == 0 {
		return 1
	}
	return slices.Max(of) * float64(len(of)) / sum
}
