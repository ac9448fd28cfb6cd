package mover

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/own"
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
	Parent own.Job
}

// maxParallel bounds how many ranges of one job are under way.
const maxParallel = 64

// Admit makes the job that a request asks for, or says why not, and then
// nothing has changed. It is called where the job is stored, as one with that:
// otherwise two jobs for one range could be admitted. The id is one that no job
// ever had.
func Admit(v View, r Request, id own.Job, nowMS int64) (Job, error) {
	j := Job{
		ID: id, Kind: r.Kind, Phase: Planned, Rev: 1, Round: 1, Parent: r.Parent,
		In: r.In, At: r.At, Parallel: max(r.Parallel, 1), Throttle: r.Throttle, CreatedMS: nowMS, ChangedMS: nowMS,
	}
	if err := checkThrottle(r.Throttle); err != nil {
		return Job{}, err
	}
	if r.Parallel < 0 || r.Parallel > maxParallel {
		return Job{}, fmt.Errorf("%w: Parallel is %d: use 1 to %d", ErrRequest, r.Parallel, maxParallel)
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
		err = fmt.Errorf("%w: %v", ErrRequest, r.Kind)
	}
	if err != nil {
		return Job{}, err
	}
	j.Floor = floor(v.Jobs, id)
	return j, nil
}

// floor returns the lowest number of jobs that change ranges and have not ended. Those
// that are done by others never say anything to a group.
func floor(jobs []Job, id own.Job) own.Job {
	for i := range jobs {
		if o := &jobs[i]; !o.Phase.Final() && !o.Kind.composite() {
			id = min(id, o.ID)
		}
	}
	return id
}

// admitChange admits a job that changes one range. The map itself says what is
// wrong with it: the change is made on a copy.
func (j *Job) admitChange(v View, r Request) error {
	s, ok := v.Map.Shard(r.Shard)
	if !ok {
		return fmt.Errorf("%w: %v", partition.ErrUnknownShard, r.Shard)
	}
	if right, _ := v.Map.Shard(r.Right); v.fixed(s) || r.Kind == Merge && right.ID != 0 && v.fixed(right) {
		return fmt.Errorf("%w: %v or its neighbour", ErrFixed, r.Shard)
	}
	j.Shard, j.Right, j.Expect, j.ExpectRight = r.Shard, r.Right, r.Expect, r.ExpectRight
	j.Span, j.From, j.To = cloneSpan(s.Span), s.Group, s.Group
	if r.Kind == Move {
		j.To = r.To
	}
	if _, err := v.Map.Apply(j.edit()); err != nil {
		if busy := Busy(v.Jobs, s.Span); busy != nil {
			return busy // what is wrong may be what that job has changed just now
		}
		return plain(err)
	}
	if r.Kind == Merge {
		right, _ := v.Map.Shard(r.Right)
		j.Span.End, j.ExpectRight = bytes.Clone(right.Span.End), right.Changed
	}
	j.Expect = s.Changed
	j.Local = v.home(j.From) == v.home(j.To)
	if err := v.failed(j.From, j.To); err != nil {
		return err
	}
	return Busy(v.Jobs, j.Span)
}

// admitPreSplit admits splits of several shards, if none of them is refused, nor the map
// that comes of all.
func (j *Job) admitPreSplit(v View) error {
	requests, left := j.wantedSplits(View{Map: v.Map})
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
		edits = append(edits, split.edit())
	}
	if _, err := v.Map.Apply(edits...); err != nil {
		return plain(err)
	}
	j.Parallel = maxParallel
	j.Phase = Surveying
	return nil
}

// admitDrain admits that groups lose all their shards, if each shard has
// somewhere to go.
func (j *Job) admitDrain(v View, groups []partition.GroupID) error {
	if err := j.alone(v.Jobs, groups); err != nil {
		return err
	}
	if err := v.failed(groups...); err != nil {
		return err
	}
	for _, g := range groups {
		owned := 0
		for s := range v.Map.Owned(g) {
			if owned++; v.fixed(s) {
				return fmt.Errorf("%w: %v has %v", ErrFixed, g, s.ID)
			}
		}
		if was, _ := v.Map.Group(g); j.Kind == Drain && was.Draining && owned == 0 {
			return fmt.Errorf("%w: %v is drained, and has no shards", partition.ErrNoChange, g)
		}
	}
	j.Groups, j.Phase = groups, Marking
	m, _, err := j.outlook(v)
	if err != nil {
		return plain(err)
	}
	v.Map = m
	return nowhere(v)
}

// admitUndrain admits that a group has shards again, if it drains and nobody is at
// that: who drains a group takes the mark back when that is cancelled.
func (j *Job) admitUndrain(v View, g partition.GroupID) error {
	if err := j.alone(v.Jobs, []partition.GroupID{g}); err != nil {
		return err
	}
	j.Groups, j.Phase = []partition.GroupID{g}, Marking
	_, err := v.Map.Apply(partition.SetDraining{Group: g})
	return plain(err)
}

// plain takes the edit from an error of a map: who asks for a job knows what for.
func plain(err error) error {
	if cause := errors.Unwrap(err); cause != nil && errors.Unwrap(cause) != nil {
		return cause
	}
	return err
}

// nowhere returns which shard of a group that drains no other group may take.
// It asks about all of them: the last group that takes shards may have none of
// its own.
func nowhere(v View) error {
	l := loadsOf(v)
	for s := range v.Map.Misplaced() {
		if g, _ := v.Map.Group(s.Group); g.Draining && l.least(&v, s) == 0 {
			return fmt.Errorf("%w: %v of %v", ErrNowhere, s.ID, s.Group)
		}
	}
	return nil
}

// admitRegroup admits another number of groups. Those with the highest ids go.
func (j *Job) admitRegroup(v View, r Request) error {
	groups := v.Map.Groups()
	have := len(groups)
	j.Want = r.Groups
	switch {
	case r.Groups < 1 || r.Groups > partition.MaxGroups:
		return fmt.Errorf("%w: %d groups: use 1 to %d", ErrRequest, r.Groups, partition.MaxGroups)
	case r.Groups == have:
		return fmt.Errorf("%w: the number of groups is %d", partition.ErrNoChange, have)
	case r.Groups < have:
		var ids []partition.GroupID
		for _, g := range groups[r.Groups:] {
			ids = append(ids, g.ID)
		}
		return j.admitDrain(v, ids)
	case len(r.Labels) != r.Groups-have:
		return fmt.Errorf("%w: %d groups to add, and labels for %d", ErrRequest, r.Groups-have, len(r.Labels))
	}
	j.Labels, j.Phase = r.Labels, Marking
	return j.alone(v.Jobs, nil)
}

// alone tells whether another job drains one of these groups, or changes how
// many there are.
func (j *Job) alone(jobs []Job, groups []partition.GroupID) error {
	for i := range jobs {
		o := &jobs[i]
		clash := slices.ContainsFunc(o.Groups, func(g partition.GroupID) bool { return slices.Contains(groups, g) })
		if !o.Phase.Final() && o.ID != j.ID && (clash || o.Kind == Regroup && j.Kind == Regroup) {
			return busyWith(o)
		}
	}
	return nil
}

func cloneSpan(s partition.Span) partition.Span {
	return partition.Span{Start: bytes.Clone(s.Start), End: bytes.Clone(s.End)}
}
