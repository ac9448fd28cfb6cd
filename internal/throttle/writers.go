package throttle

import "time"

const (
	// writersIntervalMS is how often a job is compared with the writers of its range. What it carries in
	// less says little.
	writersIntervalMS = 100
	// catchUpGoalMS is the time in which a job is to catch up, at its present rate.
	catchUpGoalMS = 10_000
	// minWriteDelay is the first delay of a write, and maxWriteDelay the longest.
	minWriteDelay, maxWriteDelay = 50 * time.Microsecond, 20 * time.Millisecond
	// maxUrgency sleeps no longer than it works.
	maxUrgency = 2
)

// writerPace is how a job does beside the writers of its range. As long as it gains on them it is not
// urgent, and they do not wait.
type writerPace struct {
	// urgency is from 0 to maxUrgency, and does not become less: a job is to come to its end.
	urgency int
	// writeDelay is how long each write is delayed: only if urgency is not enough.
	writeDelay time.Duration
	// comparedMS is the time of the last comparison, 0 before the first, and lagBytes what the destination
	// lacked then.
	comparedMS, lagBytes int64
}

// Lag is what the destination of a job lacks.
type Lag struct {
	// Bytes are those of rows that have changed, or of log.
	Bytes int64
	// RoundBytes is how much the job carries at a time: no more than that is no lag.
	RoundBytes int64
	// OwnRange reports whether they are of the job's range, for the most part. Writers of others are not
	// delayed, so to delay those of the range would be in vain.
	OwnRange bool
}

// RecordCopied compares how many bytes of log are kept for a copy with how many may be: the copy is to be
// over before there are more. The log is that of all users of the store, so no write is delayed for it.
func (p *Pacer) RecordCopied(kept, most, nowMS int64) {
	w := &p.writers
	if _, _, ok := w.measureProgress(kept, nowMS); ok && kept > most/2 {
		w.urgency = min(w.urgency+1, maxUrgency)
	}
}

// RecordCaughtUp compares what the destination lacks with what it lacked before.
func (p *Pacer) RecordCaughtUp(l Lag, nowMS int64) {
	w := &p.writers
	gained, took, ok := w.measureProgress(l.Bytes, nowMS)
	switch {
	case !ok || took == 0:
	case l.Bytes <= l.RoundBytes, gained*catchUpGoalMS > 4*l.Bytes*took: // sooner than need be
		w.writeDelay = (w.writeDelay / 2).Truncate(time.Microsecond)
	case gained*catchUpGoalMS >= l.Bytes*took:
	case w.urgency < maxUrgency:
		w.urgency++
	case l.OwnRange:
		w.writeDelay = min(max(2*w.writeDelay, minWriteDelay), maxWriteDelay)
	}
}

// measureProgress returns what was gained since the last comparison and how long that took, which is
// nothing at the first one, unless it comes too soon.
func (w *writerPace) measureProgress(lag, nowMS int64) (gained, took int64, ok bool) {
	if w.comparedMS > 0 {
		gained, took = w.lagBytes-lag, nowMS-w.comparedMS
		if took < writersIntervalMS {
			return 0, 0, false
		}
	}
	w.comparedMS, w.lagBytes = nowMS, lag
	return gained, took, true
}

// WriteDelay is how long each write of the job's range is delayed.
func (p *Pacer) WriteDelay() time.Duration { return p.writers.writeDelay }

// ForgetWriters makes the job begin without urgency, and ends the delay of writes.
func (p *Pacer) ForgetWriters() { p.writers = writerPace{} }
