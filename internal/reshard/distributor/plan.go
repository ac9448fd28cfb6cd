package distributor

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// Situation is what the planner is shown.
type Situation struct {
	// Now is a time that only goes on.
	Now time.Duration
	// Shards are all shards in the order of their spans.
	Shards []Shard
	// Groups are all groups, in any order.
	Groups []GroupState
	// Jobs is how many jobs that change shards are under way.
	Jobs int
}

// Shard is what is known about a shard.
type Shard struct {
	partition.Shard
	// Keyspace is what the shard belongs to: shards of two keyspaces are not merged.
	Keyspace partition.KeyspaceID
	Bytes    int64
	// Work is the share of its time that its group serves it.
	Work float64
	// Cuts are positions inside where it may be split, in their order.
	Cuts []SplitPoint
	// HotKey is the key that takes the most of its work, and HotKeyShare which share of it: 0 if no key is known.
	HotKey      []byte
	HotKeyShare float64
	// IsEdge reports that writes come at a place that moves on, in the order of time, and EdgeWork which share of its work
	// these are: no cut divides it. IsNew reports that it was busy for too short a time to know whether it is one.
	IsEdge   bool
	EdgeWork float64
	IsNew    bool
	// IsBusy reports that a job changes it, and IsFixed that it must stay as and where it is.
	IsBusy, IsFixed bool
}

// SplitPoint is a position to split at, with the shares of the shard's bytes and work before it.
type SplitPoint struct {
	At          partition.Position
	Bytes, Work float64
}

// GroupState is what is known about a group.
type GroupState struct {
	partition.Group
	// Capacity is how much work it can do: 1 for one that has a processor to itself. At least 0.01.
	Capacity float64
}

// Change is what is done.
type Change uint8

const (
	// Keep does nothing.
	Keep Change = iota
	// Split splits a shard at positions.
	Split
	// Move gives a shard to another group.
	Move
	// Merge makes one of a shard and its right neighbour.
	Merge
)

// String is the change in a word.
func (c Change) String() string { return [...]string{"keep", "split", "move", "merge"}[c] }

// Reason is why something is done, or not.
type Reason uint8

const (
	// TooLarge shards are split.
	TooLarge Reason = iota
	// GroupHot is a group that is busier than others: shards leave it, or are split so that pieces can.
	GroupHot
	// Cold neighbours that the planner has made by a split are merged, or moved to one group for that.
	Cold
	// OneKey has most of the work of a shard that no split makes smaller.
	OneKey
	// MovingEdge is a shard whose writes come at its end: pieces of it are cold but for the last.
	MovingEdge
	// NoCut means that no position is known to split a shard at.
	NoCut
	// NoGain means that nothing would make the busiest group less busy by as much as it costs.
	NoGain
	// Settling means that the effect of the last change of the group is not seen yet.
	Settling
	// DidNotHelp means that a change for the same group has not had the effect that was predicted.
	DidNotHelp
	// JobsRunning means that as many jobs are under way as may be.
	JobsRunning
	// Even means that no group is hot.
	Even
	// Undecided means that the busiest shard of a group was busy for too short a time to know where its writes come.
	Undecided
)

// Proposal is what is to be done with a shard, or why nothing is.
type Proposal struct {
	Change Change
	Reason Reason
	// Shard is the one that it is about, 0 if it is about all of them, and Group the group that it is in.
	Shard partition.ShardID
	Group partition.GroupID
	// To is the group that gets the shard, of a Move.
	To partition.GroupID
	// At are the positions of a Split, in their order.
	At []partition.Position
	// With is the right neighbour, of a Merge.
	With partition.ShardID
	// Before is the work of the group, and After what it is predicted to be.
	Before, After float64
	// Key is the key of OneKey.
	Key []byte
}

// Planner plans. It remembers what it has done, to see whether it helped. It belongs to one goroutine.
type Planner struct {
	knobs  Knobs
	shards map[partition.ShardID]*shardHistory
	groups map[partition.GroupID]*groupHistory
	edges  map[partition.KeyspaceID]*edgeHistory
	// resumed are pieces of splits that an earlier planner has made and this one has not seen yet.
	resumed map[partition.ShardID]bool
	// helped is, of the groups whose moves were judged in the last round, whether these have helped.
	helped map[partition.GroupID]bool
}

// edgeHistory is how often a keyspace was split for load, and when that was, or a moving edge was seen last.
type edgeHistory struct {
	splits int
	seenAt time.Duration
}

// shardHistory is what the planner has done to a shard.
type shardHistory struct {
	// isPiece reports that the planner made it by a split, madeAt when, and movedAt when it was moved last.
	isPiece         bool
	madeAt, movedAt time.Duration
	// movingTo is the group that it was last moved to: while it is busy its work is counted there.
	movingTo partition.GroupID
	// cuts are where it is to be split, so that the pieces are recognised.
	cuts []partition.Position
}

// groupHistory is what was done to a group.
type groupHistory struct {
	changedAt time.Duration
	// before and after are the load of the group beside the mean when it was relieved, and what was predicted: after
	// is negative when nothing is to be judged.
	before, after float64
	// holdUntil is until when it is left alone, as failures changes in a row did not help.
	holdUntil time.Duration
	failures  int
}

// NewPlanner returns a planner without a past, but for pieces of splits that an earlier one has made: see
// [Planner.Pieces].
func NewPlanner(k Knobs, pieces ...partition.ShardID) (*Planner, error) {
	k, err := k.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Planner{k, map[partition.ShardID]*shardHistory{}, map[partition.GroupID]*groupHistory{}, map[partition.KeyspaceID]*edgeHistory{}, map[partition.ShardID]bool{}, nil}
	for _, id := range pieces {
		p.resumed[id] = true
	}
	return p, nil
}

// Pieces returns the shards that splits of the planner, or of an earlier one, have made beside the first piece of each:
// they may be merged when they are cold. A caller that stores them gives them to the planner after this one.
func (p *Planner) Pieces() (ids []partition.ShardID) {
	for id, h := range p.shards {
		if h.isPiece {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// SetKnobs changes what the planner is tuned by, and keeps its past. It fails if the knobs do not go together.
func (p *Planner) SetKnobs(k Knobs) error {
	k, err := k.withDefaults()
	if err == nil {
		p.knobs = k
	}
	return err
}

// Knobs returns what the planner is tuned by, defaults included.
func (p *Planner) Knobs() Knobs { return p.knobs }

// Settle is how long after a change its effect can be seen.
func (p *Planner) Settle() time.Duration { return p.knobs.Settle }

// MaxBytes is the size above which one of the shards is split, but for [Planner.GrowthLimit].
func (p *Planner) MaxBytes(shards []Shard) int64 {
	if p.knobs.MaxShardBytes > 0 {
		return p.knobs.MaxShardBytes
	}
	var all int64
	for i := range shards {
		all += shards[i].Bytes
	}
	return max(MaxShardBytes(all), 2*p.knobs.MinShardBytes)
}

// GrowthLimit is the size above which a shard is split where others are above the largest. What a moving edge leaves
// behind gets no more writes, and halves of it would stay half full: a shard with an edge grows on until all pieces of
// a split are nearly full.
func (p *Planner) GrowthLimit(s *Shard, largest int64) int64 {
	if s.IsEdge {
		return int64(fullPiece * float64(p.knobs.edgePieces()) * float64(largest))
	}
	return largest
}

// ExtraShards forecasts how many shards splits for a load may add. A piece is merged when it and its neighbour have less
// than ColdWork, so a load keeps about its work by that many apart, twice as many at most. FoundationDB forecasts the
// bandwidth of writes by the bandwidth below which a shard is merged; here it is work, because time is what a group
// lacks.
func (p *Planner) ExtraShards(v Situation) int {
	work := 0.0
	for i := range v.Shards {
		work += v.Shards[i].Work
	}
	return int(work / p.knobs.ColdWork)
}

// Clone returns a planner with the same past, for a caller that wants to know what a Step would do.
func (p *Planner) Clone() *Planner {
	c := &Planner{p.knobs, make(map[partition.ShardID]*shardHistory, len(p.shards)), make(map[partition.GroupID]*groupHistory, len(p.groups)),
		make(map[partition.KeyspaceID]*edgeHistory, len(p.edges)), maps.Clone(p.resumed), nil}
	for id, h := range p.shards {
		c.shards[id] = new(*h)
	}
	for id, h := range p.groups {
		c.groups[id] = new(*h)
	}
	for id, h := range p.edges {
		c.edges[id] = new(*h)
	}
	return c
}

// round is one planning.
type round struct {
	*Planner
	Situation
	work, capacity map[partition.GroupID]float64
	mean           float64                    // of the load of groups that take shards
	changing       map[partition.GroupID]bool // groups of which a job changes a shard: for now they have just been changed
	jobsLeft       int
	used           map[partition.ShardID]bool // in a proposal of this round
	proposals      []Proposal
}

// Step plans a round. Splits come first, then moves, then merges: a shard that is split gives moves that relieve more.
// It always returns at least one proposal: if nothing is done, why not.
func (p *Planner) Step(v Situation) []Proposal {
	r := p.look(v)
	r.splitLarge()
	hot := r.relieveGroups()
	r.mergeCold()
	if len(r.proposals) == 0 && !hot {
		r.keep(Proposal{Reason: Even})
	}
	return r.proposals
}

// Observe looks at a situation without planning, for a caller that plans on a [Planner.Clone] and does nothing of it:
// rates that were seen for long enough are trusted, and what became of earlier changes is judged.
func (p *Planner) Observe(v Situation) { p.look(v) }

// look begins a round.
func (p *Planner) look(v Situation) *round {
	r := &round{Planner: p, Situation: v, work: map[partition.GroupID]float64{}, capacity: map[partition.GroupID]float64{}, changing: map[partition.GroupID]bool{},
		jobsLeft: p.knobs.MaxJobs - v.Jobs, used: map[partition.ShardID]bool{}}
	r.measure()
	r.learn()
	return r
}

// measure adds up the work of groups.
func (r *round) measure() {
	var work, capacity float64
	for _, g := range r.Groups {
		r.capacity[g.ID] = max(g.Capacity, 0.01)
		if !g.Draining {
			capacity += r.capacity[g.ID]
		}
		if r.groups[g.ID] == nil {
			r.groups[g.ID] = &groupHistory{changedAt: r.Now, after: -1} // its rates are not known for long enough
		}
	}
	for i := range r.Shards {
		s := &r.Shards[i]
		g := s.Group
		if h := r.shards[s.ID]; h != nil && s.IsBusy && h.movingTo != 0 {
			g = h.movingTo
		}
		r.work[g] += s.Work
		work += s.Work
		if s.IsBusy {
			r.changing[s.Group] = true
		}
	}
	for g := range r.changing {
		r.groups[g].changedAt = r.Now
	}
	if capacity > 0 {
		r.mean = work / capacity
	}
}

// load is how much of what a group can do it does.
func (r *round) load(g partition.GroupID) float64 { return r.work[g] / max(r.capacity[g], 0.01) }

// Helped reports whether the last moves out of a group have relieved it, and whether the last Step or Observe has judged
// that: once for all moves of one round.
func (p *Planner) Helped(g partition.GroupID) (helped, judged bool) {
	helped, judged = p.helped[g]
	return helped, judged
}

// IsJudging reports whether the moves out of a group are still to be judged.
func (p *Planner) IsJudging(g partition.GroupID) bool {
	h := p.groups[g]
	return h != nil && h.after >= 0
}

// learn recognises pieces of splits, forgets shards that are gone, and judges what was done to groups.
func (r *round) learn() {
	seen := make(map[partition.ShardID]bool, len(r.Shards))
	var cutBy *shardHistory // the shard whose pieces come next
	for i := range r.Shards {
		s := &r.Shards[i]
		seen[s.ID] = true
		h := r.shards[s.ID]
		isPiece := cutBy != nil && slices.ContainsFunc(cutBy.cuts, func(at partition.Position) bool { return bytes.Equal(at, s.Span.Start) })
		if h == nil {
			h = &shardHistory{movedAt: math.MinInt64 / 2, madeAt: math.MinInt64 / 2}
			r.shards[s.ID] = h
			if r.resumed[s.ID] {
				h.isPiece, h.madeAt = true, r.Now
				delete(r.resumed, s.ID)
			}
			if isPiece {
				// All pieces are new: where they are moved, and how busy they are, is found out from now on.
				h.isPiece, h.madeAt = true, r.Now
				cutBy.madeAt, cutBy.movedAt = r.Now, math.MinInt64/2
				r.groups[s.Group].changedAt = r.Now
			}
		}
		if !isPiece {
			cutBy = h
		}
		e := r.edges[s.Keyspace]
		if e == nil || r.Now-e.seenAt > maxHold {
			e = &edgeHistory{}
			r.edges[s.Keyspace] = e
		}
		if s.IsEdge {
			e.seenAt = r.Now
		}
	}
	for id := range r.shards {
		if !seen[id] {
			delete(r.shards, id)
		}
	}
	r.helped = map[partition.GroupID]bool{}
	for id, g := range r.groups {
		if _, exists := r.capacity[id]; !exists {
			delete(r.groups, id)
			continue
		}
		if g.after < 0 || r.Now-g.changedAt < r.knobs.Settle {
			continue
		}
		if r.helped[id] = g.before-r.load(id)/r.mean >= (g.before-g.after)/2 || !r.isHot(id); r.helped[id] {
			g.failures = 0
		} else {
			g.failures++
			g.holdUntil = r.Now + min(r.knobs.Residence<<min(g.failures-1, 10), maxHold)
		}
		g.after = -1
	}
}

// propose adds a proposal that takes a job.
func (r *round) propose(d Proposal) {
	r.proposals = append(r.proposals, d)
	r.jobsLeft--
	r.used[d.Shard] = true
}

// keep says why nothing is done.
func (r *round) keep(d Proposal) {
	d.Change = Keep
	r.proposals = append(r.proposals, d)
}

// splitLarge splits shards that are too large.
func (r *round) splitLarge() {
	largest := r.MaxBytes(r.Shards)
	for i := range r.Shards {
		s := &r.Shards[i]
		if s.Bytes <= r.GrowthLimit(s, largest) || s.IsBusy || s.IsFixed {
			continue
		}
		if r.jobsLeft <= 0 {
			r.keep(Proposal{Reason: JobsRunning, Shard: s.ID, Group: s.Group})
			return
		}
		pieces := min(max(2, int((2*s.Bytes+largest-1)/largest)), r.knobs.MaxPieces)
		if s.IsEdge {
			pieces = r.knobs.edgePieces()
		}
		at := pickCuts(s.Cuts, pieces, func(c SplitPoint) float64 { return c.Bytes }, float64(r.knobs.MinShardBytes)/2/float64(s.Bytes))
		if len(at) == 0 {
			r.keep(Proposal{Reason: NoCut, Shard: s.ID, Group: s.Group})
			continue
		}
		r.splitAt(s, at, Proposal{Reason: TooLarge, Before: r.work[s.Group], After: r.work[s.Group]})
	}
}

// splitAt decides to split a shard.
func (r *round) splitAt(s *Shard, at []SplitPoint, d Proposal) {
	d.Change, d.Shard, d.Group = Split, s.ID, s.Group
	for _, c := range at {
		d.At = append(d.At, c.At)
	}
	r.shards[s.ID].cuts = d.At
	if d.Reason == GroupHot { // also if it is not known yet that writes come in the order of time
		e := r.edges[s.Keyspace]
		e.splits++
		e.seenAt = r.Now
	}
	r.groups[s.Group].changedAt = r.Now
	r.propose(d)
}

// pickCuts returns the cuts that come nearest to pieces of the same share, none of which is smaller than the least.
func pickCuts(cuts []SplitPoint, pieces int, share func(SplitPoint) float64, least float64) (picked []SplitPoint) {
	last := 0.0
	for n := 1; n < pieces; n++ {
		want := float64(n) / float64(pieces)
		best := -1
		for i := range cuts {
			at := share(cuts[i])
			if at-last > least && 1-at > least && (best < 0 || math.Abs(at-want) < math.Abs(share(cuts[best])-want)) {
				best = i
			}
		}
		if best >= 0 {
			picked = append(picked, cuts[best])
			last = share(cuts[best])
		}
	}
	return picked
}

// relieveGroups relieves groups that are hot, the hottest first, and reports whether there are any.
func (r *round) relieveGroups() (some bool) {
	groups := slices.Clone(r.Groups)
	slices.SortFunc(groups, func(a, b GroupState) int {
		return cmp.Or(cmp.Compare(r.load(b.ID), r.load(a.ID)), cmp.Compare(a.ID, b.ID))
	})
	movesLeft := r.knobs.MaxMoves
	for _, g := range groups {
		if !r.isHot(g.ID) {
			break
		}
		some = true
		h := r.groups[g.ID]
		d := Proposal{Group: g.ID, Before: r.work[g.ID], After: r.work[g.ID]}
		switch {
		case r.Now-h.changedAt < r.knobs.Settle:
			d.Reason = Settling
		case r.Now < h.holdUntil:
			d = r.describeHeld(g.ID, d)
		case r.jobsLeft <= 0:
			d.Reason = JobsRunning
		case r.isUndecided(g.ID):
			d.Reason = Undecided
		default:
			moved := 0
			for movesLeft > 0 && r.jobsLeft > 0 && r.isHot(g.ID) && r.moveBest(g.ID) {
				movesLeft--
				moved++
			}
			if moved > 0 {
				h.before, h.after, h.changedAt = d.Before/r.capacity[g.ID]/r.mean, r.load(g.ID)/r.mean, r.Now
				continue
			}
			if d = r.splitHottest(g.ID, d); d.Change == Split {
				continue
			}
		}
		r.keep(d)
	}
	return some
}

// isHot reports whether a group is to be relieved.
func (r *round) isHot(g partition.GroupID) bool {
	return r.load(g) > r.knobs.Imbalance*r.mean && r.load(g) >= r.knobs.BusyWork
}

// isUndecided reports whether it is not known yet if the busiest shard of a group has a moving edge: nothing that is done
// about one helps.
func (r *round) isUndecided(g partition.GroupID) bool {
	hottest := r.findHottest(g)
	return hottest != nil && hottest.IsNew
}

// coldestFor returns the group with the least load that may take a shard from its own.
func (r *round) coldestFor(s *Shard) (to partition.GroupID, ok bool) {
	for _, g := range r.Groups {
		if g.ID == s.Group || g.Draining || !s.Pin.Allows(g.Labels) || r.changing[g.ID] {
			continue
		}
		if !ok || r.load(g.ID) < r.load(to) || r.load(g.ID) == r.load(to) && g.ID < to {
			to, ok = g.ID, true
		}
	}
	return to, ok
}

// relief returns by how much the load of the busier of two groups falls if some work is given from one to the other, 0
// if that is more than the fraction of the gap that a move may carry.
func (r *round) relief(from, to partition.GroupID, work float64) float64 {
	a, b := r.load(from), r.load(to)
	after := max(a-work/r.capacity[from], b+work/r.capacity[to])
	if work/r.capacity[from]+work/r.capacity[to] > (a-b)*2*r.knobs.MaxFraction {
		return 0
	}
	return a - after
}

// pays reports whether a relief exceeds what it costs to copy some bytes.
func (r *round) pays(relief float64, size float64) bool {
	return relief >= minGain && relief*r.knobs.Payback.Seconds() >= size/r.knobs.CopyBytes
}

// moveBest moves the shard of a group whose move relieves the most, if one does.
func (r *round) moveBest(from partition.GroupID) bool {
	var best *Shard
	var to partition.GroupID
	var bestRelief float64
	for i := range r.Shards {
		s := &r.Shards[i]
		if s.Group != from || s.IsBusy || s.IsFixed || r.used[s.ID] || s.Work == 0 || r.Now-r.shards[s.ID].movedAt < r.knobs.Residence {
			continue
		}
		target, ok := r.coldestFor(s)
		if !ok {
			continue
		}
		if relief := r.relief(from, target, s.Work); relief > bestRelief && r.pays(relief, float64(s.Bytes)) {
			best, to, bestRelief = s, target, relief
		}
	}
	if best == nil {
		return false
	}
	before := r.work[from]
	r.work[from] -= best.Work
	r.work[to] += best.Work
	r.shards[best.ID].movedAt, r.shards[best.ID].movingTo = r.Now, to
	r.groups[to].changedAt = r.Now
	r.propose(Proposal{Change: Move, Reason: GroupHot, Shard: best.ID, Group: from, To: to, Before: before, After: r.work[from]})
	return true
}

// findHottest returns the shard of a group with the most work that may be changed, nil if there is none.
func (r *round) findHottest(in partition.GroupID) (hottest *Shard) {
	for i := range r.Shards {
		if s := &r.Shards[i]; s.Group == in && !s.IsBusy && !s.IsFixed && !r.used[s.ID] && (hottest == nil || s.Work > hottest.Work) {
			hottest = s
		}
	}
	return hottest
}

// describeHeld says why a group is left alone after a change that did not help. What no change helps comes first: the heat
// may be another one by now, and an operator should not wait for the end of the hold to learn which key it is.
func (r *round) describeHeld(g partition.GroupID, d Proposal) Proposal {
	d.Reason = DidNotHelp
	switch s := r.findHottest(g); {
	case s == nil:
	case s.HotKeyShare >= hotKeyShare:
		d.Shard, d.Reason, d.Key = s.ID, OneKey, s.HotKey
	case r.isStuckAtEdge(s):
		d.Shard, d.Reason = s.ID, MovingEdge
	}
	return d
}

// isStuckAtEdge reports whether a shard is not split for load because of its moving edge: no cut divides most of its
// work, or it was split often enough.
func (r *round) isStuckAtEdge(s *Shard) bool {
	return s.IsEdge && (s.EdgeWork >= maxEdgeWork || r.edges[s.Keyspace].splits >= r.knobs.MaxEdgeSplits)
}

// splitHottest splits the shard of a group with the most work so that a piece can be moved, or says why not.
func (r *round) splitHottest(from partition.GroupID, d Proposal) Proposal {
	hottest := r.findHottest(from)
	if hottest == nil {
		d.Reason = NoGain
		return d
	}
	d.Shard = hottest.ID
	to, ok := r.coldestFor(hottest)
	switch {
	case !ok:
		d.Reason = NoGain
		return d
	case r.isStuckAtEdge(hottest):
		d.Reason = MovingEdge
		return d
	case len(hottest.Cuts) == 0:
		d.Reason = NoCut
	}
	best, bestRelief := r.bestCuts(hottest, to)
	switch {
	case best != nil:
		d.Reason, d.After = GroupHot, d.Before-bestRelief*r.capacity[from]
		r.splitAt(hottest, best, d)
		return r.proposals[len(r.proposals)-1]
	case hottest.HotKeyShare >= hotKeyShare:
		d.Reason, d.Key = OneKey, hottest.HotKey
	case hottest.IsEdge:
		d.Reason = MovingEdge
	case d.Reason != NoCut:
		d.Reason = NoGain
	}
	return d
}

// bestCuts returns the one or two cuts that leave a piece whose move relieves the most.
func (r *round) bestCuts(s *Shard, to partition.GroupID) (best []SplitPoint, relief float64) {
	ends := append(append([]SplitPoint{{}}, s.Cuts...), SplitPoint{Bytes: 1, Work: 1})
	last := len(ends) - 1
	for i := range ends {
		for j := i + 1; j <= last; j++ {
			if i == 0 && j == last || i > 0 && j < last && r.knobs.MaxPieces < 3 {
				continue
			}
			work, size := (ends[j].Work-ends[i].Work)*s.Work*(1-s.EdgeWork), (ends[j].Bytes-ends[i].Bytes)*float64(s.Bytes)
			got := r.relief(s.Group, to, work)
			// A third piece is worth it only if it relieves more: it takes another merge later.
			if i > 0 && j < last {
				got *= 0.9
			}
			if got <= relief || !r.pays(got, size) {
				continue
			}
			relief, best = got, nil
			if i > 0 {
				best = append(best, ends[i])
			}
			if j < last {
				best = append(best, ends[j])
			}
		}
	}
	return best, relief
}

// mergeCold merges neighbours that the planner has made and that are cold, or moves one to the group of the other.
func (r *round) mergeCold() {
	for i := 0; i+1 < len(r.Shards) && r.jobsLeft > 0; i++ {
		a, b := &r.Shards[i], &r.Shards[i+1]
		if !r.shards[b.ID].isPiece || !r.mayMerge(a) || !r.mayMerge(b) || a.Keyspace != b.Keyspace || a.Pin != b.Pin ||
			a.Work+b.Work > r.knobs.ColdWork || a.Bytes+b.Bytes > r.maxMergedBytes() {
			continue
		}
		d := Proposal{Change: Merge, Reason: Cold, Shard: a.ID, Group: a.Group, With: b.ID, Before: r.work[a.Group], After: r.work[a.Group]}
		if a.Group != b.Group {
			r.shards[b.ID].movingTo = a.Group
			d = Proposal{Change: Move, Reason: Cold, Shard: b.ID, Group: b.Group, To: a.Group, Before: r.work[b.Group], After: r.work[b.Group] - b.Work}
		}
		r.used[b.ID] = true
		r.propose(d)
	}
}

// mayMerge reports whether a shard was left alone for long enough to be merged.
func (r *round) mayMerge(s *Shard) bool {
	h := r.shards[s.ID]
	return !s.IsBusy && !s.IsFixed && !r.used[s.ID] && r.Now-max(h.madeAt, h.movedAt) >= r.knobs.Residence
}

// maxMergedBytes is the size of two neighbours up to which they are merged: half of what is split.
func (r *round) maxMergedBytes() int64 {
	if r.knobs.MaxShardBytes > 0 {
		return r.knobs.MaxShardBytes / 2
	}
	return max(MaxShardBytes(0), 2*r.knobs.MinShardBytes) / 2
}

// String is a proposal in a line.
func (d Proposal) String() string {
	work := fmt.Sprintf("%.0f %% of %s", 100*d.Before, d.Group)
	switch d.Change {
	case Split:
		return fmt.Sprintf("split %s at %d positions: %s; work %s", d.Shard, len(d.At), d.Reason, work)
	case Move:
		return fmt.Sprintf("move %s from %s to %s: %s; work %.0f %% becomes %.0f %%", d.Shard, d.Group, d.To, d.Reason, 100*d.Before, 100*d.After)
	case Merge:
		return fmt.Sprintf("merge %s and %s: %s", d.Shard, d.With, d.Reason)
	}
	if d.Group == 0 {
		return fmt.Sprintf("keep all: %s", d.Reason)
	}
	if d.Shard == 0 {
		return fmt.Sprintf("keep %s: %s; work %.0f %%", d.Group, d.Reason, 100*d.Before)
	}
	return fmt.Sprintf("keep %s: %s; work %s", d.Shard, d.Reason, work)
}

// String is the reason as people read it.
func (x Reason) String() string {
	switch x {
	case TooLarge:
		return "it is larger than a shard may be"
	case GroupHot:
		return "its group is hot"
	case Cold:
		return "both are small and cold"
	case OneKey:
		return "one key has most of the work, and no split makes it smaller"
	case MovingEdge:
		return "writes come in the order of time, so the last piece gets them all: use another key layout"
	case NoCut:
		return "no position to split at is known"
	case NoGain:
		return "no change makes the group less busy by as much as it costs"
	case Settling:
		return "the effect of the last change is not seen yet"
	case DidNotHelp:
		return "the last change did not help"
	case JobsRunning:
		return "as many jobs are under way as may be"
	case Even:
		return "no group is hot"
	case Undecided:
		return "it is not known yet whether writes come in the order of time"
	}
	return fmt.Sprintf("reason %d", uint8(x))
}
