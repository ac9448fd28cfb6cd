package mover

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Decide makes the decision of a job: the record in which it goes forward, the
// map that it makes, and what the job wants then. It is called with the stored
// record and the newest map, and what it returns is stored in their places as
// one; where the groups concerned share the store, what the job wants may be a
// part of that too. If it returns an error, nothing is stored, and the error is
// the answer to the Choose.
//
// Everything that races with a decision changes the record: a cancel, a freeze
// that takes too long, another driver. So there is one decision, or none.
func Decide(j Job, c Choose, m *partition.Map, nowMS int64) (Job, *partition.Map, []Effect, error) {
	if c.Round != j.Round && !plant.Bug("mover-decided-after-rollback") {
		return j, nil, nil, fmt.Errorf("%w: it has gone on", ErrNotDeciding)
	}
	var edits []partition.Edit
	then := Releasing
	switch j.Phase {
	case Deciding:
		edits = []partition.Edit{j.edit()}
	case Marking:
		edits, then = j.marks(m)
	case Removing:
		then = Done
		for _, g := range j.Groups {
			edits = append(edits, partition.RemoveGroup{Group: g})
		}
	case Unmarking:
		then = RolledBack
		marked := j.Marked
		if plant.Bug("mover-unmarks-for-others") {
			marked = j.Groups
		}
		edits = unmarks(m, marked)
	default:
		if !plant.Bug("mover-decided-after-rollback") || j.Kind != Move || j.Decided() {
			return j, nil, nil, fmt.Errorf("%w: it is %v", ErrNotDeciding, j.Phase)
		}
		edits = []partition.Edit{j.edit()}
	}
	if len(edits) == 0 {
		j.become(then, nowMS)
		return j, m, Resume(j), nil
	}
	next, err := m.Apply(edits...)
	if err != nil {
		return j, nil, nil, err
	}
	switch {
	case then == Hosting:
		j.Groups = added(m, next)
	case j.Phase == Marking && j.Kind != Undrain:
		// Another group may have begun to drain since the job was admitted.
		if err := nowhere(View{Map: next}); err != nil {
			return j, nil, nil, err
		}
		j.Marked = j.unmarked(m)
	}
	if j.Version = next.Version(); !j.Undo { // of one that is taken back it says why
		j.Why = ""
	}
	j.become(then, nowMS)
	return j, next, Resume(j), nil
}

// edit is what the job does to the map.
func (j *Job) edit() partition.Edit {
	switch j.Kind {
	case Split:
		return partition.Split{Shard: j.Shard, In: j.In, At: j.At, Expect: j.Expect}
	case Merge:
		return partition.Merge{Left: j.Shard, Right: j.Right, ExpectLeft: j.Expect, ExpectRight: j.ExpectRight}
	}
	return partition.Assign{Shard: j.Shard, To: j.To, Expect: j.Expect}
}

// added returns the groups that a map has and the one before it had not.
func added(before, now *partition.Map) (ids []partition.GroupID) {
	for _, g := range now.Groups() {
		if g.ID >= before.NextGroup() {
			ids = append(ids, g.ID)
		}
	}
	return ids
}
