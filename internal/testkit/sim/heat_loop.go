package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// heatLoop relieves groups that are hot, as the balancer of a node does: it measures what shards are asked, lets the
// planner of package distributor plan, and begins what that proposes. Its knobs make it split, move and merge for the
// least of reasons.
type heatLoop struct {
	w       *world
	planner *distributor.Planner
	// seen is a sample of what was asked, whose older part counts less, as of seenAt.
	seen   *heat.Ranges
	seenAt int64
	// pieces are those of the planner as they were stored last: they survive a crash of the process.
	pieces []partition.ShardID
}

// restlessKnobs are those of the loop: each rate is trusted after two rounds, and whatever saves work pays.
var restlessKnobs = distributor.Knobs{
	MaxShardBytes: 4 << 10, MinShardBytes: 64, Imbalance: 1.01, BusyWork: 0.02, ColdWork: 0.002, MaxMoves: 100, MaxJobs: 4,
	Settle: 2 * simTime(heatRound), Residence: 4 * simTime(heatRound), Payback: time.Hour, MaxEdgeSplits: 1000,
}

const (
	// heatRound is the time between two rounds, and heatHalfLife after which what was asked counts half.
	heatRound    = 10 * millisecond
	heatHalfLife = 5 * heatRound
	// opWork and byteWork are how long a group is taken to work on an operation, and on a byte of it: so that those of a
	// world keep its groups busy for about half of their time.
	opWork   = 3e-3
	byteWork = 5e-6
	// maxHeatShards is up to how many shards the loop splits, and heatCuts how many cuts it looks for.
	maxHeatShards = 18
	heatCuts      = 16
	// hotPeriod is for how long a letter is the hottest.
	hotPeriod = 300 * millisecond
)

// simTime is a time of a world as the planner wants it.
func simTime(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// newHeatLoop returns a loop that knows what was stored of the one before.
func newHeatLoop(w *world, pieces []partition.ShardID) *heatLoop {
	h := &heatLoop{w: w, pieces: pieces, seenAt: w.now}
	var err error
	h.planner, err = distributor.NewPlanner(restlessKnobs, pieces...)
	w.must(err, "a planner")
	h.seen, err = heat.NewRanges(2048, w.cfg.Seed)
	w.must(err, "a sample of ranges")
	return h
}

// recordHeat adds an operation on a position to what was asked.
func (w *world) recordHeat(p partition.Position, size int) {
	if w.heat != nil {
		w.heat.seen.Add(&heat.Access{Key: p, BytesIn: size}, 1)
	}
}

// runRound asks for the jobs that are under way, and plans with what it knows then.
func (h *heatLoop) runRound() {
	w := h.w
	if w.isQuiescing {
		return
	}
	w.sendCommand(message{"surveying", true}, catalogGroup, func() command.Command { return catalogKeys.ListJobs() }, func(r command.Reply) {
		jobs, err := protocol.DecodeJobs(r)
		w.must(err, "the records of jobs")
		if w.heat == h && !w.isQuiescing {
			h.relieve(slices.DeleteFunc(jobs, func(j mover.Job) bool { return j.Phase.IsFinal() }))
		}
	})
}

// relieve plans, and begins what is planned.
func (h *heatLoop) relieve(jobs []mover.Job) {
	w := h.w
	h.seen.Scale(math.Exp2(-float64(w.now-h.seenAt) / float64(heatHalfLife)))
	h.seenAt = w.now
	m := w.router
	v := distributor.Situation{Now: simTime(w.now), Jobs: len(jobs)}
	for _, g := range m.Groups() {
		v.Groups = append(v.Groups, distributor.GroupState{Group: g, Capacity: 1})
	}
	for s := range m.Shards(partition.Whole) {
		v.Shards = append(v.Shards, h.measureShard(s, jobs))
	}
	w.addCount("rounds of the heat loop")
	for _, p := range h.planner.Step(v) {
		if p.Change == distributor.Keep || p.Change == distributor.Split && m.Len() >= maxHeatShards {
			continue
		}
		s, _ := m.Shard(p.Shard)
		w.addCount("plans of the heat loop")
		w.admitJob(message{"admitting", false}, p.Request(s, &dataKeyspace), fmt.Sprintf("%ss by heat", p.Change))
	}
	h.pieces = h.planner.Pieces()
}

// measureShard returns what the planner is shown of a shard.
func (h *heatLoop) measureShard(s partition.Shard, jobs []mover.Job) distributor.Shard {
	const window = float64(heatHalfLife) / float64(second) / math.Ln2
	l := h.seen.Load(s.Span.Start, endOrNil(s.Span.End))
	x := distributor.Shard{
		Shard: s, Keyspace: dataKeyspace.ID, Bytes: h.sumBytes(s.Group, s.Span), Work: (l.Ops()*opWork + l.BytesIn*byteWork) / window,
		IsBusy: mover.CheckBusy(jobs, s.Span) != nil, IsFixed: catalogKeys.IsFixed(s),
	}
	if !x.IsBusy && !x.IsFixed {
		found, _ := h.seen.Cuts(s.Span.Start, endOrNil(s.Span.End), heatCuts)
		x.Cuts = distributor.CutsByLoad(found, s.Span, &dataKeyspace, func(at partition.Position) float64 {
			return float64(h.sumBytes(s.Group, partition.Span{Start: s.Span.Start, End: at})) / float64(max(x.Bytes, 1))
		})
	}
	return x
}

// endOrNil is the end of a span as package heat wants it.
func endOrNil(end partition.Position) []byte {
	if len(end) == 0 {
		return nil
	}
	return end
}

// sumBytes is how many bytes of a span a group has, 0 while it is down.
func (h *heatLoop) sumBytes(g partition.GroupID, s partition.Span) (n int64) {
	p, err := h.w.findHost(g)
	if err != nil {
		return 0
	}
	from, to := effect.Rows.SpanBetween(s.Start, s.End)
	h.w.must(p.Store.Scan(from, to, false, func(key, value []byte) bool {
		n += int64(len(key) + len(value))
		return true
	}), "look how large a shard is")
	return n
}

// drawHotLetters returns n letters, two of five times the hottest first: another one each time that the heat moves on.
func (w *world) drawHotLetters(n int) (list []string) {
	hottest := int(w.now / hotPeriod)
	for len(list) < n {
		rank := 0
		for rank < len(letters)-1 && w.drawChance(400) {
			rank++
		}
		if l := letters[(hottest+rank)%len(letters)]; !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	slices.Sort(list)
	return list
}

// edgeKey is the key of a number, in the order of time.
func edgeKey(n int) string { return makeKey("c", "time", 100_000+n) }

// pickEdgeKey returns the newest of the keys that come in the order of time, or one that is newer.
func (w *world) pickEdgeKey() string {
	w.edgeKeys += w.rng.IntN(2)
	return edgeKey(w.edgeKeys)
}
