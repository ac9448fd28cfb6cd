package mover

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/own"
)

// Bounds of a job.
const (
	// RoundBytes is how much is carried before both stores are synced. It is brought in
	// pieces (package drive), so that commands of others wait for one of them at most.
	RoundBytes = 8 << 20
	// frozenBytes is that while a range takes no writes: what is left is little, or
	// the job should look at the time in between.
	frozenBytes = 4 << 20
	// ClearRows is how many rows are removed at a time.
	ClearRows = 4096
	// smallBytes is what is left to catch up with when a range may be frozen: at
	// 100 MiB/s it is carried in a tenth of the freeze. It may be more, if that took
	// no more than quickMS.
	smallBytes = 256 << 10
	quickMS    = FreezeLimitMS / 3
	// FreezeLimitMS is how long a range may take no writes before it is thawed
	// again. The decision and what follows come on top of it. After every fourth
	// freeze it is doubled: on a machine that is too busy, a longer pause is better
	// than many in vain.
	FreezeLimitMS = 30
	// patienceRounds is how often a job catches up before it freezes although
	// there is always more than a little left: the limit of the freeze decides.
	patienceRounds = 64
	// maxAttempts and maxFreezes are how often a job tries before it is taken
	// back.
	maxAttempts = 8
	maxFreezes  = 16
	// backoffMS is how long a job waits after a freeze that took too long, doubled
	// after each of the first maxBackoffs.
	backoffMS   = 10
	maxBackoffs = 5
	// maxWhy bounds the text of an error in a record.
	maxWhy = 512
)

// Step returns what a job is after an event, and what it wants done then. If
// its Rev has changed, the record is stored first, in the place of the one
// before; if another one is there, nothing of this has happened: look again.
//
// What a job wants when it has gone on is what [Resume] says, so a driver that
// crashes before it has done that loses nothing.
func Step(j Job, ev Event, nowMS int64) (Job, []Effect) {
	if j.Phase.Final() {
		return j, nil
	}
	if j.overdue(nowMS) {
		j.thaw(nowMS)
		return j, Resume(j)
	}
	if _, ok := ev.(Timeout); ok {
		return j, Resume(j)
	}
	if ev.round() != j.Round {
		return j, nil // it was answered before, or does not matter any more
	}
	round := j.Round
	var effects []Effect
	switch ev := ev.(type) {
	case Failed:
		j.fail(ev.Err, nowMS)
	case Surveyed:
		effects = j.surveyed(ev.View, nowMS)
	default:
		j.advance(ev, nowMS)
	}
	if j.Round != round { // what was outstanding stays so until the next Timeout
		effects = append(effects, Resume(j)...)
	}
	return j, effects
}

// advance takes an answer, if it is one to what the phase has asked for.
func (j *Job) advance(ev Event, nowMS int64) {
	switch ev := ev.(type) {
	case Looked:
		if j.Phase == Planned {
			j.looked(ev, nowMS)
		}
	case Evaluated:
		j.evaluated(ev, nowMS)
	case Located:
		if j.Phase == Locating && ev.Position > 0 {
			j.Base, j.Upto, j.Cursor = ev.Position, ev.Position, nil
			j.become(Opening, nowMS)
		}
	case Copied:
		if j.Phase == Copying {
			j.copied(ev, nowMS)
		}
	case CaughtUp:
		j.caughtUp(ev, nowMS)
	case Verified:
		j.verified(ev, nowMS)
	case Published:
		j.published(nowMS)
	}
}

// fail takes an error. What may pass by itself is tried again; what says that
// the world is not as it was ends the attempt, or the job.
func (j *Job) fail(err error, nowMS int64) {
	if err == nil {
		return
	}
	why := reason(err)
	copies := j.Phase >= Copying && j.Phase <= Comparing && j.Phase != Freezing
	switch {
	case j.Phase == Deciding:
		j.Why = why
		j.undo(nowMS)
	case j.Phase == Marking || j.Phase == Unmarking:
		j.Why = why
		j.become(RolledBack, nowMS)
	case j.Phase == Removing:
		j.Why = why
		j.become(Surveying, nowMS)
	case copies && (errors.Is(err, ErrGone) || errors.Is(err, ErrGap) || errors.Is(err, ErrNotIncoming)):
		j.Why = why
		j.restart(nowMS)
	case errors.Is(err, own.ErrStale) && (j.Phase == Preparing || j.Phase == Opening || j.Phase == Freezing):
		j.Why = why
		j.undo(nowMS)
	case j.Why != why:
		j.Why = why
		j.touch(nowMS) // for whoever looks; the next Timeout tries again
	}
}

// reason is an error as a record keeps it.
func reason(err error) string {
	why := err.Error()
	return why[:min(len(why), maxWhy)]
}

// overdue tells whether the range takes no writes for too long.
func (j *Job) overdue(nowMS int64) bool {
	thaws := j.ThawsMS()
	return thaws > 0 && nowMS >= thaws
}

// ThawsMS is from when on the range takes no writes for too long; 0 if it takes them, or
// nothing is done about it any more.
func (j *Job) ThawsMS() int64 {
	if j.Phase < Freezing || j.Phase > Deciding || j.FrozenMS == 0 {
		return 0
	}
	return j.FrozenMS + j.freezeLimitMS() + 1
}

// freezeLimitMS is how long the range may take no writes this time.
func (j *Job) freezeLimitMS() int64 { return FreezeLimitMS << ((max(j.Freezes, 1) - 1) / 4) }

// thaw gives the range back, to try again later or not at all.
func (j *Job) thaw(nowMS int64) {
	if j.Freezes >= maxFreezes && !j.Undo && !j.Again {
		j.Undo, j.Why = true, fmt.Sprintf("the range could not be handed over within %d ms; attempts: %d", j.freezeLimitMS(), j.Freezes)
	}
	j.become(Thawing, nowMS)
}

// restart begins the copy anew.
func (j *Job) restart(nowMS int64) {
	if j.Attempt >= maxAttempts {
		j.undo(nowMS)
		return
	}
	if j.Phase.Frozen() {
		j.Again = true
		j.thaw(nowMS)
		return
	}
	j.again(nowMS)
}

// again prepares the next copy.
func (j *Job) again(nowMS int64) {
	j.Attempt++
	j.Again, j.Base, j.Upto, j.Verified, j.Cursor = false, 0, 0, 0, nil
	j.become(Preparing, nowMS)
}

// undo takes the job back. It is called before the decision only.
func (j *Job) undo(nowMS int64) {
	j.Undo, j.Paused = true, false
	switch {
	case j.Phase == Thawing || j.Phase.undoing() || j.Phase == Hosting:
		j.touch(nowMS) // groups that the map has must be open, whoever asked for them
	case j.Kind == Undrain:
		j.become(RolledBack, nowMS) // nothing was changed
	case j.Kind.composite():
		j.become(Stopping, nowMS)
	case j.Remote() && j.Phase.Frozen():
		j.thaw(nowMS)
	case j.Phase == Planned || !j.Remote():
		j.become(RolledBack, nowMS) // nothing was changed
	default:
		j.become(Abandoning, nowMS)
	}
}
