package mover

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Request asks for a job.
type Request struct {
	Kind Kind
	// Shard is to be split or moved, or the left one of a merge with Right.
	Shard, Right partition.ShardID
	// Expect and ExpectRight are when they last changed; 0 does not ask.
	Expect, ExpectRight partition.Version
	// In and At are where to split, as in [partition.Split]. A PreSplit takes
	// boundaries in any shards, those that are there already too.
	In *partition.Keyspace
	At []partition.Position
	// To is where a shard is moved.
	To partition.GroupID
	// Group is to be drained, or to have shards again.
	Group partition.GroupID
	// Groups is how many groups there are to be after a Regroup, and Labels are
	// those of groups to add, one for each.
	Groups int
	Labels []partition.Labels
	// Parallel is how many shards are moved at a time, default 1.
	Parallel int
	// Throttle is how many bytes a second each move may copy; 0 is any number.
	Throttle uint64
	// Parent is the job that asks.
	Parent ownership.JobID
}

// maxParallel bounds how many ranges of one job are under way.
const maxParallel = 64

// Admit makes the job that a request asks for, or returns why not, and then
// nothing has changed. It is called where the job is stored, as one with that:
// otherwise two jobs for one range could be admitted. The id is one that no job
// ever had.
func Admit(v ClusterState, r Request, id ownership.JobID, nowMS int64) (Job, error) {
	j := Job{
		ID: id, Kind: r.Kind, Phase: Planned, Rev: 1, Round: 1, Parent: r.Parent,
		In: r.In, At: r.At, Parallel: max(r.Parallel, 1), Throttle: r.Throttle, CreatedMS: nowMS, ChangedMS: nowMS,
	}
	if err := checkThrottle(r.Throttle); err != nil {
		return Job{}, err
	}
	if r.Parallel < 0 || r.Parallel > maxParallel {
		return Job{}, fmt.Errorf("%w: Parallel is %d: use 1 to %d", ErrBadRequest, r.Parallel, maxParallel)
	}
	var err error
	switch r.Kind {
	case Split, Merge, Move:
		err = j.admitChange(v, r)
	case PreSplit:
		err = j.admitPreSplit(v)
	case Drain:
		err = j.admitDrain(v, []partition.GroupID{r.Group})
	case Undrain:
		err = j.admitUndrain(v, r.Group)
	case Regroup:
		err = j.admitRegroup(v, r)
	default:
		err = fmt.Errorf("%w: %v", ErrBadRequest, r.Kind)
	}
	if err != nil {
		return Job{}, err
	}
	j.JobFloor = findJobFloor(v.Jobs, id)
	return j, nil
}

// findJobFloor returns the lowest number of jobs that change ranges and have not ended. Those
// that are done by others never send anything to a group.
func findJobFloor(jobs []Job, id ownership.JobID) ownership.JobID {
	for i := range jobs {
		if o := &jobs[i]; !o.Phase.IsFinal() && !o.Kind.isComposite() {
			id = min(id, o.ID)
		}
	}
	return id
}

// admitChange admits a job that changes one range. The map itself reports what is wrong with it:
// the change is made on a copy.
func (j *Job) admitChange(v ClusterState, r Request) error {
	s, ok := v.Map.Shard(r.Shard)
	if !ok {
		return fmt.Errorf("%w: %v", partition.ErrUnknownShard, r.Shard)
	}
	if right, _ := v.Map.Shard(r.Right); v.isFixedShard(s) || r.Kind == Merge && right.ID != 0 && v.isFixedShard(right) {
		return fmt.Errorf("%w: %v or its neighbour", ErrFixedShard, r.Shard)
	}
	j.Shard, j.Right, j.Expect, j.ExpectRight = r.Shard, r.Right, r.Expect, r.ExpectRight
	j.Span, j.From, j.To = cloneSpan(s.Span), s.Group, s.Group
	if r.Kind == Move {
		j.To = r.To
	}
	if _, err := v.Map.Apply(j.makeEdit()); err != nil {
		if busy := CheckBusy(v.Jobs, s.Span); busy != nil {
			return busy // what is wrong may be what that job has changed just now
		}
		return unwrapEditError(err)
	}
	if r.Kind == Merge {
		right, _ := v.Map.Shard(r.Right)
		j.Span.End, j.ExpectRight = bytes.Clone(right.Span.End), right.Changed
	}
	j.Expect = s.Changed
	j.Local = v.storeOfGroup(j.From) == v.storeOfGroup(j.To)
	if err := v.checkStores(j.From, j.To); err != nil {
		return err
	}
	return CheckBusy(v.Jobs, j.Span)
}

// admitPreSplit admits splits of several shards, if none of them is refused, nor the map
// that comes of all.
func (j *Job) admitPreSplit(v ClusterState) error {
	requests, left := j.nextSplits(ClusterState{Map: v.Map})
	if !left {
		return fmt.Errorf("%w: no boundaries, or all are there", partition.ErrNoChange)
	}
	if !slices.IsSortedFunc(j.At, func(a, b partition.Position) int { return bytes.Compare(a, b) }) {
		return fmt.Errorf("%w: sort the boundaries", partition.ErrBoundary)
	}
	var edits []partition.Edit
	for _, r := range requests {
		split, err := Admit(v, r, j.ID, 0)
		if err != nil {
			return err
		}
		edits = append(edits, split.makeEdit())
	}
	if _, err := v.Map.Apply(edits...); err != nil {
		return unwrapEditError(err)
	}
	j.Parallel = maxParallel
	j.Phase = Surveying
	return nil
}

// admitDrain admits that groups lose all their shards, if each shard has
// somewhere to go.
func (j *Job) admitDrain(v ClusterState, groups []partition.GroupID) error {
	if err := j.checkConflicts(v.Jobs, groups); err != nil {
		return err
	}
	if err := v.checkStores(groups...); err != nil {
		return err
	}
	for _, g := range groups {
		owned := 0
		for s := range v.Map.Owned(g) {
			if owned++; v.isFixedShard(s) {
				return fmt.Errorf("%w: %v has %v", ErrFixedShard, g, s.ID)
			}
		}
		if was, _ := v.Map.Group(g); j.Kind == Drain && was.Draining && owned == 0 {
			return fmt.Errorf("%w: %v is drained, and has no shards", partition.ErrNoChange, g)
		}
	}
	j.Groups, j.Phase = groups, Marking
	m, _, err := j.planSteps(v)
	if err != nil {
		return unwrapEditError(err)
	}
	v.Map = m
	return checkDrainTargets(v)
}

// admitUndrain admits that a group has shards again, if it drains and no job drains it: a job
// that drains a group takes the mark back when it is cancelled.
func (j *Job) admitUndrain(v ClusterState, g partition.GroupID) error {
	if err := j.checkConflicts(v.Jobs, []partition.GroupID{g}); err != nil {
		return err
	}
	j.Groups, j.Phase = []partition.GroupID{g}, Marking
	_, err := v.Map.Apply(partition.SetDraining{Group: g})
	return unwrapEditError(err)
}

// unwrapEditError takes the edit from an error of a map: the caller knows what job it asked for.
func unwrapEditError(err error) error {
	if cause := errors.Unwrap(err); cause != nil && errors.Unwrap(cause) != nil {
		return cause
	}
	return err
}

// checkDrainTargets returns which shard of a group that drains no other group may take.
// It asks about all of them: the last group that takes shards may have none of
// its own.
func checkDrainTargets(v ClusterState) error {
	l := measureLoads(v)
	for s := range v.Map.Misplaced() {
		if g, _ := v.Map.Group(s.Group); g.Draining && l.findLeastLoaded(&v, s) == 0 {
			return fmt.Errorf("%w: %v of %v", ErrNowhere, s.ID, s.Group)
		}
	}
	return nil
}

// admitRegroup admits another number of groups. Those with the highest ids go.
func (j *Job) admitRegroup(v ClusterState, r Request) error {
	groups := v.Map.Groups()
	have := len(groups)
	j.TargetGroups = r.Groups
	switch {
	case r.Groups < 1 || r.Groups > partition.MaxGroups:
		return fmt.Errorf("%w: %d groups: use 1 to %d", ErrBadRequest, r.Groups, partition.MaxGroups)
	case r.Groups == have:
		return fmt.Errorf("%w: the number of groups is %d", partition.ErrNoChange, have)
	case r.Groups < have:
		var ids []partition.GroupID
		for _, g := range groups[r.Groups:] {
			ids = append(ids, g.ID)
		}
		return j.admitDrain(v, ids)
	case len(r.Labels) != r.Groups-have:
		return fmt.Errorf("%w: %d groups to add, and labels for %d", ErrBadRequest, r.Groups-have, len(r.Labels))
	}
	j.Labels, j.Phase = r.Labels, Marking
	return j.checkConflicts(v.Jobs, nil)
}

// checkConflicts reports whether another job drains one of these groups, or changes how
// many there are.
func (j *Job) checkConflicts(jobs []Job, groups []partition.GroupID) error {
	for i := range jobs {
		o := &jobs[i]
		clash := slices.ContainsFunc(o.Groups, func(g partition.GroupID) bool { return slices.Contains(groups, g) })
		if !o.Phase.IsFinal() && o.ID != j.ID && (clash || o.Kind == Regroup && j.Kind == Regroup) {
			return newBusyError(o)
		}
	}
	return nil
}

func cloneSpan(s partition.Span) partition.Span {
	return partition.Span{Start: bytes.Clone(s.Start), End: bytes.Clone(s.End)}
}

// Why a job is not admitted, or a command refused. What is wrong with a request
// as a change of the map is reported with the errors of package partition.
var (
	// ErrBusy means that another job changes a part of what this one would:
	// wait until it has ended, or cancel it. See [BusyError].
	ErrBusy = errors.New("mover: another job is at work there")
	// ErrNowhere means that a shard of a group to drain has nowhere to go: add a
	// group, or lift a pin.
	ErrNowhere = errors.New("mover: no group may take the shard")
	// ErrBadRequest means that a request is not complete, or asks for nothing.
	ErrBadRequest = errors.New("mover: bad request")
	// ErrFixedShard means that a shard stays as it is, with its group: choose another.
	ErrFixedShard = errors.New("mover: the shard is not to be changed")
	// ErrTooLate means that a job is past its decision: it goes forward, and
	// another job may undo what it does.
	ErrTooLate = errors.New("mover: too late, the job is going forward")
	// ErrJobEnded means that a job has ended.
	ErrJobEnded = errors.New("mover: the job has ended")
	// ErrNotDeciding means that a job is not where a decision may be made: it
	// was made already, or the job was taken back. Look at the record again.
	ErrNotDeciding = errors.New("mover: the job is not at its decision")

	// ErrNotIncoming means that a range does not take rows of this job and
	// attempt, or not any more.
	ErrNotIncoming = errors.New("mover: the range does not take these rows")
	// ErrRangeAhead means that the range has come further meanwhile, because another driver was
	// faster: read the log from there.
	ErrRangeAhead = errors.New("mover: the range has come further")
	// ErrLogGap means that rows are not those that come next: something is missing.
	// The copy begins again.
	ErrLogGap = errors.New("mover: not what comes next")
	// ErrOutsideRange means that rows are not of the range.
	ErrOutsideRange = errors.New("mover: rows outside of the range")
	// ErrRowsInUse means that rows are to be removed that may still be needed.
	ErrRowsInUse = errors.New("mover: not left over")
	// ErrGone is for a driver: the source's log does not go back as far any
	// more. The copy begins again.
	ErrGone = errors.New("mover: the log does not go back as far")
	// ErrKeepsDecisions is for a driver: a group to remove keeps decisions of transactions that
	// may still be asked for.
	ErrKeepsDecisions = errors.New("mover: the group keeps decisions")
	// ErrBadRecord means that bytes are not a job that this version can read: they
	// are damaged, or a newer version wrote them.
	ErrBadRecord = errors.New("mover: bad record: it is damaged, or of another version")
)

// BusyError names the job that is in the way. It matches [ErrBusy].
type BusyError struct {
	Job  ownership.JobID
	Kind Kind
	// Shard, or Groups, are what it changes.
	Shard  partition.ShardID
	Groups []partition.GroupID
	Paused bool
}

func newBusyError(j *Job) *BusyError {
	return &BusyError{Job: j.ID, Kind: j.Kind, Shard: j.Shard, Groups: j.Groups, Paused: j.Paused}
}

// Error names the job, and what to do about it.
func (e *BusyError) Error() string {
	of := ""
	switch {
	case e.Shard != 0:
		of = fmt.Sprintf(" of %v", e.Shard)
	case e.Kind != Regroup && len(e.Groups) > 0:
		of = fmt.Sprintf(" of %v", e.Groups[0])
	}
	if e.Paused {
		return fmt.Sprintf("%v: job %d, a %v%s, is paused: resume or cancel it", ErrBusy, e.Job, e.Kind, of)
	}
	return fmt.Sprintf("%v: job %d, a %v%s: wait for it or cancel it", ErrBusy, e.Job, e.Kind, of)
}

// Is matches ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }
