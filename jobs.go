package cleave

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
)

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
	// Phase is what it is at, for those who watch it. All end with "done" or "rolled
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
	// Why says why it was taken back, or what it waits for, if that is known.
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

func statusOf(j *mover.Job) JobStatus {
	s := JobStatus{
		ID: JobID(j.ID), Kind: j.Kind.String(), Phase: j.Phase.String(), Parent: JobID(j.Parent),
		Shard: j.Shard, From: j.From, To: j.To, Why: whyOf(j.Why), Expected: priceOf(j.Plan),
		Rows: j.Cost.Rows, Bytes: j.Cost.Bytes, Children: int(j.Cost.Children),
		Pause: milliseconds(j.Cost.LongestMS), PauseTotal: milliseconds(j.Cost.PauseMS), BytesPerSecond: j.Throttle,
		Created: time.UnixMilli(j.CreatedMS), Changed: time.UnixMilli(j.ChangedMS),
	}
	switch ended, undone := j.Ended(); {
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
		return nil, public(err)
	}
	all := make([]JobStatus, len(jobs))
	for i := range jobs {
		all[i] = statusOf(&jobs[i])
	}
	return all, nil
}

// Job returns the job of an id, or ErrNoJob.
func (db *DB) Job(ctx context.Context, id JobID) (*Job, error) {
	job, err := db.node.Job(ctx, own.Job(id))
	if err != nil {
		return nil, public(err)
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
		return JobStatus{}, public(err)
	}
	return statusOf(&job), nil
}

// Wait returns when the job has ended. If it was taken back, the error matches
// ErrJobUndone and says why.
func (j *Job) Wait(ctx context.Context) (JobStatus, error) {
	job, err := j.job.Wait(ctx)
	if err != nil {
		return JobStatus{}, public(err)
	}
	s := statusOf(&job)
	if s.State == JobUndone {
		return s, fmt.Errorf("%w: job %d, a %s: %s", ErrJobUndone, s.ID, s.Kind, s.Why)
	}
	return s, nil
}

// Pause lets the job begin nothing more that carries or removes rows, until Resume.
// A range that takes no writes at this moment is brought through first.
func (j *Job) Pause(ctx context.Context) error { return j.control(ctx, mover.Pause) }

// Resume lets a paused job go on.
func (j *Job) Resume(ctx context.Context) error {
	return j.control(ctx, func(job mover.Job, nowMS int64) (mover.Job, error) {
		next, _, err := mover.Unpause(job, nowMS)
		return next, err
	})
}

// Cancel takes the job back. It returns when that is certain; Wait tells when it is
// done. Past its decision a job goes forward: the error is ErrTooLate. Moves that a
// drain or regroup has done by then stay done.
func (j *Job) Cancel(ctx context.Context) error {
	return j.control(ctx, func(job mover.Job, nowMS int64) (mover.Job, error) {
		next, _, err := mover.Cancel(job, nowMS)
		return next, err
	})
}

// Throttle bounds how many bytes a second the job copies, from its next round on;
// 0 lifts the bound. A Drain or Regroup hands it on to the moves that it begins.
func (j *Job) Throttle(ctx context.Context, bytesPerSecond uint64) error {
	return j.control(ctx, func(job mover.Job, nowMS int64) (mover.Job, error) {
		return mover.Throttle(job, bytesPerSecond, nowMS)
	})
}

func (j *Job) control(ctx context.Context, f func(mover.Job, int64) (mover.Job, error)) error {
	return public(j.job.Control(ctx, f))
}
