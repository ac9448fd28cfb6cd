package mover

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// A job that is done by others looks at the map and at the jobs that there are,
// asks for those that bring it nearer to its end, and looks again. It remembers
// nothing about them, so that nothing can be forgotten: what is asked for twice
// is refused, because the range is busy or has changed.

// marks returns how the job changes groups before shards are moved, and what
// comes then.
func (j *Job) marks(m *partition.Map) (edits []partition.Edit, then Phase) {
	if j.Kind == Undrain {
		return unmarks(m, j.Groups), Done
	}
	if j.Kind == Regroup && len(j.Groups) == 0 {
		for _, labels := range j.Labels {
			edits = append(edits, partition.AddGroup{Labels: labels})
		}
		return edits, Hosting
	}
	for _, id := range j.unmarked(m) {
		edits = append(edits, partition.SetDraining{Group: id, Draining: true})
	}
	return edits, Surveying
}

// unmarked returns which of the job's groups do not drain. One that is not there is an
// error of the map's.
func (j *Job) unmarked(m *partition.Map) (ids []partition.GroupID) {
	for _, id := range j.Groups {
		if g, ok := m.Group(id); !ok || !g.Draining {
			ids = append(ids, id)
		}
	}
	return ids
}

// unmarks takes marks back. Groups that were added stay: they may have shards.
func unmarks(m *partition.Map, groups []partition.GroupID) (edits []partition.Edit) {
	for _, id := range groups {
		if g, ok := m.Group(id); ok && g.Draining {
			edits = append(edits, partition.SetDraining{Group: id})
		}
	}
	return edits
}

// surveyed returns the jobs to ask for, and goes on when none is left.
func (j *Job) surveyed(v View, nowMS int64) (effects []Effect) {
	if j.Paused || v.Map == nil || j.Phase != Surveying && j.Phase != Stopping {
		return nil
	}
	children, others := 0, false
	var before *Job // that has to end, or to go on, before this one can
	for i := range v.Jobs {
		c := &v.Jobs[i]
		switch {
		case c.Phase.Final():
			continue
		case c.Parent == j.ID:
			children++
			if j.Phase == Stopping && !c.Undo && !c.Decided() {
				effects = append(effects, Stop{Job: c.ID})
			}
		case j.Phase == Stopping:
			continue
		case j.awaits(c, v.Map) && !plant.Bug("mover-group-removed-under-a-job"):
			others = true
		case j.Kind != PreSplit || !slices.ContainsFunc(j.At, c.Span.Contains) || c.Kind.composite():
			continue
		}
		if before == nil || before.Paused && !c.Paused {
			before = c
		}
	}
	if j.Phase == Stopping {
		if j.explainStop(before, nowMS); children == 0 {
			j.become(Unmarking, nowMS)
		}
		return effects
	}
	wanted, left := j.wanted(v)
	for _, r := range wanted[:min(len(wanted), max(j.Parallel-children, 0))] {
		effects = append(effects, Spawn{Request: r})
		if r.Kind == Split {
			j.Cost.Splits++
		}
	}
	if n := len(effects); n > 0 {
		j.Cost.Children += uint64(n)
		j.touch(nowMS)
	}
	if len(effects) == 0 {
		j.explain(v, left && children == 0, before, nowMS)
	}
	if left || children > 0 || others {
		return effects
	}
	if j.Kind == Regroup && j.shrinks(v.Map) {
		j.become(Retiring, nowMS)
	} else {
		j.become(Done, nowMS)
	}
	return nil
}

// explain says, for whoever wonders, why nothing happens: a shard has nowhere to go, a store
// has failed, or another job stands still, or it is not one of this job's.
func (j *Job) explain(v View, stuck bool, before *Job, nowMS int64) {
	const waits = "waits for job "
	why := j.Why
	if strings.HasPrefix(why, waits) || strings.HasPrefix(why, storeOf) {
		why = "" // that may be over
	}
	switch {
	case before != nil && before.Paused:
		why = fmt.Sprintf(waits+"%d, which is paused: resume or cancel it", before.ID)
	case before != nil && before.Parent != j.ID:
		why = fmt.Sprintf(waits+"%d, a %v", before.ID, before.Kind)
	case stuck:
		err := v.anyFailed()
		if err == nil && j.Kind != PreSplit {
			err = nowhere(v)
		}
		if err != nil {
			why = reason(err)
		}
	}
	j.because(why, nowMS)
}

// explainStop adds to why the job is taken back for whom it has to wait: of those that it has
// asked for, one that cannot be stopped, or was, and stands still.
func (j *Job) explainStop(before *Job, nowMS int64) {
	const waits = "; waits for job "
	why, _, _ := strings.Cut(j.Why, waits)
	if before != nil && before.Paused && (before.Undo || before.Decided()) {
		why += fmt.Sprintf(waits+"%d, which is paused: resume it", before.ID)
	}
	j.because(why, nowMS)
}

// because notes why the job is where it is.
func (j *Job) because(why string, nowMS int64) {
	if why != j.Why {
		j.Why = why
		j.touch(nowMS)
	}
}

// awaits tells whether another job still needs a group that this one empties: its
// rows are to be removed there, or have begun to come. None begins any more.
func (j *Job) awaits(c *Job, m *partition.Map) bool {
	return (j.Kind == Drain || j.Kind == Regroup && j.shrinks(m)) && !c.Kind.composite() &&
		(slices.Contains(j.Groups, c.From) || slices.Contains(j.Groups, c.To))
}

// shrinks tells whether the job's groups are to be removed.
func (j *Job) shrinks(m *partition.Map) bool {
	for _, id := range j.Groups {
		if g, ok := m.Group(id); ok && g.Draining {
			return true
		}
	}
	return false
}

// wanted returns jobs that bring this one nearer to its end, and whether there
// is anything left to do.
func (j *Job) wanted(v View) (requests []Request, left bool) {
	switch {
	case j.Kind == PreSplit:
		return j.wantedSplits(v)
	case j.Kind == Drain || j.shrinks(v.Map):
		return j.wantedAway(v)
	}
	return j.wantedHere(v)
}

// wantedSplits asks for a split of each shard that a boundary lies in.
func (j *Job) wantedSplits(v View) (requests []Request, left bool) {
	for i := 0; i < len(j.At); {
		s := v.Map.Find(j.At[i])
		r := Request{Kind: Split, Shard: s.ID, Expect: s.Changed, In: j.In, Parent: j.ID}
		for ; i < len(j.At) && s.Span.Contains(j.At[i]); i++ {
			if !bytes.Equal(j.At[i], s.Span.Start) {
				r.At = append(r.At, j.At[i])
			}
		}
		if len(r.At) == 0 {
			continue
		}
		if left = true; !busy(v.Jobs, s.Span) && v.failed(s.Group) == nil {
			requests = append(requests, r)
		}
	}
	return requests, left
}

// wantedAway asks for a move of each shard of the job's groups.
func (j *Job) wantedAway(v View) (requests []Request, left bool) {
	loads := loadsOf(v)
	for s := range v.Map.Misplaced() {
		if !slices.Contains(j.Groups, s.Group) {
			continue
		}
		if plant.Bug("mover-drain-leaves-a-shard") && s.ID%2 == 0 {
			continue
		}
		left = true
		if to := loads.least(&v, s); to != 0 && v.failed(s.Group) == nil && !busy(v.Jobs, s.Span) {
			size := v.weight(s.ID)
			loads[s.Group], loads[to] = loads[s.Group]-size, loads[to]+size // as if it were done
			requests = append(requests, j.move(s, to))
		}
	}
	return requests, left
}

// wantedHere asks for moves to groups that were added, and for splits where shards are
// too large to fill them evenly. Where a store has failed it is not over: who would give or
// take more than the others waits for it.
func (j *Job) wantedHere(v View) (requests []Request, left bool) {
	f := j.filling(v)
	for len(requests) < j.Parallel {
		r, p, ok := f.next()
		if !ok {
			break
		}
		if r.Kind == Split {
			f.pend(p)
		}
		requests = append(requests, r)
	}
	return requests, len(requests) > 0 || v.anyFailed() != nil
}

// move asks for a move.
func (j *Job) move(s partition.Shard, to partition.GroupID) Request {
	return Request{Kind: Move, Shard: s.ID, Expect: s.Changed, To: to, Throttle: j.Throttle, Parent: j.ID}
}

// busy tells whether a job changes a part of a span.
func busy(jobs []Job, s partition.Span) bool { return inTheWay(jobs, s) != nil }

// Busy returns a [BusyError] if one of the jobs changes a part of a span.
func Busy(jobs []Job, s partition.Span) error {
	if other := inTheWay(jobs, s); other != nil {
		return busyWith(other)
	}
	return nil
}

func inTheWay(jobs []Job, s partition.Span) *Job {
	for i := range jobs {
		if c := &jobs[i]; !c.Phase.Final() && !c.Kind.composite() && c.Span.Overlaps(s) && !plant.Bug("mover-second-job") {
			return c
		}
	}
	return nil
}
