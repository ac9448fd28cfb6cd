package mover

// Brake decides how much a job hurries, and for how long each write of its range is
// held up, while it catches up with the log. As long as it gains on the writers, it
// does not hurry, and they do not wait.
//
// It is the memory of a driver, no part of the record: whoever drives the job next
// finds out again.
type Brake struct {
	// Haste is from 0 to MaxHaste. WaitUS is for how long writes are held up, in
	// microseconds: only if haste is not enough.
	Haste  int
	WaitUS int64
	// sinceMS and behind are when the job was last looked at, and how much log the
	// destination lacked then.
	sinceMS, behind int64
}

const (
	// brakeMS is how often a job is looked at. What it carries in less says little.
	brakeMS = 100
	// drainMS is in what time it is to catch up, at the pace of now.
	drainMS = 10_000
	// minWaitUS and maxWaitUS bound the wait. It is doubled in between.
	minWaitUS, maxWaitUS = 50, 20_000
	// MaxHaste is almost without a rest.
	MaxHaste = 2
)

// Copied returns the brake after a look at how many bytes of log are kept for the copy,
// of most that may be: it is to be over before there are more.
func (b Brake) Copied(kept, most, nowMS int64) Brake {
	if took := nowMS - b.sinceMS; b.sinceMS > 0 && took < brakeMS {
		return b
	}
	b.sinceMS, b.behind = nowMS, kept
	if kept > most/2 {
		b.harder()
	}
	return b
}

// CaughtUp returns the brake after a look at how many bytes of log the destination
// lacks.
func (b Brake) CaughtUp(behind, nowMS int64) Brake {
	took := nowMS - b.sinceMS
	if b.sinceMS > 0 && took < brakeMS {
		return b
	}
	known, gained := b.sinceMS > 0, b.behind-behind
	b.sinceMS, b.behind = nowMS, behind
	switch {
	case !known || behind <= RoundBytes:
	case gained*drainMS < behind*took:
		b.harder()
	case gained*drainMS > 4*behind*took: // sooner than need be
		b.WaitUS /= 2
	}
	return b
}

func (b *Brake) harder() {
	if b.Haste < MaxHaste {
		b.Haste++
		return
	}
	b.WaitUS = min(max(2*b.WaitUS, minWaitUS), maxWaitUS)
}
