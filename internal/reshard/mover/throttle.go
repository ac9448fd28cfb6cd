package mover

// AdaptiveThrottle decides how much a job hurries, and for how long each write of its range is
// held up, while it catches up with the log. As long as it gains on the writers, it
// does not hurry, and they do not wait.
//
// It is the memory of a driver, no part of the record: whoever drives the job next
// finds out again.
type AdaptiveThrottle struct {
	// Urgency is from 0 to MaxHaste, and does not become less: a job is to come to its
	// end. WaitUS is for how long writes are held up, in microseconds: only if haste is
	// not enough.
	Urgency      int
	WriteDelayUS int64
	// measuredMS and behind are when the job was last looked at, and how much the
	// destination lacked then.
	measuredMS, lagBytes int64
}

const (
	// measureIntervalMS is how often a job is looked at. What it carries in less says little.
	measureIntervalMS = 100
	// catchUpGoalMS is in what time it is to catch up, at the pace of now.
	catchUpGoalMS = 10_000
	// minWriteDelayUS is the first wait, and maxWriteDelayUS the longest.
	minWriteDelayUS, maxWriteDelayUS = 50, 20_000
	// MaxUrgency rests no longer than it works.
	MaxUrgency = 2
)

// OnCopied returns the brake after a look at how many bytes of log are kept for the copy,
// of most that may be: it is to be over before there are more. The log is that of all
// who use the store, so nobody is held up for it.
func (b AdaptiveThrottle) OnCopied(kept, most, nowMS int64) AdaptiveThrottle {
	if _, _, ok := b.measureProgress(kept, nowMS); ok && kept > most/2 {
		b.Urgency = min(b.Urgency+1, MaxUrgency)
	}
	return b
}

// OnCaughtUp returns the brake after a look at how many bytes the destination lacks, of
// rows that have changed or of log. Own tells that they are of the range, for the most part: writers of others are
// not held up, so those of the range would be in vain.
func (b AdaptiveThrottle) OnCaughtUp(behind int64, own bool, nowMS int64) AdaptiveThrottle {
	gained, took, ok := b.measureProgress(behind, nowMS)
	switch {
	case !ok || took == 0:
	case behind <= RoundBytes, gained*catchUpGoalMS > 4*behind*took: // sooner than need be
		b.WriteDelayUS /= 2
	case gained*catchUpGoalMS >= behind*took:
	case b.Urgency < MaxUrgency:
		b.Urgency++
	case own:
		b.WriteDelayUS = min(max(2*b.WriteDelayUS, minWriteDelayUS), maxWriteDelayUS)
	}
	return b
}

// measureProgress returns what was gained since the last look and how long that took, which is
// nothing at the first one, unless it comes too soon.
func (b *AdaptiveThrottle) measureProgress(behind, nowMS int64) (gained, took int64, ok bool) {
	if b.measuredMS > 0 {
		gained, took = b.lagBytes-behind, nowMS-b.measuredMS
		if took < measureIntervalMS {
			return 0, 0, false
		}
	}
	b.measuredMS, b.lagBytes = nowMS, behind
	return gained, took, true
}
