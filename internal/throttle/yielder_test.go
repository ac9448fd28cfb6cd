package throttle

import (
	"testing"
	"time"
)

// It yields after a moment, or after as long as it has queued, but no longer than the scheduler allows.
func TestYielder_Resume_WorksForAsLongAsItQueued(t *testing.T) {
	now := time.Unix(1000, 0)
	var y Yielder
	if !y.IsDue(now) {
		t.Error("the first time is not due")
	}
	for _, c := range []struct{ queued, want time.Duration }{
		{0, minYieldInterval}, {time.Microsecond, minYieldInterval}, {3 * time.Millisecond, 3 * time.Millisecond}, {time.Second, maxYieldInterval},
	} {
		y.Resume(now.Add(-c.queued), now)
		if y.IsDue(now.Add(c.want-1)) || !y.IsDue(now.Add(c.want)) {
			t.Errorf("after %v in the queue it does not work for %v", c.queued, c.want)
		}
	}
}

// step is how long simulated work takes between two questions to the throttle.
const step = 50 * time.Microsecond

// yielderShare returns the share of ten simulated seconds in which a goroutine with a Yielder works, if it
// queues for so long each time.
func yielderShare(queue time.Duration) float64 {
	start := time.Unix(1000, 0)
	now, worked := start, time.Duration(0)
	var y Yielder
	for now.Sub(start) < 10*time.Second {
		if y.IsDue(now) {
			left := now
			now = now.Add(queue)
			y.Resume(left, now)
		}
		now, worked = now.Add(step), worked+step
	}
	return worked.Seconds() / now.Sub(start).Seconds()
}

// pacerShare is yielderShare of a job with a Pacer. It queues too when it wakes up, and all goroutines wait
// for as long; the only processor is never idle.
func pacerShare(queue time.Duration) float64 {
	start := time.Unix(1000, 0)
	now, worked := start, time.Duration(0)
	var p Pacer
	var r Reading
	for now.Sub(start) < 10*time.Second {
		if p.IsDue(now) {
			if p.NeedsReading(now) {
				r.HasWaits, r.Processors, r.CPUUsed = true, 1, now.Sub(start)
				r.Waits += 10
				if queue >= LongWait {
					r.LongWaits += 10
				}
				p.Measure(now, r)
			}
			now = now.Add(p.Sleep(now)).Add(queue)
			p.Resume(now)
		}
		now, worked = now.Add(step), worked+step
	}
	return worked.Seconds() / now.Sub(start).Seconds()
}

// The two mechanisms do different jobs: beside goroutines that never pause, what commits wait for goes on at
// half of the speed, and a job leaves them nearly all of it.
func TestYielder_BusyProcessor_GetsItsShareWhereAPacerDoesNot(t *testing.T) {
	for _, queue := range []time.Duration{200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond} {
		if got := yielderShare(queue); got < 0.45 || got > 0.6 {
			t.Errorf("a yielder that queues for %v works %.2f of the time, want about half", queue, got)
		}
		if got := pacerShare(queue); got > 1.0/10 {
			t.Errorf("a job beside goroutines that wait for %v works %.2f of the time, want a tenth at most", queue, got)
		}
	}
	if got := yielderShare(0); got < 0.99 {
		t.Errorf("a yielder alone works %.2f of the time", got)
	}
	if got := pacerShare(0); got < 0.99 {
		t.Errorf("a job alone works %.2f of the time", got)
	}
}
