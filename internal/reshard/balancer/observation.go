package balancer

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/cputime"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

const (
	// sizeAge is how old the size of a shard may be. Sizes change slowly, and to measure one means to look into tables.
	sizeAge = 10 * time.Second
	// cutShards is of how many shards cuts are looked for in a round, those with the most work, and minCutWork the work
	// below which none are. To look how many bytes are before a cut takes reads of tables: only groups with so many times the mean
	// are worth it, fewer than any that is relieved.
	cutShards       = 8
	minCutWork      = 0.05
	minCutImbalance = 1.02
	// maxCutGrowth is how many times as large a shard is as when its cuts by size were found, while these are used.
	maxCutGrowth = 1.1
	// heatCuts is how many cuts by load a shard is offered: a piece is then within an 8th of what would be best.
	heatCuts = 16
	// minCutSamples is how many operations on a shard must be known: the share of a piece is then off by 6 %.
	minCutSamples = 64
	// topKeys is how many of the hottest keys of a shard are looked at: one more than make a hot prefix.
	topKeys = 12
	// edgeWindows is over how many rounds the share of writes at the edge is averaged, and minEdgeWrites how many sampled
	// writes a round must have to count.
	edgeWindows   = 4
	minEdgeWrites = 8
	// edgeHalfLife is for how long writes are remembered as the earlier ones, and edgeIdle for how many rounds an edge is
	// at which next to nothing is written.
	edgeHalfLife = 20 * time.Second
	edgeIdle     = 20
	// edgeRounds is for how many rounds a shard is busy before one that has no edge by then has none: a window more than
	// it takes to find one, and one in which nothing new was collected.
	edgeRounds = edgeWindows + 2
)

// observer reads what is known of a node, once a round.
type observer struct {
	node *node.Node
	// earlier are the writes of the rounds before, to find out whether new ones come behind them.
	earlier *heat.Ranges
	edges   map[partition.ShardID]*edge
	// collected is when the writes that were looked at last were collected.
	collected time.Duration
	// times are the times of operations as they were counted up to the round before.
	times map[partition.ShardID]*load.ShardLoad
	seen  map[partition.ShardID]int // for how many rounds a shard has existed
	busy  map[partition.ShardID]int // for how many rounds a shard has had work worth a cut
	// sizeCuts are those that were found last, of shards that are too large still.
	sizeCuts map[partition.ShardID]foundCuts
	at       time.Duration
	// cpu is the processor time of the process up to the round before, wall when that was, and used how many processors
	// it has used since then.
	cpu  time.Duration
	wall time.Time
	used float64
	// queued are the waits in the queues of groups up to the round before, and rounds those of loops.
	queued map[partition.GroupID]actor.Histogram
	rounds actor.Histogram
}

// edge is whether the writes of a shard come in the order of keys.
type edge struct {
	share   float64
	windows int
	idle    int // for how many rounds too few writes are known
}

// isKnown reports whether enough is known to say whether it is an edge.
func (e *edge) isKnown() bool { return e != nil && e.windows >= edgeWindows }

// isMoving reports whether writes come in the order of keys.
func (e *edge) isMoving() bool { return e.isKnown() && e.share >= minEdgeShare }

// add returns the edge with the writes of a round, nil if there is none: too few writes are known, or were for long.
func (e *edge) add(share float64, samples int) *edge {
	if samples < minEdgeWrites {
		if e != nil {
			if e.idle++; e.idle >= edgeIdle {
				return nil
			}
		}
		return e
	}
	if e == nil {
		e = new(edge)
	}
	e.idle = 0
	e.windows++
	e.share += (share - e.share) / float64(min(e.windows, edgeWindows))
	return e
}

func newObserver(n *node.Node) *observer {
	earlier, _ := heat.NewRanges(2048, rand.Uint64()) // the capacity is in its range
	user, system := cputime.Used()
	return &observer{node: n, earlier: earlier, edges: map[partition.ShardID]*edge{}, times: map[partition.ShardID]*load.ShardLoad{},
		seen: map[partition.ShardID]int{}, cpu: user + system, wall: time.Now()}
}

// observation is what is known at one moment.
type observation struct {
	at        time.Duration
	m         *partition.Map
	rates     map[partition.ShardID]heat.Rate
	keyspaces map[partition.ShardID]*node.Keyspace
	situation distributor.Situation
	measures  []classify.ShardMeasures
	machines  []classify.Machine
	jobs      []mover.Job
	// groupWaits is how long one of a hundred writes waits for its group at least.
	groupWaits map[partition.GroupID]time.Duration
	// readWait is how long requests wait on average before they are read.
	readWait time.Duration
}

// shard returns what is known of a shard.
func (o *observation) shard(id partition.ShardID) (*distributor.Shard, bool) {
	i := slices.IndexFunc(o.situation.Shards, func(s distributor.Shard) bool { return s.ID == id })
	if i < 0 {
		return nil, false
	}
	return &o.situation.Shards[i], true
}

// workOf is the work of a group.
func (o *observation) workOf(g partition.GroupID) (work float64) {
	for i := range o.situation.Shards {
		if s := &o.situation.Shards[i]; s.Group == g {
			work += s.Work
		}
	}
	return work
}

// groupWorks returns the work of each group, and the highest beside the mean.
func (o *observation) groupWorks() (works map[partition.GroupID]float64, imbalance float64) {
	works = map[partition.GroupID]float64{}
	for _, g := range o.situation.Groups {
		works[g.ID] = 0
	}
	for i := range o.situation.Shards {
		works[o.situation.Shards[i].Group] += o.situation.Shards[i].Work
	}
	sum, most := 0.0, 0.0
	for _, w := range works {
		sum, most = sum+w, max(most, w)
	}
	if sum > 0 {
		imbalance = most / sum * float64(len(works))
	}
	return works, imbalance
}

// observe reads all figures, for a planner. fixed reports shards that must not be changed.
func (w *observer) observe(ctx context.Context, at time.Duration, planner *distributor.Planner, fixed func(partition.ShardID) bool) (*observation, error) {
	n := w.node
	// Jobs before the map: of a job that is not among them the map has all changes.
	jobs, err := n.JobsUnderWay(ctx)
	if err != nil {
		return nil, err
	}
	o := &observation{at: at, m: n.Map(), rates: n.LoadRates(), keyspaces: map[partition.ShardID]*node.Keyspace{}, jobs: jobs}
	sizes, err := n.ShardSizes(ctx, o.m, sizeAge)
	if err != nil {
		return nil, err
	}
	w.updateEdges(o.m, at)
	times, readWait := w.readTimes()
	w.measureProcessors()
	overhead := w.overheadOf(o.rates)
	spaces := n.Keyspaces()
	o.situation = distributor.Situation{Now: at, Jobs: len(o.jobs)}
	for _, g := range o.m.Groups() {
		o.situation.Groups = append(o.situation.Groups, distributor.GroupState{Group: g, Capacity: groupCapacity(len(o.m.Groups()))})
	}
	seen, busy := make(map[partition.ShardID]int, len(w.seen)), make(map[partition.ShardID]int, len(w.busy))
	for s := range o.m.Shards(partition.Whole) {
		k := findKeyspace(spaces, s.Span)
		o.keyspaces[s.ID] = k
		seen[s.ID] = w.seen[s.ID] + 1
		x := distributor.Shard{Shard: s, Bytes: int64(sizes(s.ID).Bytes), Work: o.rates[s.ID].Service + overhead*o.rates[s.ID].Ops(), IsBusy: mover.CheckBusy(o.jobs, s.Span) != nil, IsFixed: k == nil || n.IsFixed(s)}
		if k != nil {
			x.Keyspace = k.ID
			x.IsFixed = x.IsFixed || fixed(s.ID)
		}
		if x.Work >= minCutWork {
			busy[s.ID] = w.busy[s.ID] + 1
		}
		w.describeEdge(&x, o.rates[s.ID], busy[s.ID])
		o.situation.Shards = append(o.situation.Shards, x)
		o.measures = append(o.measures, w.measure(&x, o.rates[s.ID], times[s.ID], seen[s.ID]))
	}
	w.seen, w.busy = seen, busy
	o.readWait, o.groupWaits = readWait, w.measureGroupWaits(o.m, times)
	// All groups of a process share its processors.
	o.machines = []classify.Machine{{Group: o.m.Groups()[0].ID, CPU: w.used / float64(runtime.GOMAXPROCS(0))}}
	w.addCuts(o, planner)
	return o, nil
}

// describeEdge says whether a shard that has been busy for some rounds has a moving edge.
func (w *observer) describeEdge(s *distributor.Shard, r heat.Rate, busyRounds int) {
	e := w.edges[s.ID]
	s.IsNew = busyRounds > 0 && busyRounds <= edgeRounds && r.Writes > 0 && !e.isKnown()
	if s.IsEdge = e.isMoving(); !s.IsEdge {
		return
	}
	s.EdgeWork = e.share * r.Writes / max(r.Ops(), 1e-9)
	if e.idle > 0 {
		// The edge has left it by a split. Its rates fall slower than those of the piece that has the edge rise.
		s.Work *= 1 - s.EdgeWork
		return
	}
	if size, err := w.node.MeasureShard(s.Shard); err == nil { // it grows by more than a piece while sizes are remembered
		s.Bytes = int64(size.Bytes)
	}
}

// minEdgeShare is the share of writes at the edge that makes one: that of the classifier.
const minEdgeShare = 0.8

// groupCapacity is how much work a group can do where several share the processors.
func groupCapacity(groups int) float64 {
	return min(1, float64(runtime.GOMAXPROCS(0))/float64(groups))
}

// findKeyspace returns the keyspace that has a shard, the first one if several do, nil if none does.
func findKeyspace(spaces []*node.Keyspace, s partition.Span) (first *node.Keyspace) {
	for _, k := range spaces {
		if k.Span().Overlaps(s) && (first == nil || bytes.Compare(k.Span().Start, first.Span().Start) < 0) {
			first = k
		}
	}
	return first
}

// updateEdges looks where the writes of the last round have come.
func (w *observer) updateEdges(m *partition.Map, at time.Duration) {
	meter := w.node.Heat()
	if meter == nil {
		return
	}
	newest, collected := meter.Newest()
	isNew := collected != w.collected // else they would be compared with themselves
	w.collected = collected
	edges := make(map[partition.ShardID]*edge, len(w.edges))
	var left *edge // of the shard before
	for s := range m.Shards(partition.Whole) {
		e := w.edges[s.ID]
		if w.seen[s.ID] == 0 && left != nil {
			// It was cut off its left neighbour, and with it perhaps the place where keys come.
			e = new(*left)
		}
		if isNew {
			e = e.add(newest.Edge(w.earlier, s.Span.Start, s.Span.End))
		}
		if left = e; e != nil {
			edges[s.ID] = e
		}
	}
	w.edges = edges
	if !isNew {
		return
	}
	if passed := at - w.at; passed > 0 {
		w.earlier.Scale(math.Exp2(-float64(passed) / float64(edgeHalfLife)))
	}
	w.at = at
	w.earlier.Merge(newest)
}

// readTimes returns the times of operations since the round before, and how long requests waited on average before they were
// read.
func (w *observer) readTimes() (since map[partition.ShardID]*load.ShardLoad, readWait time.Duration) {
	since = map[partition.ShardID]*load.ShardLoad{}
	was := w.times
	w.times = map[partition.ShardID]*load.ShardLoad{}
	loads := w.node.ReadLoads()
	rounds := subtract(loads.Rounds, w.rounds)
	w.rounds = loads.Rounds
	for id, l := range loads.All() {
		w.times[id] = l
		d := *l
		if before := was[id]; before != nil {
			d.Service, d.Wait = subtract(l.Service, before.Service), subtract(l.Wait, before.Wait)
		}
		since[id] = &d
	}
	return since, rounds.Mean()
}

// measureGroupWaits returns how long one of a hundred writes of each group has waited since the round before: in its queue, and
// before that in the server.
func (w *observer) measureGroupWaits(m *partition.Map, times map[partition.ShardID]*load.ShardLoad) map[partition.GroupID]time.Duration {
	waits := sumWaits(m, times, w.node.Throttles().List())
	longest := map[partition.GroupID]time.Duration{}
	was := w.queued
	w.queued = map[partition.GroupID]actor.Histogram{}
	for _, p := range w.node.GroupHosts() {
		queued := p.Group.Metrics().QueueWait
		w.queued[p.ID] = queued
		inQueue, before := subtract(queued, was[p.ID]), waits[p.ID]
		longest[p.ID] = max(inQueue.Quantile(0.99), before.Quantile(0.99))
	}
	return longest
}

// sumWaits returns how long operations have waited in the server, by group. Writers of a shard that is throttled wait for their
// turn there, which is no wait for its group: they do not count.
func sumWaits(m *partition.Map, times map[partition.ShardID]*load.ShardLoad, throttled []node.ShardThrottle) map[partition.GroupID]actor.Histogram {
	waits := map[partition.GroupID]actor.Histogram{}
	for id, l := range times {
		isThrottled := slices.ContainsFunc(throttled, func(t node.ShardThrottle) bool { return t.Shard == id })
		if s, ok := m.Shard(id); ok && !isThrottled {
			h := waits[s.Group]
			h.Add(l.Wait)
			waits[s.Group] = h
		}
	}
	return waits
}

// subtract returns the samples of a histogram that an earlier one does not have.
func subtract(h, earlier actor.Histogram) actor.Histogram {
	for i, c := range earlier.Counts {
		h.Counts[i] -= min(c, h.Counts[i])
	}
	h.SumNS -= min(earlier.SumNS, h.SumNS)
	return h
}

// measure makes what the classifier wants of a shard.
func (w *observer) measure(s *distributor.Shard, r heat.Rate, times *load.ShardLoad, windows int) classify.ShardMeasures {
	c := classify.ShardMeasures{ID: s.ID, Group: s.Group, Bytes: s.Bytes, Reads: r.Reads, Writes: r.Writes, Work: s.Work, AgeWindows: windows}
	if ops := r.Ops(); ops > 0 {
		c.ScanShare, c.CrossShard = r.ScanReads/max(r.Reads, 1e-9), min(1, r.CrossShard/ops)
	}
	if r.CrossShard > 0 {
		c.Conflicts = min(1, r.Conflicts/r.CrossShard)
	}
	if times != nil {
		c.P99, c.QueueWait = times.Service.Quantile(0.99).Seconds(), times.Wait.Mean().Seconds()
	}
	if e := w.edges[s.ID]; e.isKnown() {
		c.AtEnd = e.share
	}
	meter := w.node.Heat()
	if meter == nil || s.Work < minCutWork {
		return c
	}
	ops := meter.Load(s.Span.Start, s.Span.End).Ops()
	for _, k := range meter.TopIn(heat.ByOps, s.Span.Start, s.Span.End, topKeys) {
		if ops < minCutSamples || k.Count <= 0 {
			break
		}
		// The count by the table and the load by the sample of ranges are two estimates: a share is at most 1.
		of := max(ops, k.Count)
		c.TopKeys = append(c.TopKeys, classify.KeyShare{
			Key: []byte(k.Key), Share: k.Count / of, Error: min(k.Error+k.Deviation, k.Count) / of, Reads: 1 - k.Writes/max(k.Ops, 1),
		})
	}
	return c
}

// measureProcessors measures how many processors the process has used since the round before.
func (w *observer) measureProcessors() {
	user, system := cputime.Used()
	now := time.Now()
	if passed := now.Sub(w.wall); passed >= minCPUWindow {
		w.used = (user + system - w.cpu).Seconds() / passed.Seconds()
		w.cpu, w.wall = user+system, now
	}
}

const (
	// minCPUWindow is the least time over which processors are measured: the clock of a process may tick every 10 ms.
	minCPUWindow = 200 * time.Millisecond
	// maxOverhead is what an operation may cost beside its execution: more than a request by itself costs in parsing,
	// system calls and goroutines, which is 5 to 15 microseconds. What the process uses beyond that is other work, such
	// as compactions, and says nothing about shards.
	maxOverhead = 20e-6
)

// overheadOf is how many seconds of a processor an operation costs beside what was timed: it is where the load comes
// from as well, and moves with it.
func (w *observer) overheadOf(rates map[partition.ShardID]heat.Rate) float64 {
	timed, ops := 0.0, 0.0
	for _, r := range rates {
		timed += r.Service
		ops += r.Ops()
	}
	if ops == 0 {
		return 0
	}
	return min(max(0, w.used-timed)/ops, maxOverhead)
}

// addCuts looks for places to split at, in the shards with the most work and in those that are large.
func (w *observer) addCuts(o *observation, planner *distributor.Planner) {
	var hot []*distributor.Shard
	works, imbalance := o.groupWorks()
	mean := 0.0
	for _, w := range works {
		mean = max(mean, w/imbalance) // that of the busiest by its imbalance
	}
	largest := planner.MaxBytes(o.situation.Shards)
	found := map[partition.ShardID]foundCuts{}
	for i := range o.situation.Shards {
		s := &o.situation.Shards[i]
		s.HotKey, s.HotKeyShare = hottest(o.measures[i].TopKeys)
		if k := o.keyspaces[s.ID]; k == nil || s.IsFixed || s.IsBusy {
			continue
		}
		if s.Bytes > planner.GrowthLimit(s, largest) {
			f := w.sizeCuts[s.ID]
			if !f.fit(s) {
				f = foundCuts{s.Changed, s.Bytes, w.cutsBySize(s, o.keyspaces[s.ID])}
			}
			s.Cuts, found[s.ID] = f.cuts, f
		}
		if s.Work >= minCutWork && works[s.Group] > minCutImbalance*mean {
			hot = append(hot, s)
		}
	}
	w.sizeCuts = found
	slices.SortFunc(hot, func(a, b *distributor.Shard) int { return cmp.Compare(b.Work, a.Work) })
	for _, s := range hot[:min(len(hot), cutShards)] {
		s.Cuts = mergeCuts(s.Cuts, w.cutsByHeat(s, o.keyspaces[s.ID]))
	}
}

// foundCuts are cuts by size of a shard as it was.
type foundCuts struct {
	version partition.Version
	bytes   int64
	cuts    []distributor.SplitPoint
}

// fit reports whether they are of use still: to find others takes reads of many rows.
func (f foundCuts) fit(s *distributor.Shard) bool {
	return f.version == s.Changed && len(f.cuts) > 0 && float64(s.Bytes) <= maxCutGrowth*float64(f.bytes)
}

// hottest returns the hottest key, and which share it has at least.
func hottest(keys []classify.KeyShare) (key []byte, share float64) {
	if len(keys) == 0 {
		return nil, 0
	}
	return keys[0].Key, keys[0].Share - keys[0].Error
}

// cutsByHeat returns cuts between which the load of a shard is about the same.
func (w *observer) cutsByHeat(s *distributor.Shard, k *node.Keyspace) (cuts []distributor.SplitPoint) {
	meter := w.node.Heat()
	if meter == nil {
		return nil
	}
	found, samples := meter.Cuts(s.Span.Start, s.Span.End, heatCuts)
	if samples < minCutSamples {
		return nil
	}
	return distributor.CutsByLoad(found, s.Span, &k.Keyspace, func(at partition.Position) float64 { return w.bytesBefore(s, at) })
}

// bytesBefore is the share of the bytes of a shard before a position, half if that is not known.
func (w *observer) bytesBefore(s *distributor.Shard, at partition.Position) float64 {
	part := s.Shard
	part.Span.End = at
	size, err := w.node.MeasureShard(part)
	if err != nil || s.Bytes == 0 {
		return 0.5
	}
	return min(1, float64(size.Bytes)/float64(s.Bytes))
}

// cutsBySize returns the middle of a shard, and those of its halves.
func (w *observer) cutsBySize(s *distributor.Shard, k *node.Keyspace) (cuts []distributor.SplitPoint) {
	add := func(part partition.Shard) (at partition.Position) {
		at, in, ok := w.node.SplitPoint(part)
		if !ok || in.ID != k.ID {
			return nil
		}
		work := 0.5
		if meter := w.node.Heat(); meter != nil {
			if all := meter.Load(s.Span.Start, s.Span.End).Ops(); all > 0 {
				work = meter.Load(s.Span.Start, at).Ops() / all
			}
		}
		cuts = append(cuts, distributor.SplitPoint{At: at, Bytes: w.bytesBefore(s, at), Work: min(1, work)})
		return at
	}
	if middle := add(s.Shard); middle != nil {
		left, right := s.Shard, s.Shard
		left.Span.End, right.Span.Start = middle, middle
		add(left)
		add(right)
	}
	return mergeCuts(cuts, nil)
}

// mergeCuts returns the cuts of both in their order, each position once, with shares that do not fall.
func mergeCuts(a, b []distributor.SplitPoint) []distributor.SplitPoint {
	cuts := append(slices.Clone(a), b...)
	slices.SortFunc(cuts, func(a, b distributor.SplitPoint) int { return bytes.Compare(a.At, b.At) })
	cuts = slices.CompactFunc(cuts, func(a, b distributor.SplitPoint) bool { return bytes.Equal(a.At, b.At) })
	for i := 1; i < len(cuts); i++ {
		cuts[i].Work, cuts[i].Bytes = max(cuts[i].Work, cuts[i-1].Work), max(cuts[i].Bytes, cuts[i-1].Bytes)
	}
	return cuts
}
