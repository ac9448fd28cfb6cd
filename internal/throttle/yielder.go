package throttle

import "time"

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
