package mover

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/partition"
)

// A job that is done by other jobs reads the map and the jobs that there are, asks for those
// that take it nearer to its end, and reads again. It remembers nothing about them, so that
// nothing can be forgotten: what is asked for twice is refused, because the range is busy or has
// changed.

// makeMarkEdits returns how the job changes groups before shards are moved, and what
// comes then.
func (j *Job) makeMarkEdits(m *partition.Map) (edits []partition.Edit, then Phase) {
	if j.Kind == Undrain {
		return makeUnmarkEdits(m, j.Groups), Done
	}
	if j.Kind == Regroup && len(j.Groups) == 0 {
		for _, labels := range j.Labels {
			edits = append(edits, partition.AddGroup{Labels: labels})
		}
		return edits, Hosting
	}
	for _, id := range j.listUnmarked(m) {
		edits = append(edits, partition.SetDraining{Group: id, Draining: true})
	}
	return edits, Surveying
}

// listUnmarked returns which of the job's groups do not drain. One that is not there is an
// error of the map's.
func (j *Job) listUnmarked(m *partition.Map) (ids []partition.GroupID) {
	for _, id := range j.Groups {
		if g, ok := m.Group(id); !ok || !g.Draining {
			ids = append(ids, id)
		}
	}
	return ids
}

// makeUnmarkEdits takes marks back. Groups that were added stay: they may have shards.
func makeUnmarkEdits(m *partition.Map, groups []partition.GroupID) (edits []partition.Edit) {
	for _, id := range groups {
		if g, ok := m.Group(id); ok && g.Draining {
			edits = append(edits, partition.SetDraining{Group: id})
		}
	}
	return edits
}

// handleSurvey returns the jobs to ask for, and goes on when none is left.
func (j *Job) handleSurvey(v ClusterState, nowMS int64) (effects []Effect) {
	if j.Paused || v.Map == nil || j.Phase != Surveying && j.Phase != Stopping {
		return nil
	}
	children, others := 0, false
	var before *Job // that has to end, or to go on, before this one can
	for i := range v.Jobs {
		c := &v.Jobs[i]
		switch {
		case c.Phase.IsFinal():
			continue
		case c.Parent == j.ID:
			children++
			if j.Phase == Stopping && !c.Undo && !c.IsDecided() {
				effects = append(effects, CancelJob{Job: c.ID})
			}
		case j.Phase == Stopping:
			continue
		case j.mustWaitFor(c, v.Map):
			others = true
		case j.Kind != PreSplit || !slices.ContainsFunc(j.At, c.Span.Contains) || c.Kind.isComposite():
			continue
		}
		if before == nil || before.Paused && !c.Paused {
			before = c
		}
	}
	if j.Phase == Stopping {
		if j.explainStop(before, nowMS); children == 0 {
			j.enterPhase(Unmarking, nowMS)
		}
		return effects
	}
	wanted, left := j.nextRequests(v)
	for _, r := range wanted[:min(len(wanted), max(j.Parallel-children, 0))] {
		effects = append(effects, StartJob{Request: r})
		if r.Kind == Split {
			j.Cost.Splits++
		}
	}
	if n := len(effects); n > 0 {
		j.Cost.Children += uint64(n)
		j.markChanged(nowMS)
	}
	if len(effects) == 0 {
		j.explainStall(v, left && children == 0, before, nowMS)
	}
	if left || children > 0 || others {
		return effects
	}
	if j.Kind == Regroup && j.isShrinking(v.Map) {
		j.enterPhase(Retiring, nowMS)
	} else {
		j.enterPhase(Done, nowMS)
	}
	return nil
}

// explainStall records why nothing happens, for the operator: a shard has nowhere to go, a store
// has failed, or another job stands still, or it is not one of this job's.
func (j *Job) explainStall(v ClusterState, stuck bool, before *Job, nowMS int64) {
	const waits = "waits for job "
	why := j.Reason
	if strings.HasPrefix(why, waits) || strings.HasPrefix(why, storeErrorPrefix) {
		why = "" // that may be over
	}
	switch {
	case before != nil && before.Paused:
		why = fmt.Sprintf(waits+"%d, which is paused: resume or cancel it", before.ID)
	case before != nil && before.Parent != j.ID:
		why = fmt.Sprintf(waits+"%d, a %v", before.ID, before.Kind)
	case stuck:
		err := v.checkAllStores()
		if err == nil && j.Kind != PreSplit {
			err = checkDrainTargets(v)
		}
		if err != nil {
			why = formatReason(err)
		}
	}
	j.setReason(why, nowMS)
}

// explainStop adds to the reason why the job is taken back which job it waits for: of those that
// it has asked for, one that cannot be stopped, or was, and stands still.
func (j *Job) explainStop(before *Job, nowMS int64) {
	const waits = "; waits for job "
	why, _, _ := strings.Cut(j.Reason, waits)
	if before != nil && before.Paused && (before.Undo || before.IsDecided()) {
		why += fmt.Sprintf(waits+"%d, which is paused: resume it", before.ID)
	}
	j.setReason(why, nowMS)
}

// setReason notes why the job is where it is.
func (j *Job) setReason(why string, nowMS int64) {
	if why != j.Reason {
		j.Reason = why
		j.markChanged(nowMS)
	}
}

// mustWaitFor reports whether another job still needs a group that this one empties: its
// rows are to be removed there, or have begun to come. None begins any more.
func (j *Job) mustWaitFor(c *Job, m *partition.Map) bool {
	return (j.Kind == Drain || j.Kind == Regroup && j.isShrinking(m)) && !c.Kind.isComposite() &&
		(slices.Contains(j.Groups, c.From) || slices.Contains(j.Groups, c.To))
}

// isShrinking reports whether the job's groups are to be removed.
func (j *Job) isShrinking(m *partition.Map) bool {
	for _, id := range j.Groups {
		if g, ok := m.Group(id); ok && g.Draining {
			return true
		}
	}
	return false
}

// nextRequests returns jobs that take this one nearer to its end, and whether there is anything
// left to do.
func (j *Job) nextRequests(v ClusterState) (requests []Request, left bool) {
	switch {
	case j.Kind == PreSplit:
		return j.nextSplits(v)
	case j.Kind == Drain || j.isShrinking(v.Map):
		return j.nextDrainMoves(v)
	}
	return j.nextFillRequests(v)
}

// nextSplits asks for a split of each shard that a boundary lies in.
func (j *Job) nextSplits(v ClusterState) (requests []Request, left bool) {
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
		if left = true; !isBusy(v.Jobs, s.Span) && v.checkStores(s.Group) == nil {
			requests = append(requests, r)
		}
	}
	return requests, left
}

// nextDrainMoves asks for a move of each shard of the job's groups.
func (j *Job) nextDrainMoves(v ClusterState) (requests []Request, left bool) {
	loads := measureLoads(v)
	for s := range v.Map.Misplaced() {
		if !slices.Contains(j.Groups, s.Group) {
			continue
		}
		left = true
		if to := loads.findLeastLoaded(&v, s); to != 0 && v.checkStores(s.Group) == nil && !isBusy(v.Jobs, s.Span) {
			size := v.weightOfShard(s.ID)
			loads[s.Group], loads[to] = loads[s.Group]-size, loads[to]+size // as if it were done
			requests = append(requests, j.newMoveRequest(s, to))
		}
	}
	return requests, left
}

// nextFillRequests asks for moves to groups that were added, and for splits where shards are too
// large to fill them evenly. Where a store has failed it is not over: a group that would give or
// take more than the others waits for it.
func (j *Job) nextFillRequests(v ClusterState) (requests []Request, left bool) {
	f := j.newFillPlan(v)
	for len(requests) < j.Parallel {
		r, p, ok := f.next()
		if !ok {
			break
		}
		if r.Kind == Split {
			f.countSplit(p)
		}
		requests = append(requests, r)
	}
	return requests, len(requests) > 0 || v.checkAllStores() != nil
}

// newMoveRequest asks for a move.
func (j *Job) newMoveRequest(s partition.Shard, to partition.GroupID) Request {
	return Request{Kind: Move, Shard: s.ID, Expect: s.Changed, To: to, Throttle: j.Throttle, Parent: j.ID}
}

// isBusy reports whether a job changes a part of a span.
func isBusy(jobs []Job, s partition.Span) bool { return findConflictingJob(jobs, s) != nil }

// CheckBusy returns a [BusyError] if one of the jobs changes a part of a span.
func CheckBusy(jobs []Job, s partition.Span) error {
	if other := findConflictingJob(jobs, s); other != nil {
		return newBusyError(other)
	}
	return nil
}

func findConflictingJob(jobs []Job, s partition.Span) *Job {
	for i := range jobs {
		if c := &jobs[i]; !c.Phase.IsFinal() && !c.Kind.isComposite() && c.Span.Overlaps(s) {
			return c
		}
	}
	return nil
}
