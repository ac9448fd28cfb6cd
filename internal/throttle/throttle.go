// Package throttle decides how background work gives way to clients.
//
// It is pure: the caller hands in the time and what it has measured, and carries out what is decided.
// There are two mechanisms, for two kinds of background work.
//
// A [Pacer] is for work that may take longer: moves of rows, and with a fixed ratio ([Rest]) builds of
// indexes. It sleeps for a multiple of the time that it has worked while goroutines wait for processors. If
// writers outrun it, it sleeps less, and only if that is not enough their writes are delayed.
//
// A [Yielder] is for work that commits wait for once it falls behind: the applier, and the flushes and
// compactions of tables. It never sleeps. It queues for the processor again after a moment, and works for as
// long as it has queued, so that half of what it competes for is its own. A Pacer would leave such work an
// eleventh of a processor or less (TestYielder_BusyProcessor_GetsItsShareWhereAPacerDoesNot), and a Yielder
// would leave clients too little beside a move: it takes its share however many of them wait.
//
// Limits set by an operator are not decided here: the bytes per second of a job are part of its record, in
// package mover. Nor is the pause between two attempts at something that has failed.
package throttle

import "time"

// LongWait is a wait for a processor that matters to a caller that otherwise waits for a disk.
const LongWait = 100 * time.Microsecond

const (
	// minWork is the least that a job works before it sleeps: a timer is not much finer.
	minWork = 100 * time.Microsecond
	// measureInterval is how often the scheduler is measured, and the longest time of work that a sleep is a
	// multiple of.
	measureInterval = 10 * time.Millisecond
	// maxSleepRatio leaves a job an eleventh of a processor, and busySleepRatio a twentieth, where more
	// than busyCPUShare of all of them are used: a job that takes longer takes less of each second.
	maxSleepRatio  = 10
	busySleepRatio = 19
	busyCPUShare   = 0.4
	// minSleepRatio is the first one, and the last before a job does not sleep at all.
	minSleepRatio = 0.5
	// maxLateShare is the share of goroutines that may wait for longer than LongWait.
	maxLateShare = 0.05
	// busyQueuePerCPU is how many may wait for each processor before the job sleeps as much as it can:
	// none of them waits for long then, but whatever the job does they do not.
	busyQueuePerCPU = 2
)

// sleepRatios bounds how many times as long as it has worked a job sleeps, by its urgency.
var sleepRatios = [maxUrgency + 1]float64{busySleepRatio, 3, 1}

// Reading is what was measured of the process. Counts and times only grow.
type Reading struct {
	// HasWaits reports whether waits are known: Waits are those for a processor so far, and
	// LongWaits those of at least LongWait.
	HasWaits         bool
	Waits, LongWaits uint64
	// Runnable is how many goroutines wait for a processor.
	Runnable uint64
	// CPUUsed is the processor time that the process has used.
	CPUUsed time.Duration
	// Processors is how many the process may use at once.
	Processors int
}

// Pacer decides how long a job sleeps between two moments of work, and for how long each write of its range
// is delayed ([Pacer.WriteDelay]).
//
// A goroutine that works all the time is given ten milliseconds at a time, and one that comes back from the
// disk meanwhile waits for that long: with few processors, that is what clients notice of a job. So it works
// for a moment and sleeps for several while others wait for processors, and works on while they do not.
//
// The zero value is ready. It is the memory of a driver and no part of a record: the next driver of the job
// finds out again.
type Pacer struct {
	// sleepRatio is for how many times as long as it has worked the job sleeps.
	sleepRatio               float64
	workingSince, measuredAt time.Time
	last                     Reading
	writers                  writerPace
}

// IsDue reports whether the job has worked for long enough to think about a sleep.
func (p *Pacer) IsDue(now time.Time) bool { return now.Sub(p.workingSince) >= minWork }

// NeedsReading reports whether the last reading is too old.
func (p *Pacer) NeedsReading(now time.Time) bool { return now.Sub(p.measuredAt) > measureInterval }

// Measure takes a reading, and compares it with the one before.
func (p *Pacer) Measure(now time.Time, r Reading) {
	most := float64(maxSleepRatio)
	used := float64(r.CPUUsed-p.last.CPUUsed) / float64(now.Sub(p.measuredAt))
	if used > busyCPUShare*float64(r.Processors) {
		most = busySleepRatio
	}
	if r.HasWaits {
		p.sleepRatio = nextSleepRatio(p.sleepRatio, most, float64(r.LongWaits-p.last.LongWaits), float64(r.Waits-p.last.Waits))
	} else {
		r.Waits, r.LongWaits = p.last.Waits, p.last.LongWaits
	}
	if r.Runnable > busyQueuePerCPU*uint64(r.Processors) {
		p.sleepRatio = most
	}
	p.last, p.measuredAt = r, now
}

// nextSleepRatio returns how much a job sleeps after so many of all goroutines had to wait for long.
func nextSleepRatio(ratio, most, late, all float64) float64 {
	if late > all*maxLateShare {
		return min(max(2*ratio, minSleepRatio), most)
	}
	if ratio /= 2; ratio < minSleepRatio {
		return 0
	}
	return min(ratio, most)
}

// Sleep returns how long to sleep at a time when the job is due. [Pacer.Resume] comes after it.
func (p *Pacer) Sleep(now time.Time) time.Duration {
	ratio := min(sleepRatios[p.writers.urgency], p.sleepRatio)
	return Rest(now.Sub(p.workingSince), measureInterval, ratio)
}

// Resume notes that the job works again.
func (p *Pacer) Resume(now time.Time) { p.workingSince = now }

// Rest returns a sleep of ratio times the time that was worked, of which no more than most counts.
func Rest(worked, most time.Duration, ratio float64) time.Duration {
	return time.Duration(ratio * float64(min(worked, most)))
}

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

// minYieldInterval is long against a switch of goroutines, and maxYieldInterval is what the scheduler
// allows.
const minYieldInterval, maxYieldInterval = 100 * time.Microsecond, 10 * time.Millisecond

// Yielder decides when a goroutine in the background queues for the processor again. The scheduler takes a
// processor away after ten milliseconds, and one that comes back from the disk meanwhile waits for that long,
// where there are few processors. So the goroutine works for a moment and queues; and where the queue is
// long, it works for as long as it has queued, so that it gets on among others that do not yield.
//
// The zero value is ready.
type Yielder struct {
	workingSince time.Time
	interval     time.Duration // of work before it queues
}

// IsDue reports whether it is time to yield.
func (y *Yielder) IsDue(now time.Time) bool { return now.Sub(y.workingSince) >= y.interval }

// Resume notes for how long the goroutine has queued.
func (y *Yielder) Resume(left, now time.Time) {
	y.workingSince, y.interval = now, min(max(now.Sub(left), minYieldInterval), maxYieldInterval)
}
