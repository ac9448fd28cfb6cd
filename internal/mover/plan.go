package mover

import (
	"fmt"

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
	// Rows and Bytes are to be carried to other stores.
	Rows, Bytes uint64
	// Moves is how many shards get another owner.
	Moves int
	// DurationMS is of all of it, PauseMS how long each range that goes to
	// another store takes no writes.
	DurationMS, PauseMS int64
	Before, After       Skew
}

// Rates are what a driver has measured.
type Rates struct {
	// BytesPerSecond is how fast rows are carried. Default 100 MiB: what a
	// single stream of a store gives.
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
func Plan(v View, r Request, rates Rates) (Price, error) {
	j, err := Admit(v, r, 1, 0)
	if err != nil {
		return Price{}, err
	}
	rates = rates.withDefaults()
	if r.Throttle > 0 {
		rates.BytesPerSecond = min(rates.BytesPerSecond, r.Throttle)
	}
	m, moves, err := j.outlook(v)
	if err != nil {
		return Price{}, err
	}
	p := Price{Before: v.skew(v.Map), Moves: len(moves), DurationMS: localRounds * rates.RoundMS}
	for _, move := range moves {
		s, _ := m.Shard(move.Shard)
		// A group that is yet to be added may be anywhere.
		if _, known := v.Map.Group(move.To); known && v.home(s.Group) == v.home(move.To) {
			p.DurationMS += localRounds * rates.RoundMS
		} else {
			size := v.size(s.ID)
			p.Rows, p.Bytes = p.Rows+size.Rows, p.Bytes+size.Bytes
			p.PauseMS = frozenRounds * rates.RoundMS
			p.DurationMS += moveRounds * rates.RoundMS
		}
		if m, err = m.Apply(partition.Assign{Shard: move.Shard, To: move.To}); err != nil {
			return Price{}, fmt.Errorf("plan: %w", err)
		}
	}
	p.DurationMS += int64(p.Bytes * 1000 / rates.BytesPerSecond)
	p.After = v.skew(m)
	return p, nil
}

// outlook returns the moves that a job would make if nothing else happened, and
// the map before the first of them.
func (j *Job) outlook(v View) (*partition.Map, []Request, error) {
	switch j.Kind {
	case Move:
		return v.Map, []Request{{Kind: Move, Shard: j.Shard, To: j.To}}, nil
	case Drain, Regroup:
	default:
		return v.Map, nil, nil
	}
	edits, _ := j.marks(v.Map)
	m, err := v.Map, error(nil)
	if len(edits) > 0 {
		if m, err = v.Map.Apply(edits...); err != nil {
			return nil, nil, err
		}
	}
	planned := *j
	planned.Parallel = m.Len() // all of them, not only those that come first
	if len(planned.Groups) == 0 {
		planned.Groups = added(v.Map, m)
	}
	v.Map, v.Jobs = m, nil
	moves, _ := planned.wanted(v)
	return m, moves, nil
}
