package mover

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// looked begins a job, if the groups have what it is about.
func (j *Job) looked(ev Looked, nowMS int64) {
	if err := j.take(ev.Source, ev.Dest); err != nil {
		j.Why = reason(err)
		j.become(RolledBack, nowMS)
		return
	}
	j.Why = ""
	if j.Paused {
		return // what was seen may not be so later: look again
	}
	if !j.Remote() {
		j.become(Deciding, nowMS)
		return
	}
	j.Attempt = 1
	j.become(Preparing, nowMS)
}

// take keeps what the groups have, to be compared with before it is changed.
func (j *Job) take(source, dest []own.Range) error {
	at := j.Span.Start
	for _, r := range source {
		if r.State != own.Serving || !bytes.Equal(r.Span.Start, at) {
			return fmt.Errorf("%w: %v has %v", own.ErrStale, j.From, r)
		}
		at = r.Span.End
	}
	want := 1
	if j.Kind == Merge {
		want = 2
	}
	if len(source) != want || !bytes.Equal(at, j.Span.End) ||
		source[0].Version != j.Expect || want == 2 && source[1].Version != j.ExpectRight {
		return fmt.Errorf("%w: %v has not all of %v as of version %d", own.ErrStale, j.From, j.Span, j.Expect)
	}
	if j.Kind == Move && !older(slices.Values(dest), j.ID) {
		return fmt.Errorf("%w: %v has %v", own.ErrStale, j.To, dest)
	}
	j.Held = source
	return nil
}

// evaluated goes on after commands of groups.
func (j *Job) evaluated(ev Evaluated, nowMS int64) {
	switch j.Phase {
	case Preparing:
		j.become(Clearing, nowMS)
	case Clearing:
		j.clear(ev, Locating, nowMS)
	case Opening:
		j.become(Copying, nowMS)
	case Freezing:
		j.End = ev.Position
		j.become(Finishing, nowMS)
	case Thawing:
		j.thawed(nowMS)
	case Abandoning:
		j.become(Wiping, nowMS)
	case Wiping:
		j.clear(ev, Dismissing, nowMS)
	case Dismissing:
		j.become(RolledBack, nowMS)
	case Releasing:
		j.VersionFloor, j.ClockFloorMS = ev.NextVersion, ev.ClockMS
		if !j.Remote() {
			j.become(Publishing, nowMS)
		} else {
			j.become(Activating, nowMS)
		}
	case Activating:
		j.pause(nowMS)
		j.become(Publishing, nowMS)
	case Dropping:
		j.clear(ev, Forgetting, nowMS)
	case Forgetting:
		j.become(Done, nowMS)
	}
}

// clear goes on removing rows, or with what comes after that.
func (j *Job) clear(ev Evaluated, then Phase, nowMS int64) {
	if j.Cost.Dropped += ev.Rows; ev.More {
		then = j.Phase
	}
	j.become(then, nowMS)
}

// copied goes on with the copy, or with the log.
func (j *Job) copied(ev Copied, nowMS int64) {
	j.carried(ev.Rows, ev.Bytes, nowMS)
	j.Cursor = ev.Next
	if len(ev.Next) > 0 {
		j.become(Copying, nowMS)
		return
	}
	j.become(Catching, nowMS)
}

// caughtUp goes on with the log until little is left, or soon carried, compares
// everything while writes go on, and freezes when little is left after that too.
func (j *Job) caughtUp(ev CaughtUp, nowMS int64) {
	if j.Phase != Catching && j.Phase != Finishing {
		return
	}
	j.carried(ev.Rows, ev.Bytes, nowMS)
	j.Upto = max(j.Upto, ev.Upto)
	j.Cost.Rounds++
	impatient := j.Cost.Rounds%patienceRounds == 0
	little := !ev.More && (ev.Bytes <= smallBytes || ev.TookMS <= quickMS)
	switch {
	case j.Phase == Finishing && j.Upto < j.End:
		j.become(Finishing, nowMS)
	case j.Phase == Finishing:
		j.become(Comparing, nowMS)
	case !little && !impatient:
		j.become(Catching, nowMS)
	case j.Verified == 0:
		j.become(Verifying, nowMS)
	default:
		j.freeze(nowMS)
	}
}

// verified goes on when both sides have the same, and begins anew if not.
func (j *Job) verified(ev Verified, nowMS int64) {
	if j.Phase != Verifying && j.Phase != Comparing {
		return
	}
	j.carried(ev.Rows, ev.Bytes, nowMS)
	j.Upto = max(j.Upto, ev.Upto)
	switch {
	case !ev.Equal:
		j.Why = fmt.Sprintf("the copy differs from what it is a copy of, at %d", ev.Upto)
		j.restart(nowMS)
	case j.Phase == Comparing:
		j.become(Deciding, nowMS)
	default:
		j.Verified = ev.Upto
		j.become(Catching, nowMS)
	}
}

// freeze asks for the range to take no writes, unless the job is to wait.
func (j *Job) freeze(nowMS int64) {
	if j.Paused {
		j.become(Catching, nowMS)
		return
	}
	j.Freezes++
	j.FrozenMS, j.End = max(nowMS, 1), 0
	j.become(Freezing, nowMS)
}

// thawed goes on where the freeze has interrupted the job.
func (j *Job) thawed(nowMS int64) {
	j.pause(nowMS)
	switch {
	case j.Undo:
		j.become(Abandoning, nowMS)
	case j.Again:
		j.again(nowMS)
	default:
		j.NotBeforeMS = nowMS + backoffMS<<min(j.Freezes, maxBackoffs)
		j.become(Catching, nowMS)
	}
}

// published goes on after the map was brought to the routers, or groups opened
// or found to be of no more use.
func (j *Job) published(nowMS int64) {
	switch {
	case j.Phase == Publishing && j.Remote():
		j.become(Dropping, nowMS)
	case j.Phase == Publishing:
		j.become(Done, nowMS)
	case j.Phase == Hosting && j.Undo:
		j.become(Stopping, nowMS)
	case j.Phase == Hosting:
		j.become(Surveying, nowMS)
	case j.Phase == Retiring:
		j.become(Removing, nowMS)
	}
}

// carried counts what was carried, and lets the job wait if that was fast. What is
// written meanwhile is carried as it comes: a job that is slower than its writers
// would never end.
func (j *Job) carried(rows, size uint64, nowMS int64) {
	j.Cost.Rows += rows
	j.Cost.Bytes += size
	if j.Throttle > 0 && j.Phase == Copying {
		j.NotBeforeMS = max(nowMS, j.NotBeforeMS) + int64(size*1000/j.Throttle)
	}
}

// The ranges of a move, in the order in which they come to be.

// serving is what the source has. After a freeze it is another one than before,
// so that a freeze that comes late finds nothing.
func (j *Job) serving(freezes uint64) own.Range {
	r := j.Held[0]
	if freezes > 0 && !plant.Bug("mover-late-freeze") {
		r.Job, r.Attempt = j.ID, freezes
	}
	return r
}

func (j *Job) frozen() own.Range {
	return own.Range{Span: j.Span, Version: j.Held[0].Version, State: own.Frozen, Job: j.ID, Attempt: j.Freezes}
}

func (j *Job) incoming(attempt, upto uint64) own.Range {
	return own.Range{Span: j.Span, Version: j.Held[0].Version, State: own.Incoming, Job: j.ID, Attempt: attempt, Upto: upto}
}

// foreign is a range that is not served any more, or that did not come.
func (j *Job) foreign(v partition.Version, attempt uint64) own.Range {
	return own.Range{Span: j.Span, Version: v, State: own.Foreign, Job: j.ID, Attempt: attempt}
}

// given is a range at the version that was decided.
func (j *Job) given(s partition.Span) own.Range {
	return own.Range{Span: s, Version: j.Version, State: own.Serving, Job: j.ID}
}
