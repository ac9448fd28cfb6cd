package mover

// Brake decides how much a job hurries, and for how long each write of its range is
// held up, while it catches up with the log. As long as it gains on the writers, it
// does not hurry, and they do not wait.
//
// It is the memory of a driver, no part of the record: whoever drives the job next
// finds out again.
type Brake struct {
	// Haste is from 0 to MaxHaste, and does not become less: a job is to come to its
	// end. WaitUS is for how long writes are held up, in microseconds: only if haste is
	// not enough.
	Haste  int
	WaitUS int64
	// sinceMS and behind are when the job was last looked at, and how much the
	// destination lacked then.
	sinceMS, behind int64
}

const (
	// brakeMS is how often a job is looked at. What it carries in less says little.
	brakeMS = 100
	// drainMS is in what time it is to catch up, at the pace of now.
	drainMS = 10_000
	// minWaitUS is the first wait, and maxWaitUS the longest.
	minWaitUS, maxWaitUS = 50, 20_000
	// MaxHaste rests no longer than it works.
	MaxHaste = 2
)

// Copied returns the brake after a look at how many bytes of log are kept for the copy,
// of most that may be: it is to be over before there are more. The log is that of all
// who use the store, so nobody is held up for it.
func (b Brake) Copied(kept, most, nowMS int64) Brake {
	if _, _, ok := b.look(kept, nowMS); ok && kept > most/2 {
		b.Haste = min(b.Haste+1, MaxHaste)
	}
	return b
}

// CaughtUp returns the brake after a look at how many bytes the destination lacks, of
// rows that have changed or of log. Own tells that they are of the range, for the most part: writers of others are
// not held up, so those of the range would be in vain.
func (b Brake) CaughtUp(behind int64, own bool, nowMS int64) Brake {
	gained, took, ok := b.look(behind, nowMS)
	switch {
	case !ok || took == 0:
	case behind <= RoundBytes, gained*drainMS > 4*behind*took: // sooner than need be
		b.WaitUS /= 2
	case gained*drainMS >= behind*took:
	case b.Haste < MaxHaste:
		b.Haste++
	case own:
		b.WaitUS = min(max(2*b.WaitUS, minWaitUS), maxWaitUS)
	}
	return b
}

// look returns what was gained since the last look and how long that took, which is
// nothing at the first one, unless it comes too soon.
func (b *Brake) look(behind, nowMS int64) (gained, took int64, ok bool) {
	if b.sinceMS > 0 {
		gained, took = b.behind-behind, nowMS-b.sinceMS
		if took < brakeMS {
			return 0, 0, false
		}
	}
	b.sinceMS, b.behind = nowMS, behind
	return gained, took, true
}
