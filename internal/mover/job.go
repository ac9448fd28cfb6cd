package mover

import (
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Job is a piece of work that changes owners, and how far it has come. It is a
// value: whoever changes one makes another. Its slices are never written to.
type Job struct {
	ID    own.Job
	Kind  Kind
	Phase Phase
	// Rev is one more with each record of the job. A driver stores a record only
	// in the place of the one before it, so of two drivers one is overtaken.
	Rev uint64
	// Round names what is outstanding. A reply to an earlier one is too late.
	Round uint64
	// Parent is the job that this one is a part of, or 0.
	Parent own.Job
	// Floor was the lowest number of the jobs that had not ended when this one was
	// admitted, itself included, of those that change ranges. Numbers grow: so all
	// below it have ended, for ever.
	Floor own.Job

	// Shard is what is split or moved, or the left one of a merge, as it was at
	// version Expect; Right and ExpectRight are the right one.
	Shard, Right        partition.ShardID
	Expect, ExpectRight partition.Version
	// Span is all that the job changes, empty for one that is done by others.
	Span partition.Span
	// In and At are where to split.
	In *partition.Keyspace
	At []partition.Position
	// From owns what the job changes, To is to own it. They are the same unless
	// it is a move.
	From, To partition.GroupID
	// Local tells that both live on one store, so that no rows are moved.
	Local bool
	// Version is that of the map in which the change was decided. Invariant: it
	// is not 0 iff the decision was made.
	Version partition.Version

	// Held is what From had for the span when the job began.
	Held []own.Range
	// Attempt numbers the copies and Freezes the freezes, from 1.
	Attempt, Freezes uint64
	// Base is the place in the source's log at which the copy began, Upto how far
	// the destination has come, Verified up to where both were found equal, and
	// End where the source was frozen. Cursor is the store key at which the copy
	// goes on.
	Base, Upto, Verified, End uint64
	Cursor                    []byte
	// VersionFloor and ClockFloorMS are what the source had given out, and its
	// time, when it was released.
	VersionFloor uint64
	ClockFloorMS int64

	// Groups are those that are drained or added, Want how many there are to be
	// and Parallel how many shards are moved at a time.
	Groups         []partition.GroupID
	Labels         []partition.Labels
	Want, Parallel int
	// Marked are those of Groups that drain because of this job. Others drained before:
	// that is not taken back with it.
	Marked []partition.GroupID

	// Paused jobs begin nothing new that carries or removes rows. Undo jobs are taken back,
	// Again ones begin the copy anew once the source is thawed.
	Paused, Undo, Again bool
	// Throttle is how many bytes a second the job may copy, 0 for any number,
	// and NotBeforeMS when it may go on.
	Throttle    uint64
	NotBeforeMS int64

	// Why is the last error, or why the job was taken back.
	Why string
	// Plan is what was expected, if somebody has asked [Plan] before, and Cost
	// what happened.
	Plan Price
	Cost Cost
	// CreatedMS, ChangedMS and EndedMS are when the job was admitted, last got
	// another record, and ended. FrozenMS is when the freeze was asked for.
	CreatedMS, ChangedMS, EndedMS, FrozenMS int64
}

// Cost is what a job has taken. One that is done by others has that of its children
// that have ended, see [Account].
type Cost struct {
	// Rows and Bytes were carried, copies that were begun anew included, and
	// Dropped rows removed.
	Rows, Bytes, Dropped uint64
	// Rounds is how often the log of the source was read to catch up.
	Rounds uint64
	// PauseMS is how long the range took no writes, all freezes together, and
	// LongestMS the longest of them.
	PauseMS, LongestMS int64
	// Children were asked for by this one, Splits of them to split shards.
	Children, Splits uint64
}

// Ended tells whether the job has come to an end, and whether it was taken back.
func (j *Job) Ended() (ended, undone bool) { return j.Phase.Final(), j.Phase == RolledBack }

// Remote tells whether the job carries rows from one store to another.
func (j *Job) Remote() bool { return j.Kind == Move && !j.Local }

// Decided tells whether the job goes forward only.
func (j *Job) Decided() bool { return j.Phase.decided() }

// DurationMS is how long the job took, or has taken so far.
func (j *Job) DurationMS() int64 { return j.ChangedMS - j.CreatedMS }

// Account returns the parent of a job that has ended with what that has cost. It is
// stored as one with the end of the job, so that each counts once.
func Account(parent Job, c *Cost, nowMS int64) Job {
	p := &parent.Cost
	p.Rows, p.Bytes, p.Dropped = p.Rows+c.Rows, p.Bytes+c.Bytes, p.Dropped+c.Dropped
	p.Rounds, p.PauseMS, p.LongestMS = p.Rounds+c.Rounds, p.PauseMS+c.PauseMS, max(p.LongestMS, c.LongestMS)
	parent.touch(nowMS)
	return parent
}

// become brings the job into a phase, with something new outstanding.
func (j *Job) become(p Phase, nowMS int64) {
	j.Phase = p
	j.Round++
	j.touch(nowMS)
	if p.Final() {
		j.EndedMS = nowMS
	}
}

// touch makes another record of the job.
func (j *Job) touch(nowMS int64) {
	j.Rev++
	j.ChangedMS = max(j.ChangedMS, nowMS)
}

// pause adds a freeze that has ended to the cost.
func (j *Job) pause(nowMS int64) {
	if j.FrozenMS == 0 {
		return
	}
	took := max(nowMS-j.FrozenMS, 0)
	j.Cost.PauseMS += took
	j.Cost.LongestMS = max(j.Cost.LongestMS, took)
	j.FrozenMS = 0
}
