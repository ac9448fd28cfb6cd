package mover

import (
	"github.com/cleavekv/cleave/partition"
)

// Size is what is known about a shard.
type Size struct {
	Rows, Bytes uint64
	// Heat is how much work the shard makes, in any unit.
	Heat float64
}

// Skew is how much more the fullest group has than the mean: 1 is even.
type Skew struct{ Bytes, Heat float64 }

// Price is what a job is expected to cost, and to change.
type Price struct {
	// Rows and Bytes are to be copied to other stores.
	Rows, Bytes uint64
	// Moves is how many shards get another owner, and Splits how many are cut for that.
	Moves, Splits int
	// DurationMS is of all of it, PauseMS how long each range that goes to
	// another store takes no writes.
	DurationMS, PauseMS int64
	Before, After       Skew
}

// Rates are what a driver has measured.
type Rates struct {
	// BytesPerSecond is how fast rows are copied. Default 100 MiB: what a single stream of a
	// store gives.
	BytesPerSecond uint64
	// RoundMS is how long a durable command takes, there and back. Default 2.
	RoundMS int64
}

func (r Rates) withDefaults() Rates {
	if r.BytesPerSecond == 0 {
		r.BytesPerSecond = 100 << 20
	}
	if r.RoundMS == 0 {
		r.RoundMS = 2
	}
	return r
}

// frozenRounds is how many durable commands and comparisons a range is frozen
// for: freeze, catch up, compare, decide, release, activate.
const frozenRounds = 6

// moveRounds is how many a move to another store takes altogether, without
// chunks, and localRounds how many any other job.
const (
	moveRounds  = 18
	localRounds = 4
)

// Plan returns what a request would cost, or why it is refused. It changes
// nothing.
func Plan(v ClusterState, r Request, rates Rates) (Price, error) {
	j, err := Admit(v, r, 1, 0)
	if err != nil {
		return Price{}, err
	}
	rates = rates.withDefaults()
	if r.Throttle > 0 {
		rates.BytesPerSecond = min(rates.BytesPerSecond, r.Throttle)
	}
	m, steps, err := j.planSteps(v)
	if err != nil {
		return Price{}, err
	}
	now := v.sumByGroup(m)
	p := Price{Before: v.sumByGroup(v.Map).measureSkew(v.Map), DurationMS: localRounds * rates.RoundMS}
	for _, step := range steps {
		if step.Kind == Split {
			p.Splits++
			p.DurationMS += localRounds * rates.RoundMS
			continue
		}
		p.Moves++
		if v.storeOfGroup(step.source) == v.storeOfGroup(step.To) {
			p.DurationMS += localRounds * rates.RoundMS
		} else {
			p.Rows, p.Bytes = p.Rows+step.size.Rows, p.Bytes+step.size.Bytes
			p.PauseMS = frozenRounds * rates.RoundMS
			p.DurationMS += moveRounds * rates.RoundMS
		}
		now.countMove(step)
	}
	p.DurationMS += int64(p.Bytes * 1000 / rates.BytesPerSecond)
	p.After = now.measureSkew(m)
	return p, nil
}

// plannedStep is a job that another one will ask for, with what it is about.
type plannedStep struct {
	Request
	source    partition.GroupID
	size      Size
	isPartial bool // of a shard that is split before
}

// planSteps returns the steps that a job would take if nothing else happened, and
// the map before the first of them.
func (j *Job) planSteps(v ClusterState) (m *partition.Map, steps []plannedStep, err error) {
	switch j.Kind {
	case Move:
		return v.Map, []plannedStep{{Request: Request{Kind: Move, Shard: j.Shard, To: j.To}, source: j.From, size: v.sizeOfShard(j.Shard)}}, nil
	case Drain, Regroup:
	default:
		return v.Map, nil, nil
	}
	edits, _ := j.makeMarkEdits(v.Map)
	m = v.Map
	if len(edits) > 0 {
		if m, err = v.Map.Apply(edits...); err != nil {
			return nil, nil, err
		}
	}
	planned := *j
	if len(planned.Groups) == 0 {
		planned.Groups = listAddedGroups(v.Map, m)
	}
	v.Map, v.Jobs = m, nil
	if j.Kind == Drain || planned.isShrinking(m) {
		return m, planned.planDrainSteps(v), nil
	}
	return m, planned.planFillSteps(v), nil
}

// planDrainSteps returns all moves that a job would ask for to empty its groups.
func (j *Job) planDrainSteps(v ClusterState) (steps []plannedStep) {
	moves, _ := j.nextDrainMoves(v)
	owner := map[partition.ShardID]partition.GroupID{}
	for s := range v.Map.Shards(partition.Whole) {
		owner[s.ID] = s.Group
	}
	for _, r := range moves {
		steps = append(steps, plannedStep{Request: r, source: owner[r.Shard], size: v.sizeOfShard(r.Shard)})
	}
	return steps
}

// planFillSteps returns all steps that a job would ask for to fill its groups.
func (j *Job) planFillSteps(v ClusterState) (steps []plannedStep) {
	f := j.newFillPlan(v)
	for {
		r, p, ok := f.next()
		if !ok {
			return steps
		}
		steps = append(steps, plannedStep{Request: r, source: p.Group, size: p.size, isPartial: p.isPartial})
		if r.Kind == Split {
			f.splitCandidate(p, r.At[0])
		}
	}
}
