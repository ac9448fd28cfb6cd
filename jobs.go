package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// ShardID names a shard for ever, and GroupID a group.
type (
	ShardID = partition.ShardID
	GroupID = partition.GroupID
)

// MapChange is a change of which group has which keys: a [Split], a [Merge], a
// [Move], a [Drain], an [Undrain] or a [Regroup]. [DB.Plan] returns what one would
// cost, and [DB.Start] makes it.
type MapChange interface {
	toRequest(db *DB) (mover.Request, error)
}

// Split cuts shards of a keyspace, in whatever shards the boundaries lie. [SplitAtKeys],
// [SplitAtSlots] and [SplitEvenly] make one. No keys are moved. Boundaries that are there
// already, and those that are named twice, are left out; if no new one is left, the error
// is ErrNoChange. One outside of the keyspace is ErrBoundary.
type Split struct {
	keyspace   *Keyspace
	boundaries splitBoundaries
}

// SplitAtKeys makes each key the first one of a shard. In a keyspace of kind Hash it cuts
// the slot of the key, so that keys of one slot can have several groups: each slot has its
// keys in the order of their bytes. Transactions about keys on both sides then cost what
// those of two groups do, see [DB.Update].
func SplitAtKeys(k *Keyspace, keys ...[]byte) Split { return Split{k, keyBoundaries(keys)} }

// SplitAtSlots makes each slot of a hash keyspace the first one of a shard.
func SplitAtSlots(k *Keyspace, slots ...int) Split { return Split{k, slotBoundaries(slots)} }

// SplitEvenly cuts a hash keyspace into pieces that have as many slots, give or take one.
func SplitEvenly(k *Keyspace, pieces int) Split { return Split{k, evenBoundaries(pieces)} }

// Merge joins two shards that are neighbours and of one group.
type Merge struct{ Left, Right ShardID }

// Move gives a shard to another group.
type Move struct {
	Shard ShardID
	To    GroupID
	// BytesPerSecond bounds how fast rows are copied if the group is on another
	// store; what is written meanwhile is carried as it comes. Default: as fast as
	// the stores are. At least 64 KiB.
	BytesPerSecond uint64
}

// Drain moves all shards of a group to others. The group stays, and is given no
// more until an Undrain; a Regroup may remove it.
type Drain struct {
	Group GroupID
	// Parallel is how many shards are moved at a time. Default 1, at most 64.
	Parallel int
	// BytesPerSecond is as in Move, for each of them.
	BytesPerSecond uint64
}

// Undrain lets a group that was drained have shards again. It is given none: move
// some to it. While the group is being drained it is refused: cancel that job.
type Undrain struct{ Group GroupID }

// Regroup changes how many groups there are. New ones are spread over the stores
// and filled with shards of the others, and shards are split where they are too large
// for that, until each new group has a fair share of the bytes. Only the new ones are
// filled: a group that was there before, an empty one or one that was undrained too,
// is given nothing, and is not evened out with others like it; use Move for that. If
// there are to be fewer, those with the highest ids are drained and removed. If that is
// cancelled, those that were drained before stay so.
type Regroup struct {
	Groups int
	// Parallel and BytesPerSecond are as in Drain.
	Parallel       int
	BytesPerSecond uint64
}

func (c Split) toRequest(db *DB) (mover.Request, error) {
	if c.keyspace == nil {
		return mover.Request{}, optionErrorf("a Split needs a keyspace: make it with SplitAtKeys, SplitAtSlots or SplitEvenly")
	}
	if c.keyspace.db.engine != db.engine {
		return mover.Request{}, optionErrorf("keyspace %s is of another DB than the one that is to be split", c.keyspace.Name())
	}
	k := &c.keyspace.keyspace.Keyspace
	if err := c.keyspace.keyspace.CheckOpen(); err != nil {
		return mover.Request{}, err
	}
	at, err := c.boundaries.positions(c.keyspace)
	if err != nil {
		return mover.Request{}, err
	}
	slices.SortFunc(at, func(a, b partition.Position) int { return bytes.Compare(a, b) })
	at = slices.CompactFunc(at, func(a, b partition.Position) bool { return bytes.Equal(a, b) })
	m := db.node.Map()
	at = slices.DeleteFunc(at, func(p partition.Position) bool { return bytes.Equal(m.Find(p).Span.Start, p) })
	if len(at) == 0 {
		return mover.Request{}, fmt.Errorf("%w: a shard begins at each of these boundaries already", partition.ErrNoChange)
	}
	first, last := m.Find(at[0]), m.Find(at[len(at)-1])
	if first.ID == last.ID {
		return mover.Request{Kind: mover.Split, Shard: first.ID, In: k, At: at}, nil
	}
	return mover.Request{Kind: mover.PreSplit, In: k, At: at}, nil
}

// splitBoundaries is where the new shards of a Split begin.
type splitBoundaries interface {
	positions(k *Keyspace) ([]partition.Position, error)
}

type keyBoundaries [][]byte

func (keys keyBoundaries) positions(k *Keyspace) (at []partition.Position, err error) {
	if len(keys) == 0 {
		return nil, optionErrorf("SplitAtKeys needs a key")
	}
	for _, key := range keys {
		p, err := k.appendPosition(nil, key)
		if err != nil {
			return nil, err
		}
		if len(key) == 0 { // its slot, if it has one, is the first
			return nil, fmt.Errorf("%w: nothing comes before the empty key: use another", partition.ErrBoundary)
		}
		at = append(at, p)
	}
	return at, nil
}

type slotBoundaries []int

func (slots slotBoundaries) positions(k *Keyspace) (at []partition.Position, err error) {
	space := &k.keyspace.Keyspace
	switch {
	case space.Kind == Range:
		return nil, errNoSlots
	case len(slots) == 0:
		return nil, optionErrorf("SplitAtSlots needs a slot")
	}
	for _, slot := range slots {
		if slot < 1 || slot >= space.SlotCount() {
			return nil, fmt.Errorf("%w: slot %d: use 1 to %d", partition.ErrBoundary, slot, space.SlotCount()-1)
		}
		at = append(at, space.SlotSpan(uint16(slot)).Start)
	}
	return at, nil
}

type evenBoundaries int

func (pieces evenBoundaries) positions(k *Keyspace) ([]partition.Position, error) {
	if k.keyspace.Kind == Range {
		return nil, errNoSlots
	}
	at, err := k.keyspace.EvenSlots(int(pieces))
	if err == nil && len(at) == 0 {
		err = fmt.Errorf("%w: one piece is what there is", partition.ErrNoChange)
	}
	return at, err
}

var errNoSlots = optionErrorf("a range keyspace has no slots: use SplitAtKeys")

func (c Merge) toRequest(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Merge, Shard: c.Left, Right: c.Right}, nil
}

func (c Move) toRequest(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Move, Shard: c.Shard, To: c.To, Throttle: c.BytesPerSecond}, nil
}

func (c Drain) toRequest(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Drain, Group: c.Group, Parallel: c.Parallel, Throttle: c.BytesPerSecond}, nil
}

func (c Undrain) toRequest(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Undrain, Group: c.Group}, nil
}

func (c Regroup) toRequest(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Regroup, Groups: c.Groups, Parallel: c.Parallel, Throttle: c.BytesPerSecond}, nil
}

// Price is what a change is expected to cost, and to bring, if it began now and
// no writes came meanwhile. It is no more exact than the sizes of shards, which are
// estimates: see Shard.Rows. A Drain or Regroup looks at them again before each step, so
// that it may take other steps than were planned. How long things take is what they took
// before; of a store that has carried nothing yet, 100 MiB a second are assumed.
type Price struct {
	// Rows and Bytes are to be carried to other stores.
	Rows, Bytes uint64
	// Moves is how many shards get another group.
	Moves int
	// Duration is of all of it, Pause how long each range that goes to another
	// store takes no writes.
	Duration, Pause time.Duration
	// SkewBefore and SkewAfter are how much more the fullest group has than the
	// mean, in bytes: 1 is even.
	SkewBefore, SkewAfter float64
}

func toPrice(p mover.Price) Price {
	return Price{
		Rows: p.Rows, Bytes: p.Bytes, Moves: p.Moves,
		Duration: toDuration(p.DurationMS), Pause: toDuration(p.PauseMS),
		SkewBefore: p.Before.Bytes, SkewAfter: p.After.Bytes,
	}
}

func toDuration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Plan returns what a change would cost, or why it would be refused. It changes
// nothing.
func (db *DB) Plan(ctx context.Context, c MapChange) (Price, error) {
	r, err := toJobRequest(db, c)
	if err != nil {
		return Price{}, toPublicError(err)
	}
	p, err := db.node.PlanJob(ctx, r)
	return toPrice(p), toPublicError(err)
}

// Start begins with a change, and returns the job that makes it. The job is durable
// by then: it goes on after a restart. If it is refused, nothing has changed.
func (db *DB) Start(ctx context.Context, c MapChange) (*Job, error) {
	for {
		m := db.node.Map()
		r, err := toJobRequest(db, c)
		if err != nil {
			return nil, toPublicError(err)
		}
		job, err := db.node.StartJob(ctx, r)
		if errors.Is(err, partition.ErrBoundary) && db.node.Map() != m {
			continue // the shard that was to be split has been, meanwhile
		}
		if err != nil {
			return nil, toPublicError(err)
		}
		return &Job{job}, nil
	}
}

func toJobRequest(db *DB, c MapChange) (mover.Request, error) {
	if c == nil {
		return mover.Request{}, optionErrorf("no change: use a Split, Merge, Move, Drain, Undrain or Regroup")
	}
	return c.toRequest(db)
}

// JobID names a job for ever. 0 is none.
type JobID uint64

// Job is a change of the map that is being made, or was. Its methods may be called
// by any goroutine.
type Job struct{ job *node.Job }

// JobState is how a job stands.
type JobState uint8

// The states of jobs.
const (
	// JobRunning goes on.
	JobRunning JobState = iota
	// JobPaused begins nothing more that carries rows.
	JobPaused
	// JobUndoing is taken back: it was cancelled, or could not be done.
	JobUndoing
	// JobDone has made its change.
	JobDone
	// JobUndone has left nothing behind, but for moves of a drain or regroup that
	// were done by then.
	JobUndone
)

// String is the word for s in reports.
func (s JobState) String() string {
	names := [...]string{"running", "paused", "undoing", "done", "undone"}
	if int(s) >= len(names) {
		return fmt.Sprintf("JobState(%d)", uint8(s))
	}
	return names[s]
}

// JobStatus is how far a job has come, and what it has cost.
type JobStatus struct {
	ID JobID
	// Kind is "split", "merge", "move", "drain", "undrain" or "regroup", or
	// "pre-split", which is a Split with boundaries in several shards: it has a split
	// for each of them.
	Kind  string
	State JobState
	// Phase is what it is at, for its watchers. All end with "done" or "rolled
	// back".
	//
	// Those that carry nothing, which are splits, merges, and moves within a store, go
	// through "planned", "deciding", "releasing" and "publishing".
	//
	// A move to another store is "planned"; "preparing", "clearing", "locating" and
	// "opening" the place for the rows; "copying" them; "catching up" with what is
	// written meanwhile; "verifying" that both sides have the same. The range takes no
	// writes while it is "freezing", "finishing", "comparing" and "deciding". Then it
	// goes forward only: "releasing", "activating", "publishing", and "dropping" and
	// "forgetting" what was left behind. One that is taken back, or tries again, is
	// "thawing"; "abandoning", "wiping", "dismissing".
	//
	// Jobs that are done by others are "marking" groups, "hosting" new ones and
	// "surveying" what is left to do, which is most of the time; "retiring" and
	// "removing" groups; "stopping" their jobs and "unmarking" groups when cancelled.
	Phase string
	// Parent is the job that has asked for this one, or 0.
	Parent JobID
	// Shard goes From a group To another; both are the same unless it is a move.
	Shard    ShardID
	From, To GroupID
	// Why is why it was taken back, or what it waits for, if that is known.
	Why string
	// Expected is what it was expected to cost when it began.
	Expected Price
	// Rows and Bytes were carried to another store so far, copies that were begun anew
	// included. Those of a Drain or a Regroup are of the jobs that it began and that
	// have ended, and so are its pauses.
	Rows, Bytes uint64
	// Children is how many jobs were begun for this one.
	Children int
	// Pause is how long its range took no writes: the longest time, and all of
	// them together.
	Pause, PauseTotal time.Duration
	// BytesPerSecond bounds how fast it copies rows; 0 is no bound.
	BytesPerSecond uint64
	// Created is when it began, Changed when it last came further, and Ended when
	// it ended; zero if it has not.
	Created, Changed, Ended time.Time
}

func toJobStatus(j *mover.Job) JobStatus {
	s := JobStatus{
		ID: JobID(j.ID), Kind: j.Kind.String(), Phase: j.Phase.String(), Parent: JobID(j.Parent),
		Shard: j.Shard, From: j.From, To: j.To, Why: toPublicReason(j.Reason), Expected: toPrice(j.Plan),
		Rows: j.Cost.Rows, Bytes: j.Cost.Bytes, Children: int(j.Cost.Children),
		Pause: toDuration(j.Cost.LongestPauseMS), PauseTotal: toDuration(j.Cost.PauseMS), BytesPerSecond: j.Throttle,
		Created: time.UnixMilli(j.CreatedMS), Changed: time.UnixMilli(j.ChangedMS),
	}
	switch ended, undone := j.HasEnded(); {
	case undone:
		s.State = JobUndone
	case ended:
		s.State = JobDone
	case j.Undo:
		s.State = JobUndoing
	case j.Paused:
		s.State = JobPaused
	}
	if s.State == JobDone || s.State == JobUndone {
		s.Ended = time.UnixMilli(j.EndedMS)
	}
	return s
}

// Jobs returns the jobs that are under way, and about the last hundred that have
// ended, in the order in which they began.
func (db *DB) Jobs(ctx context.Context) ([]JobStatus, error) {
	jobs, err := db.node.Jobs(ctx)
	if err != nil {
		return nil, toPublicError(err)
	}
	all := make([]JobStatus, len(jobs))
	for i := range jobs {
		all[i] = toJobStatus(&jobs[i])
	}
	return all, nil
}

// Job returns the job of an id, or ErrNoJob.
func (db *DB) Job(ctx context.Context, id JobID) (*Job, error) {
	job, err := db.node.Job(ctx, ownership.JobID(id))
	if err != nil {
		return nil, toPublicError(err)
	}
	return &Job{job}, nil
}

// ID returns the id, by which the job is found again after a restart.
func (j *Job) ID() JobID { return JobID(j.job.ID) }

// Status returns how far the job has come. Like Wait it knows that for as long as the
// Job is held, also when [DB.Jobs] and [DB.Job] have forgotten it.
func (j *Job) Status(ctx context.Context) (JobStatus, error) {
	job, err := j.job.Record(ctx)
	if err != nil {
		return JobStatus{}, toPublicError(err)
	}
	return toJobStatus(&job), nil
}

// Wait returns when the job has ended. If it was taken back, the error matches
// ErrJobUndone and says why.
func (j *Job) Wait(ctx context.Context) (JobStatus, error) {
	job, err := j.job.Wait(ctx)
	if err != nil {
		return JobStatus{}, toPublicError(err)
	}
	s := toJobStatus(&job)
	if s.State == JobUndone {
		return s, fmt.Errorf("%w: job %d, a %s: %s", ErrJobUndone, s.ID, s.Kind, s.Why)
	}
	return s, nil
}

// Pause lets the job begin nothing more that carries or removes rows, until Resume.
// A range that takes no writes at this moment is brought through first.
func (j *Job) Pause(ctx context.Context) error { return j.updateRecord(ctx, mover.Pause) }

// Resume lets a paused job go on.
func (j *Job) Resume(ctx context.Context) error {
	return j.updateRecord(ctx, func(job mover.Job, nowMS int64) (mover.Job, error) {
		next, _, err := mover.Unpause(job, nowMS)
		return next, err
	})
}

// Cancel takes the job back. It returns when that is certain; Wait returns when it is
// done. Past its decision a job goes forward: the error is ErrTooLate. Moves that a
// drain or regroup has done by then stay done.
func (j *Job) Cancel(ctx context.Context) error {
	return j.updateRecord(ctx, func(job mover.Job, nowMS int64) (mover.Job, error) {
		next, _, err := mover.Cancel(job, nowMS)
		return next, err
	})
}

// Throttle bounds how many bytes a second the job copies, from its next round on;
// 0 lifts the bound. A Drain or Regroup hands it on to the moves that it begins.
func (j *Job) Throttle(ctx context.Context, bytesPerSecond uint64) error {
	return j.updateRecord(ctx, func(job mover.Job, nowMS int64) (mover.Job, error) {
		return mover.SetThrottle(job, bytesPerSecond, nowMS)
	})
}

func (j *Job) updateRecord(ctx context.Context, f func(mover.Job, int64) (mover.Job, error)) error {
	return toPublicError(j.job.Control(ctx, f))
}
