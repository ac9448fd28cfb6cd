package mover

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// handleOwnership begins a job, if the groups have what it is about.
func (j *Job) handleOwnership(ev OwnershipRead, nowMS int64) {
	if err := j.setSourceRanges(ev.Source, ev.Dest); err != nil {
		j.Reason = formatReason(err)
		j.enterPhase(RolledBack, nowMS)
		return
	}
	j.Reason = ""
	if j.Paused {
		return // what was seen may not be so later: look again
	}
	if !j.IsRemote() {
		j.enterPhase(Deciding, nowMS)
		return
	}
	j.Attempt = 1
	j.enterPhase(Preparing, nowMS)
}

// setSourceRanges keeps what the groups have, to be compared with before it is changed.
func (j *Job) setSourceRanges(source, dest []ownership.Range) error {
	at := j.Span.Start
	for _, r := range source {
		if r.State != ownership.Serving || !bytes.Equal(r.Span.Start, at) {
			return fmt.Errorf("%w: %v has %v", ownership.ErrStale, j.From, r)
		}
		at = r.Span.End
	}
	want := 1
	if j.Kind == Merge {
		want = 2
	}
	if len(source) != want || !bytes.Equal(at, j.Span.End) ||
		source[0].Version != j.Expect || want == 2 && source[1].Version != j.ExpectRight {
		return fmt.Errorf("%w: %v has not all of %v as of version %d", ownership.ErrStale, j.From, j.Span, j.Expect)
	}
	if j.Kind == Move && !isFromOlderJobs(slices.Values(dest), j.ID) {
		return fmt.Errorf("%w: %v has %v", ownership.ErrStale, j.To, dest)
	}
	j.SourceRanges = source
	return nil
}

// handleEvaluated goes on after commands of groups.
func (j *Job) handleEvaluated(ev Evaluated, nowMS int64) {
	switch j.Phase {
	case Preparing:
		j.enterPhase(Clearing, nowMS)
	case Clearing:
		j.handleCleared(ev, Locating, nowMS)
	case Opening:
		j.enterPhase(Copying, nowMS)
	case Freezing:
		j.EndPosition = ev.Position
		j.enterPhase(Finishing, nowMS)
	case Thawing:
		j.handleThawed(nowMS)
	case Abandoning:
		j.enterPhase(Wiping, nowMS)
	case Wiping:
		j.handleCleared(ev, Dismissing, nowMS)
	case Dismissing:
		j.enterPhase(RolledBack, nowMS)
	case Releasing:
		j.VersionFloor, j.ClockFloorMS = ev.NextVersion, ev.ClockMS
		if !j.IsRemote() {
			j.enterPhase(Publishing, nowMS)
		} else {
			j.enterPhase(Activating, nowMS)
		}
	case Activating:
		j.recordPause(nowMS)
		j.enterPhase(Publishing, nowMS)
	case Dropping:
		j.handleCleared(ev, Forgetting, nowMS)
	case Forgetting:
		j.enterPhase(Done, nowMS)
	}
}

// handleCleared goes on removing rows, or with what comes after that.
func (j *Job) handleCleared(ev Evaluated, then Phase, nowMS int64) {
	if j.Cost.DroppedRows += ev.Rows; ev.More {
		then = j.Phase
	}
	j.enterPhase(then, nowMS)
}

// handleCopied goes on with the copy, or with the log.
func (j *Job) handleCopied(ev Copied, nowMS int64) {
	j.recordCopied(ev.Rows, ev.Bytes, nowMS)
	j.Cursor = ev.Next
	if len(ev.Next) > 0 {
		j.enterPhase(Copying, nowMS)
		return
	}
	j.enterPhase(CatchingUp, nowMS)
}

// handleCaughtUp goes on with the log until little is left, or soon copied, compares everything
// while writes go on, and freezes when little is left after that too.
func (j *Job) handleCaughtUp(ev CaughtUp, nowMS int64) {
	if j.Phase != CatchingUp && j.Phase != Finishing {
		return
	}
	j.recordCopied(ev.Rows, ev.Bytes, nowMS)
	j.CopiedUpTo = max(j.CopiedUpTo, ev.CopiedUpTo)
	j.Cost.CatchUpRounds++
	impatient := j.Cost.CatchUpRounds%roundsBeforeFreeze == 0
	little := !ev.More && (ev.Bytes <= smallRoundBytes || ev.TookMS <= shortRoundMS)
	switch {
	case j.Phase == Finishing && j.CopiedUpTo < j.EndPosition:
		j.enterPhase(Finishing, nowMS)
	case j.Phase == Finishing:
		j.enterPhase(Comparing, nowMS)
	case !little && !impatient:
		j.enterPhase(CatchingUp, nowMS)
	case j.VerifiedUpTo == 0:
		j.enterPhase(Verifying, nowMS)
	default:
		j.beginFreeze(nowMS)
	}
}

// handleVerified goes on when both sides have the same, and begins anew if not.
func (j *Job) handleVerified(ev Verified, nowMS int64) {
	if j.Phase != Verifying && j.Phase != Comparing {
		return
	}
	j.recordCopied(ev.Rows, ev.Bytes, nowMS)
	j.CopiedUpTo = max(j.CopiedUpTo, ev.CopiedUpTo)
	switch {
	case !ev.Equal:
		j.Reason = fmt.Sprintf("the copy differs from what it is a copy of, at %d", ev.CopiedUpTo)
		j.restartCopy(nowMS)
	case j.Phase == Comparing:
		j.enterPhase(Deciding, nowMS)
	default:
		j.VerifiedUpTo = ev.CopiedUpTo
		j.enterPhase(CatchingUp, nowMS)
	}
}

// beginFreeze asks for the range to take no writes, unless the job is to wait.
func (j *Job) beginFreeze(nowMS int64) {
	if j.Paused {
		j.enterPhase(CatchingUp, nowMS)
		return
	}
	j.Freezes++
	j.FrozenMS, j.EndPosition = max(nowMS, 1), 0
	j.enterPhase(Freezing, nowMS)
}

// handleThawed goes on where the freeze has interrupted the job.
func (j *Job) handleThawed(nowMS int64) {
	j.recordPause(nowMS)
	switch {
	case j.Undo:
		j.enterPhase(Abandoning, nowMS)
	case j.Recopy:
		j.beginNextCopy(nowMS)
	default:
		j.NotBeforeMS = nowMS + backoffMS<<min(j.Freezes, maxBackoffs)
		j.enterPhase(CatchingUp, nowMS)
	}
}

// handleAcknowledged goes on after the map was published, or groups opened or found to be of no
// more use.
func (j *Job) handleAcknowledged(nowMS int64) {
	switch {
	case j.Phase == Publishing && j.IsRemote():
		j.enterPhase(Dropping, nowMS)
	case j.Phase == Publishing:
		j.enterPhase(Done, nowMS)
	case j.Phase == Hosting && j.Undo:
		j.enterPhase(Stopping, nowMS)
	case j.Phase == Hosting:
		j.enterPhase(Surveying, nowMS)
	case j.Phase == Retiring:
		j.enterPhase(Removing, nowMS)
	}
}

// recordCopied counts what was copied, and lets the job wait if that was fast. What is written
// meanwhile is copied as it comes: a job that is slower than its writers would never end.
func (j *Job) recordCopied(rows, size uint64, nowMS int64) {
	j.Cost.Rows += rows
	j.Cost.Bytes += size
	if j.Throttle > 0 && j.Phase == Copying {
		j.NotBeforeMS = max(nowMS, j.NotBeforeMS) + int64(size*1000/j.Throttle)
	}
}

// The ranges of a move, in the order in which they come to be.

// newServingRange is what the source has. After a freeze it is another one than before,
// so that a freeze that comes late finds nothing.
func (j *Job) newServingRange(freezes uint64) ownership.Range {
	r := j.SourceRanges[0]
	if freezes > 0 {
		r.Job, r.Attempt = j.ID, freezes
	}
	return r
}

func (j *Job) newFrozenRange() ownership.Range {
	return ownership.Range{Span: j.Span, Version: j.SourceRanges[0].Version, State: ownership.Frozen, Job: j.ID, Attempt: j.Freezes}
}

func (j *Job) newIncomingRange(attempt, upto uint64) ownership.Range {
	return ownership.Range{Span: j.Span, Version: j.SourceRanges[0].Version, State: ownership.Incoming, Job: j.ID, Attempt: attempt, CopiedUpTo: upto}
}

// foreignRange is a range that is not served any more, or that did not come.
func (j *Job) foreignRange(v partition.Version, attempt uint64) ownership.Range {
	return ownership.Range{Span: j.Span, Version: v, State: ownership.Foreign, Job: j.ID, Attempt: attempt}
}

// newDecidedRange is a range at the version that was decided.
func (j *Job) newDecidedRange(s partition.Span) ownership.Range {
	return ownership.Range{Span: s, Version: j.Version, State: ownership.Serving, Job: j.ID}
}

// PendingEffects returns what a job wants done. It depends on the record alone: after a
// crash, or in another driver, the job goes on as if nothing had been.
func PendingEffects(j Job) []Effect {
	if j.Phase.IsFinal() || j.Paused && j.Phase.isPausable() {
		return nil
	}
	switch j.Phase {
	case Planned:
		if j.Kind.isComposite() {
			return nil
		}
		return []Effect{ReadOwnership{Round: j.Round, From: j.From, To: j.To, Span: j.Span}}
	case Locating:
		return []Effect{Locate{Round: j.Round, From: j.From}}
	case Copying:
		c := Copy{
			Round: j.Round, Job: j.ID, From: j.From, To: j.To, Span: j.Span, Attempt: j.Attempt, BasePosition: j.BasePosition,
			Cursor: j.Cursor, LimitBytes: RoundBytes, NotBeforeMS: j.NotBeforeMS,
		}
		if j.Throttle > 0 { // what it allows in a second, so that it goes on evenly
			c.LimitBytes = int(min(j.Throttle, RoundBytes))
		}
		return []Effect{c}
	case CatchingUp, Finishing:
		return []Effect{j.makeCatchUp()}
	case Verifying, Comparing:
		return []Effect{Verify{
			Round: j.Round, Job: j.ID, From: j.From, To: j.To, Span: j.Span, Attempt: j.Attempt,
			CopiedUpTo: j.CopiedUpTo, Since: j.VerifiedUpTo, Until: j.EndPosition,
		}}
	case Deciding, Marking, Removing, Unmarking:
		return []Effect{DecideJob{Round: j.Round}}
	case Publishing:
		return []Effect{PublishMap{Round: j.Round, Version: j.Version}}
	case Hosting:
		return []Effect{OpenGroups{Round: j.Round, Groups: j.Groups}}
	case Surveying, Stopping:
		return []Effect{SurveyCluster{Round: j.Round}}
	case Retiring:
		return []Effect{CheckNoDecisions{Round: j.Round, Groups: j.Groups}}
	}
	return j.makeCommands()
}

func (j *Job) makeCatchUp() Effect {
	c := CatchUp{
		Round: j.Round, Job: j.ID, From: j.From, To: j.To, Span: j.Span, Attempt: j.Attempt,
		CopiedUpTo: j.CopiedUpTo, LimitBytes: RoundBytes,
	}
	if j.Phase == Finishing {
		c.Until, c.LimitBytes = j.EndPosition, frozenRoundBytes // a range that takes no writes needs no throttling
	} else {
		c.NotBeforeMS = j.NotBeforeMS
	}
	return c
}

// makeCommands returns what the phase wants groups to evaluate.
func (j *Job) makeCommands() []Effect {
	switch j.Phase {
	case Preparing:
		// The first copy takes the place of nothing, the others that of the one before.
		return j.makeEvalCommands(j.To, &ChangeDestination{
			Job: j.ID, Become: j.newIncomingRange(j.Attempt, 0), Attempt: j.Attempt - 1, AllowMissing: j.Attempt == 1, JobFloor: j.JobFloor,
		})
	case Clearing:
		return j.makeEvalCommands(j.To, &Clear{Job: j.ID, Attempt: j.Attempt, Span: j.Span, Limit: ClearBatchRows})
	case Opening:
		return j.makeEvalCommands(j.To, newRangeChange(j.newIncomingRange(j.Attempt, 0), j.newIncomingRange(j.Attempt, j.BasePosition)))
	case Freezing:
		return j.makeEvalCommands(j.From, newRangeChange(j.newServingRange(j.Freezes-1), j.newFrozenRange()))
	case Thawing:
		return j.makeEvalCommands(j.From, &Thaw{Frozen: j.newFrozenRange(), Before: j.newServingRange(j.Freezes - 1), Become: j.newServingRange(j.Freezes)})
	case Abandoning:
		return j.makeEvalCommands(j.To, &ChangeDestination{Job: j.ID, Become: j.foreignRange(j.SourceRanges[0].Version, 0), AnyAttempt: true, AllowMissing: true})
	case Wiping:
		return j.makeEvalCommands(j.To, &Clear{Job: j.ID, Span: j.Span, Limit: ClearBatchRows})
	case Dismissing:
		v := j.SourceRanges[0].Version
		return j.makeEvalCommands(j.To, j.newRangeDrop(j.foreignRange(v, 0), v))
	case Releasing:
		return j.makeRelease()
	case Activating:
		return j.makeActivate()
	case Dropping:
		return j.makeEvalCommands(j.From, &Clear{Job: j.ID, Span: j.Span, Limit: ClearBatchRows})
	case Forgetting:
		return j.makeEvalCommands(j.From, j.newRangeDrop(j.foreignRange(j.Version, 0), j.Version))
	}
	return nil
}

// makeRelease is the first step after the decision: from here the source refuses
// reads too. Where no rows are moved it is the only one.
func (j *Job) makeRelease() []Effect {
	switch {
	case j.IsRemote():
		gone := j.foreignRange(j.Version, 0)
		effects := j.makeEvalCommands(j.From, newRangeChange(j.newFrozenRange(), gone))
		return effects
	case j.Kind == Move:
		return []Effect{EvalCommands{Round: j.Round, CarryFloors: true, Commands: []GroupCommand{
			{j.From, j.newRangeDrop(j.SourceRanges[0], j.Version)},
			{j.To, &ChangeDestination{Job: j.ID, Become: j.newDecidedRange(j.Span), AllowMissing: true, JobFloor: j.JobFloor}},
		}}}
	}
	c := &ownership.ChangeOwnership{Expect: j.SourceRanges}
	if j.Kind == Merge {
		c.Become = []ownership.Range{j.newDecidedRange(j.Span)}
	} else {
		start := j.Span.Start
		for _, at := range j.At {
			c.Become = append(c.Become, j.newDecidedRange(partition.Span{Start: start, End: at}))
			start = at
		}
		c.Become = append(c.Become, j.newDecidedRange(partition.Span{Start: start, End: j.Span.End}))
	}
	return j.makeEvalCommands(j.From, c)
}

// makeActivate lets the destination serve.
func (j *Job) makeActivate() []Effect {
	effects := j.makeEvalCommands(j.To, &ChangeDestination{
		Job: j.ID, Attempt: j.Attempt, Become: j.newDecidedRange(j.Span), VersionFloor: j.VersionFloor, ClockFloorMS: j.ClockFloorMS,
	})
	return effects
}

func (j *Job) makeEvalCommands(g partition.GroupID, c SiteCommand) []Effect {
	e := EvalCommands{Round: j.Round, Commands: []GroupCommand{{g, c}}}
	if j.Phase.isPausable() {
		e.NotBeforeMS = j.NotBeforeMS
	}
	return []Effect{e}
}

// newRangeChange makes the command that puts one range in the place of another.
func newRangeChange(expect, become ownership.Range) *ownership.ChangeOwnership {
	return &ownership.ChangeOwnership{Expect: []ownership.Range{expect}, Become: []ownership.Range{become}}
}

// newRangeDrop makes the command after which the job has left nothing of a range, and some of
// what earlier ones have left is joined.
func (j *Job) newRangeDrop(expect ownership.Range, v partition.Version) *ownership.ChangeOwnership {
	c := newRangeChange(expect, j.foreignRange(v, ownership.AttemptDropped))
	c.JobFloor = j.JobFloor
	return c
}
