package node

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
)

// Job is a job for those who watch it. Records of jobs are forgotten some time after
// their end; who holds a Job is told of it by the driver, and knows it for ever.
type Job struct {
	ID  own.Job
	n   *Node
	end *ending
}

// ending is how a job has ended.
type ending struct {
	come chan struct{} // closed when it has
	job  mover.Job     // from then on
}

func newEnding() *ending { return &ending{come: make(chan struct{})} }

func (e *ending) tell(j mover.Job) {
	e.job = j
	close(e.come)
}

// has tells whether the job has ended.
func (e *ending) has() bool {
	select {
	case <-e.come:
		return true
	default:
		return false
	}
}

// Job returns a job by its number, or ErrNoJob.
func (n *Node) Job(ctx context.Context, id own.Job) (*Job, error) {
	for {
		changed := n.jobs.changed.listen()
		record, err := n.record(ctx, id)
		if err != nil {
			return nil, err
		}
		j := &Job{ID: id, n: n, end: n.endingOf(id)}
		switch {
		case j.end != nil:
			return j, nil
		case record.Phase.Final():
			j.end = newEnding()
			j.end.tell(record)
			return j, nil
		}
		// It is just being begun, or has just ended.
		if err := errors.Join(n.Closed(), await(ctx, changed, drivePause)); err != nil {
			return nil, err
		}
	}
}

// endingOf returns the ending of a job that is driven, else nil.
func (n *Node) endingOf(id own.Job) *ending {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	if d := n.jobs.drivers[id]; d != nil {
		return d.end
	}
	return nil
}

// Record returns how far the job has come.
func (j *Job) Record(ctx context.Context) (mover.Job, error) {
	if !j.end.has() {
		record, err := j.n.record(ctx, j.ID)
		if !errors.Is(err, ErrNoJob) {
			return record, err
		}
	}
	return j.Wait(ctx) // it has ended, or its record were there
}

// Wait returns when the job has ended, with its last record.
func (j *Job) Wait(ctx context.Context) (mover.Job, error) {
	if !j.end.has() {
		select {
		case <-j.end.come:
		case <-ctx.Done():
			return mover.Job{}, ctx.Err()
		case <-j.n.ctx.Done():
			return mover.Job{}, group.ErrClosed
		}
	}
	return j.end.job, nil
}

// Control changes the record, as mover.Pause and the like do.
func (j *Job) Control(ctx context.Context, f func(j mover.Job, nowMS int64) (mover.Job, error)) error {
	err := j.n.ControlJob(ctx, j.ID, f)
	if !errors.Is(err, ErrNoJob) {
		return err
	}
	last, err := j.Wait(ctx)
	if err == nil {
		_, err = f(last, j.n.jobMS()) // it says that it is too late
	}
	return err
}
