// Package mover computes the steps of a job that changes owners.
//
// A [Job] is a record: everything that is known about a split, a merge, a move, a drain or a
// change of the number of groups. [Admit] makes one or returns why not, [Plan] estimates its
// cost, [Step] makes the next record out of an event, and [PendingEffects] returns what the
// record wants done. That depends on the record alone, so any driver that has the record can go
// on, however often the work was interrupted. [Decide] is the one place at which a job can no
// longer be taken back.
//
// # Promises
//
//   - At most one group serves a position at any time.
//   - What was acknowledged is there after the job, whether it went through or
//     was taken back, and nothing else is.
//   - A job that has ended leaves no range frozen or half copied, and no rows
//     behind.
//
// # Choices
//
// A job has one thing outstanding at a time, and asks for it again after a [Timeout]. Everything
// that it wants may happen late, twice or never: receivers compare before they change, and a
// reply to an earlier round is ignored.
//
// # Limits
//
// The package is pure: a driver keeps the records, evaluates commands at groups, reads and
// copies rows, and knows the time. DESIGN.md has the states, and what a driver must do.
package mover

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Job is a piece of work that changes owners, and how far it has come. It is a value: to change
// a job is to make another. Its slices are never written to.
type Job struct {
	ID    ownership.JobID
	Kind  Kind
	Phase Phase
	// Rev is one more with each record of the job. A driver stores a record only
	// in the place of the one before it, so of two drivers one is overtaken.
	Rev uint64
	// Round names what is outstanding. A reply to an earlier one is too late.
	Round uint64
	// Parent is the job that this one is a part of, or 0.
	Parent ownership.JobID
	// JobFloor was the lowest number of the jobs that had not ended when this one was
	// admitted, itself included, of those that change ranges. Numbers grow: so all
	// below it have ended, for ever.
	JobFloor ownership.JobID

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
	// Local reports whether both live on one store, so that no rows are moved.
	Local bool
	// Version is that of the map in which the change was decided. Invariant: it
	// is not 0 iff the decision was made.
	Version partition.Version

	// SourceRanges is what From had for the span when the job began.
	SourceRanges []ownership.Range
	// Attempt numbers the copies and Freezes the freezes, from 1.
	Attempt, Freezes uint64
	// BasePosition is the place in the source's log at which the copy began, Upto how far
	// the destination has come, Verified up to where both were found equal, and
	// End where the source was frozen. Cursor is the store key at which the copy
	// goes on.
	BasePosition, CopiedUpTo, VerifiedUpTo, EndPosition uint64
	Cursor                                              []byte
	// VersionFloor and ClockFloorMS are what the source had given out, and its
	// time, when it was released.
	VersionFloor uint64
	ClockFloorMS int64

	// Groups are those that are drained or added, Want how many there are to be
	// and Parallel how many shards are moved at a time.
	Groups                 []partition.GroupID
	Labels                 []partition.Labels
	TargetGroups, Parallel int
	// MarkedGroups are those of Groups that drain because of this job. Others drained before:
	// that is not taken back with it.
	MarkedGroups []partition.GroupID

	// Paused jobs begin nothing new that carries or removes rows. Undo jobs are taken back,
	// Again ones begin the copy anew once the source is thawed.
	Paused, Undo, Recopy bool
	// Throttle is how many bytes a second the job may copy, 0 for any number,
	// and NotBeforeMS when it may go on.
	Throttle    uint64
	NotBeforeMS int64

	// Reason is the last error, or why the job was taken back.
	Reason string
	// Plan is what was expected, if [Plan] was called before, and Cost what happened.
	Plan Price
	Cost Cost
	// CreatedMS, ChangedMS and EndedMS are when the job was admitted, last got
	// another record, and ended. FrozenMS is when the freeze was asked for.
	CreatedMS, ChangedMS, EndedMS, FrozenMS int64
}

// Cost is what a job has taken. One that is done by others has that of its children
// that have ended, see [AddChildCost].
type Cost struct {
	// Rows and Bytes were copied, copies that were begun anew included, and DroppedRows removed.
	Rows, Bytes, DroppedRows uint64
	// CatchUpRounds is how often the log of the source was read to catch up.
	CatchUpRounds uint64
	// PauseMS is how long the range took no writes, all freezes together, and LongestPauseMS the
	// longest of them.
	PauseMS, LongestPauseMS int64
	// Children were asked for by this one, Splits of them to split shards.
	Children, Splits uint64
}

// HasEnded reports whether the job has come to an end, and whether it was taken back.
func (j *Job) HasEnded() (ended, undone bool) { return j.Phase.IsFinal(), j.Phase == RolledBack }

// IsRemote reports whether the job copies rows from one store to another.
func (j *Job) IsRemote() bool { return j.Kind == Move && !j.Local }

// IsDecided reports whether the job goes forward only.
func (j *Job) IsDecided() bool { return j.Phase.isDecided() }

// DurationMS is how long the job took, or has taken so far.
func (j *Job) DurationMS() int64 { return j.ChangedMS - j.CreatedMS }

// AddChildCost returns the parent of a job that has ended with what that has cost. It is
// stored as one with the end of the job, so that each counts once.
func AddChildCost(parent Job, c *Cost, nowMS int64) Job {
	p := &parent.Cost
	p.Rows, p.Bytes, p.DroppedRows = p.Rows+c.Rows, p.Bytes+c.Bytes, p.DroppedRows+c.DroppedRows
	p.CatchUpRounds, p.PauseMS, p.LongestPauseMS = p.CatchUpRounds+c.CatchUpRounds, p.PauseMS+c.PauseMS, max(p.LongestPauseMS, c.LongestPauseMS)
	parent.markChanged(nowMS)
	return parent
}

// enterPhase brings the job into a phase, with something new outstanding.
func (j *Job) enterPhase(p Phase, nowMS int64) {
	j.Phase = p
	j.Round++
	j.markChanged(nowMS)
	if p.IsFinal() {
		j.EndedMS = nowMS
	}
}

// markChanged makes another record of the job.
func (j *Job) markChanged(nowMS int64) {
	j.Rev++
	j.ChangedMS = max(j.ChangedMS, nowMS)
}

// recordPause adds a freeze that has ended to the cost.
func (j *Job) recordPause(nowMS int64) {
	if j.FrozenMS == 0 {
		return
	}
	took := max(nowMS-j.FrozenMS, 0)
	j.Cost.PauseMS += took
	j.Cost.LongestPauseMS = max(j.Cost.LongestPauseMS, took)
	j.FrozenMS = 0
}

// Kind is what a job does.
type Kind uint8

// The kinds. Their numbers are on disks: none is ever changed or used again.
const (
	// Split cuts a shard in several.
	Split Kind = 1
	// Merge joins two neighbours of one group.
	Merge Kind = 2
	// Move gives a shard to another group.
	Move Kind = 3
	// PreSplit splits all shards that keys lie in.
	PreSplit Kind = 4
	// Drain moves all shards of a group elsewhere.
	Drain Kind = 5
	// Regroup changes the number of groups.
	Regroup Kind = 6
	// Undrain lets a group that was drained have shards again.
	Undrain Kind = 7
)

// String is the word for k in commands and reports.
func (k Kind) String() string {
	names := [...]string{"", "split", "merge", "move", "pre-split", "drain", "regroup", "undrain"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return names[k]
}

// isComposite reports whether a job of this kind is done by others.
func (k Kind) isComposite() bool { return k >= PreSplit }

// Phase is how far a job has come. DESIGN.md has for each what is outstanding,
// and what holds meanwhile.
type Phase uint8

// The phases. Their numbers are on disks: none is ever changed or used again.
const (
	// Before the decision: a job can be taken back.
	Planned    Phase = 1
	Preparing  Phase = 2
	Clearing   Phase = 3
	Locating   Phase = 4
	Opening    Phase = 5
	Copying    Phase = 6
	CatchingUp Phase = 7
	Verifying  Phase = 8
	Freezing   Phase = 9
	Finishing  Phase = 10
	Comparing  Phase = 11
	Deciding   Phase = 12
	Thawing    Phase = 13
	Abandoning Phase = 14
	Wiping     Phase = 15
	Dismissing Phase = 16

	// After the decision: forward only.
	Releasing  Phase = 32
	Activating Phase = 33
	Publishing Phase = 34
	Dropping   Phase = 35
	Forgetting Phase = 36

	// Of jobs that are done by others.
	Marking   Phase = 64
	Hosting   Phase = 65
	Surveying Phase = 66
	Retiring  Phase = 67
	Removing  Phase = 68
	Stopping  Phase = 69
	Unmarking Phase = 70

	// The ends.
	Done       Phase = 128
	RolledBack Phase = 129
)

var phaseNames = map[Phase]string{
	Planned: "planned", Preparing: "preparing", Clearing: "clearing", Locating: "locating", Opening: "opening",
	Copying: "copying", CatchingUp: "catching up", Verifying: "verifying", Freezing: "freezing", Finishing: "finishing",
	Comparing: "comparing", Deciding: "deciding", Thawing: "thawing", Abandoning: "abandoning", Wiping: "wiping",
	Dismissing: "dismissing", Releasing: "releasing", Activating: "activating", Publishing: "publishing",
	Dropping: "dropping", Forgetting: "forgetting", Marking: "marking", Hosting: "hosting", Surveying: "surveying",
	Retiring: "retiring", Removing: "removing", Stopping: "stopping", Unmarking: "unmarking",
	Done: "done", RolledBack: "rolled back",
}

// String is the phase in reports.
func (p Phase) String() string {
	if name, ok := phaseNames[p]; ok {
		return name
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// IsFinal reports whether the job has ended.
func (p Phase) IsFinal() bool { return p >= Done }

// isDecided reports whether the job goes forward only.
func (p Phase) isDecided() bool { return p >= Releasing && p <= Forgetting || p == Done }

// isUndoing reports whether the job is being taken back.
func (p Phase) isUndoing() bool { return p >= Abandoning && p <= Dismissing }

// IsFrozen reports whether the source may take no writes because of the job.
func (p Phase) IsFrozen() bool { return p >= Freezing && p <= Thawing }

// isPausable reports whether the phase copies or removes rows: it may be paused.
func (p Phase) isPausable() bool {
	return p >= Planned && p <= Verifying || p == Dropping || p == Wiping || p == Surveying
}
