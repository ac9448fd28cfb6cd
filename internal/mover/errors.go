package mover

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Why a job is not admitted, or a command refused. What is wrong with a request
// as a change of the map is said with the errors of package partition.
var (
	// ErrBusy means that another job changes a part of what this one would:
	// wait until it has ended, or cancel it. See [BusyError].
	ErrBusy = errors.New("mover: another job is at work there")
	// ErrNowhere means that a shard of a group to drain has nowhere to go: add a
	// group, or lift a pin.
	ErrNowhere = errors.New("mover: no group may take the shard")
	// ErrRequest means that a request is not complete, or asks for nothing.
	ErrRequest = errors.New("mover: bad request")
	// ErrFixed means that a shard stays as it is, with its group: choose another.
	ErrFixed = errors.New("mover: the shard is not to be changed")
	// ErrTooLate means that a job is past its decision: it goes forward, and
	// another job may undo what it does.
	ErrTooLate = errors.New("mover: too late, the job is going forward")
	// ErrEnded means that a job has ended.
	ErrEnded = errors.New("mover: the job has ended")
	// ErrNotDeciding means that a job is not where a decision may be made: it
	// was made already, or the job was taken back. Look at the record again.
	ErrNotDeciding = errors.New("mover: the job is not at its decision")

	// ErrNotIncoming means that a range does not take rows of this job and
	// attempt, or not any more.
	ErrNotIncoming = errors.New("mover: the range does not take these rows")
	// ErrAhead means that the range has come further meanwhile, because somebody
	// else was faster: read the log from there.
	ErrAhead = errors.New("mover: the range has come further")
	// ErrGap means that rows are not those that come next: something is missing.
	// The copy begins again.
	ErrGap = errors.New("mover: not what comes next")
	// ErrOutside means that rows are not of the range.
	ErrOutside = errors.New("mover: rows outside of the range")
	// ErrServed means that rows are to be removed that somebody may still need.
	ErrServed = errors.New("mover: not left over")
	// ErrGone is for a driver: the source's log does not go back as far any
	// more. The copy begins again.
	ErrGone = errors.New("mover: the log does not go back as far")
	// ErrDecisions is for a driver: a group to remove keeps decisions of
	// transactions that somebody may still ask for.
	ErrDecisions = errors.New("mover: the group keeps decisions")
	// ErrRecord means that bytes are not a job that this version can read: they
	// are damaged, or a newer version wrote them.
	ErrRecord = errors.New("mover: bad record: it is damaged, or of another version")
)

// BusyError says which job is in the way. It matches [ErrBusy].
type BusyError struct {
	Job  own.Job
	Kind Kind
	// Shard, or Groups, are what it changes.
	Shard  partition.ShardID
	Groups []partition.GroupID
	Paused bool
}

func busyWith(j *Job) *BusyError {
	return &BusyError{Job: j.ID, Kind: j.Kind, Shard: j.Shard, Groups: j.Groups, Paused: j.Paused}
}

// Error names the job, and says what to do about it.
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
