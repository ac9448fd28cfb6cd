package mover

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Bounds of a job.
const (
	// RoundBytes is how much is copied before both stores are synced. It is applied in chunks
	// (package protocol), so that commands of others wait for one of them at most.
	RoundBytes = 8 << 20
	// frozenRoundBytes is that while a range takes no writes: what is left is little, or
	// the job should check the time in between.
	frozenRoundBytes = 4 << 20
	// ClearBatchRows is how many rows are removed at a time.
	ClearBatchRows = 4096
	// smallRoundBytes is what is left to catch up with when a range may be frozen: at 100 MiB/s
	// it is copied in a tenth of the freeze. It may be more, if that took no more than
	// shortRoundMS.
	smallRoundBytes = 256 << 10
	shortRoundMS    = FreezeLimitMS / 3
	// FreezeLimitMS is how long a range may take no writes before it is thawed
	// again. The decision and what follows come on top of it. After every fourth
	// freeze it is doubled: on a machine that is too busy, a longer pause is better
	// than many in vain.
	FreezeLimitMS = 30
	// roundsBeforeFreeze is how often a job catches up before it freezes although
	// there is always more than a little left: the limit of the freeze decides.
	roundsBeforeFreeze = 64
	// maxAttempts and maxFreezes are how often a job tries before it is taken
	// back.
	maxAttempts = 8
	maxFreezes  = 16
	// backoffMS is how long a job waits after a freeze that took too long, doubled
	// after each of the first maxBackoffs.
	backoffMS   = 10
	maxBackoffs = 5
	// maxReasonBytes bounds the text of an error in a record.
	maxReasonBytes = 512
)

// Step returns what a job is after an event, and what it wants done then. If
// its Rev has changed, the record is stored first, in the place of the one
// before; if another one is there, nothing of this has happened: look again.
//
// What a job wants when it has gone on is what [PendingEffects] returns, so a driver that
// crashes before it has done that loses nothing.
func Step(j Job, ev Event, nowMS int64) (Job, []Effect) {
	if j.Phase.IsFinal() {
		return j, nil
	}
	if j.isFreezeOverdue(nowMS) {
		j.beginThaw(nowMS)
		return j, PendingEffects(j)
	}
	if _, ok := ev.(Timeout); ok {
		return j, PendingEffects(j)
	}
	if ev.answeredRound() != j.Round {
		return j, nil // it was answered before, or does not matter any more
	}
	round := j.Round
	var effects []Effect
	switch ev := ev.(type) {
	case Failed:
		j.handleFailure(ev.Err, nowMS)
	case Surveyed:
		effects = j.handleSurvey(ev.View, nowMS)
	default:
		j.handleAnswer(ev, nowMS)
	}
	if j.Round != round { // what was outstanding stays so until the next Timeout
		effects = append(effects, PendingEffects(j)...)
	}
	return j, effects
}

// handleAnswer takes an answer, if it is one to what the phase has asked for.
func (j *Job) handleAnswer(ev Event, nowMS int64) {
	switch ev := ev.(type) {
	case OwnershipRead:
		if j.Phase == Planned {
			j.handleOwnership(ev, nowMS)
		}
	case Evaluated:
		j.handleEvaluated(ev, nowMS)
	case Located:
		if j.Phase == Locating && ev.Position > 0 {
			j.BasePosition, j.CopiedUpTo, j.Cursor = ev.Position, ev.Position, nil
			j.enterPhase(Opening, nowMS)
		}
	case Copied:
		if j.Phase == Copying {
			j.handleCopied(ev, nowMS)
		}
	case CaughtUp:
		j.handleCaughtUp(ev, nowMS)
	case Verified:
		j.handleVerified(ev, nowMS)
	case Acknowledged:
		j.handleAcknowledged(nowMS)
	}
}

// handleFailure takes an error. What may pass by itself is tried again; what means that
// the world is not as it was ends the attempt, or the job.
func (j *Job) handleFailure(err error, nowMS int64) {
	if err == nil {
		return
	}
	why := formatReason(err)
	copies := j.Phase >= Copying && j.Phase <= Comparing && j.Phase != Freezing
	switch {
	case j.Phase == Deciding:
		j.Reason = why
		j.beginUndo(nowMS)
	case j.Phase == Marking || j.Phase == Unmarking:
		j.Reason = why
		j.enterPhase(RolledBack, nowMS)
	case j.Phase == Removing:
		j.Reason = why
		j.enterPhase(Surveying, nowMS)
	case copies && (errors.Is(err, ErrGone) || errors.Is(err, ErrLogGap) || errors.Is(err, ErrNotIncoming)):
		j.Reason = why
		j.restartCopy(nowMS)
	case errors.Is(err, ownership.ErrStale) && (j.Phase == Preparing || j.Phase == Opening || j.Phase == Freezing):
		j.Reason = why
		j.beginUndo(nowMS)
	case j.Reason != why:
		j.Reason = why
		j.markChanged(nowMS) // for the operator; the next Timeout tries again
	}
}

// formatReason is an error as a record keeps it.
func formatReason(err error) string {
	why := err.Error()
	return why[:min(len(why), maxReasonBytes)]
}

// isFreezeOverdue reports whether the range takes no writes for too long.
func (j *Job) isFreezeOverdue(nowMS int64) bool {
	thaws := j.ThawDeadlineMS()
	return thaws > 0 && nowMS >= thaws
}

// ThawDeadlineMS is from when on the range takes no writes for too long; 0 if it takes them, or
// nothing is done about it any more.
func (j *Job) ThawDeadlineMS() int64 {
	if j.Phase < Freezing || j.Phase > Deciding || j.FrozenMS == 0 {
		return 0
	}
	return j.FrozenMS + j.freezeLimitMS() + 1
}

// freezeLimitMS is how long the range may take no writes this time.
func (j *Job) freezeLimitMS() int64 { return FreezeLimitMS << ((max(j.Freezes, 1) - 1) / 4) }

// beginThaw gives the range back, to try again later or not at all.
func (j *Job) beginThaw(nowMS int64) {
	if j.Freezes >= maxFreezes && !j.Undo && !j.Recopy {
		j.Undo, j.Reason = true, fmt.Sprintf("the range could not be handed over within %d ms; attempts: %d", j.freezeLimitMS(), j.Freezes)
	}
	j.enterPhase(Thawing, nowMS)
}

// restartCopy begins the copy anew.
func (j *Job) restartCopy(nowMS int64) {
	if j.Attempt >= maxAttempts {
		j.beginUndo(nowMS)
		return
	}
	if j.Phase.IsFrozen() {
		j.Recopy = true
		j.beginThaw(nowMS)
		return
	}
	j.beginNextCopy(nowMS)
}

// beginNextCopy prepares the next copy.
func (j *Job) beginNextCopy(nowMS int64) {
	j.Attempt++
	j.Recopy, j.BasePosition, j.CopiedUpTo, j.VerifiedUpTo, j.Cursor = false, 0, 0, 0, nil
	j.enterPhase(Preparing, nowMS)
}

// beginUndo takes the job back. It is called before the decision only.
func (j *Job) beginUndo(nowMS int64) {
	j.Undo, j.Paused = true, false
	switch {
	case j.Phase == Thawing || j.Phase.isUndoing() || j.Phase == Hosting:
		j.markChanged(nowMS) // groups that the map has must be open, whichever job asked for them
	case j.Kind == Undrain:
		j.enterPhase(RolledBack, nowMS) // nothing was changed
	case j.Kind.isComposite():
		j.enterPhase(Stopping, nowMS)
	case j.IsRemote() && j.Phase.IsFrozen():
		j.beginThaw(nowMS)
	case j.Phase == Planned || !j.IsRemote():
		j.enterPhase(RolledBack, nowMS) // nothing was changed
	default:
		j.enterPhase(Abandoning, nowMS)
	}
}

// Cancel takes a job back. Past its decision it goes forward: the error is
// ErrTooLate, and nothing changes. A job that is taken back already stays so.
func Cancel(j Job, nowMS int64) (Job, []Effect, error) {
	switch {
	case j.Phase.IsFinal():
		return j, nil, fmt.Errorf("%w: it is %v", ErrJobEnded, j.Phase)
	case j.Phase.isDecided(), j.Phase == Removing:
		return j, nil, fmt.Errorf("%w: it is %v", ErrTooLate, j.Phase)
	case j.Undo:
		return j, nil, nil
	}
	j.Reason = "cancelled"
	j.beginUndo(nowMS)
	return j, PendingEffects(j), nil
}

// Pause lets a job begin nothing more that copies or removes rows. One that has frozen a range
// goes on until it is thawed or handed over.
func Pause(j Job, nowMS int64) (Job, error) {
	if j.Phase.IsFinal() {
		return j, fmt.Errorf("%w: it is %v", ErrJobEnded, j.Phase)
	}
	if !j.Paused {
		j.Paused = true
		j.markChanged(nowMS)
	}
	return j, nil
}

// Unpause lets a paused job go on.
func Unpause(j Job, nowMS int64) (Job, []Effect, error) {
	if j.Phase.IsFinal() {
		return j, nil, fmt.Errorf("%w: it is %v", ErrJobEnded, j.Phase)
	}
	if !j.Paused {
		return j, nil, nil
	}
	j.Paused = false
	j.markChanged(nowMS)
	return j, PendingEffects(j), nil
}

// minThrottleBytes is the least that a job may be throttled to: a GiB takes four and a
// half hours then.
const minThrottleBytes = 64 << 10

func checkThrottle(bytesPerSecond uint64) error {
	if bytesPerSecond > 0 && bytesPerSecond < minThrottleBytes {
		return fmt.Errorf("%w: BytesPerSecond is %d: use %d or more", ErrBadRequest, bytesPerSecond, minThrottleBytes)
	}
	return nil
}

// SetThrottle bounds how many bytes a second a job copies, from its next round on. 0
// lifts the bound.
func SetThrottle(j Job, bytesPerSecond uint64, nowMS int64) (Job, error) {
	if j.Phase.IsFinal() {
		return j, fmt.Errorf("%w: it is %v", ErrJobEnded, j.Phase)
	}
	if err := checkThrottle(bytesPerSecond); err != nil {
		return j, fmt.Errorf("%w, or pause the job", err)
	}
	j.Throttle, j.NotBeforeMS = bytesPerSecond, 0
	j.markChanged(nowMS)
	return j, nil
}

// Decide makes the decision of a job: the record in which it goes forward, the map that it
// makes, and what the job wants then. It is called with the stored record and the newest map,
// and what it returns is stored in their places as one; where the groups concerned share the
// store, what the job wants may be a part of that too. If it returns an error, nothing is
// stored, and the error is the answer to the DecideJob.
//
// Everything that races with a decision changes the record: a cancel, a freeze
// that takes too long, another driver. So there is one decision, or none.
func Decide(j Job, c DecideJob, m *partition.Map, nowMS int64) (Job, *partition.Map, []Effect, error) {
	if c.Round != j.Round {
		return j, nil, nil, fmt.Errorf("%w: it has gone on", ErrNotDeciding)
	}
	var edits []partition.Edit
	then := Releasing
	switch j.Phase {
	case Deciding:
		edits = []partition.Edit{j.makeEdit()}
	case Marking:
		edits, then = j.makeMarkEdits(m)
	case Removing:
		then = Done
		for _, g := range j.Groups {
			edits = append(edits, partition.RemoveGroup{Group: g})
		}
	case Unmarking:
		then = RolledBack
		edits = makeUnmarkEdits(m, j.MarkedGroups)
	default:
		return j, nil, nil, fmt.Errorf("%w: it is %v", ErrNotDeciding, j.Phase)
	}
	if len(edits) == 0 {
		j.enterPhase(then, nowMS)
		return j, m, PendingEffects(j), nil
	}
	next, err := m.Apply(edits...)
	if err != nil {
		return j, nil, nil, err
	}
	switch {
	case then == Hosting:
		j.Groups = listAddedGroups(m, next)
	case j.Phase == Marking && j.Kind != Undrain:
		// Another group may have begun to drain since the job was admitted.
		if err := checkDrainTargets(ClusterState{Map: next}); err != nil {
			return j, nil, nil, err
		}
		j.MarkedGroups = j.listUnmarked(m)
	}
	if j.Version = next.Version(); !j.Undo { // of one that is taken back it is the reason
		j.Reason = ""
	}
	j.enterPhase(then, nowMS)
	return j, next, PendingEffects(j), nil
}

// makeEdit is what the job does to the map.
func (j *Job) makeEdit() partition.Edit {
	switch j.Kind {
	case Split:
		return partition.Split{Shard: j.Shard, In: j.In, At: j.At, Expect: j.Expect}
	case Merge:
		return partition.Merge{Left: j.Shard, Right: j.Right, ExpectLeft: j.Expect, ExpectRight: j.ExpectRight}
	}
	return partition.Assign{Shard: j.Shard, To: j.To, Expect: j.Expect}
}

// listAddedGroups returns the groups that a map has and the one before it had not.
func listAddedGroups(before, now *partition.Map) (ids []partition.GroupID) {
	for _, g := range now.Groups() {
		if g.ID >= before.NextGroup() {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// CanStoreLater reports whether a driver may do what a job wants in a phase that an event has
// led to before that record is stored, which makes the time in which a range takes no writes
// shorter. The record that is stored wants something that was done, and finds it so: then comes
// the same again. A record that follows is stored in the place of the one that is stored, as all
// are.
//
//   - Finishing and comparing only bring to the destination what its attempt may have
//     at any time. The decision is made with the record that comes after them.
//   - Deciding is stored together with the decision, in one batch.
//   - Activating follows from releasing, whose answer is the same again, with floors
//     that are not lower. A destination that serves stays as it is. So does publishing,
//     where no rows are moved.
//   - Freezing and thawing are stored first: a crash would forget that a range is to be
//     thawed, and a driver that has no answer to a thaw must not decide.
func CanStoreLater(j *Job, to Phase) bool {
	from := j.Phase
	switch to {
	case Freezing:
		return false
	case Finishing:
		return from == Freezing || from == Finishing
	case Comparing:
		return from == Finishing
	case Deciding:
		return from == Comparing || from == Planned
	case Thawing:
		return false
	case Activating:
		return true
	case Publishing:
		return !j.IsRemote()
	}
	return false
}
