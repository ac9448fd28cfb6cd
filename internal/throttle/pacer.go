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
// is delayed (writers.go).
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
