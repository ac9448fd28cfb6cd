package throttle

import (
	"testing"
	"time"
)

// A job sleeps more and more while others wait for processors, up to a bound, and less
// and less when they do not, down to not at all.
func TestPacer_OthersWaitForLong_SleepsMoreAndMore(t *testing.T) {
	for _, c := range []struct{ ratio, late, all, want float64 }{
		{0, 0, 0, 0},
		{0, 5, 100, 0},
		{0, 6, 100, 0.5},
		{0.5, 6, 100, 1},
		{maxSleepRatio - 1, 100, 100, maxSleepRatio},
		{maxSleepRatio, 100, 100, maxSleepRatio},
		{busySleepRatio, 0, 100, busySleepRatio / 2.0},
		{2, 5, 100, 1},
		{0.5, 0, 0, 0},
	} {
		if got := nextSleepRatio(c.ratio, maxSleepRatio, c.late, c.all); got != c.want {
			t.Errorf("after %v, with %v of %v late: %v, want %v", c.ratio, c.late, c.all, got, c.want)
		}
	}
}

// What counts of a reading is what came since the one before.
func TestPacer_Measure_ComparesWithTheReadingBefore(t *testing.T) {
	start := time.Unix(1000, 0)
	var p Pacer
	r := Reading{HasWaits: true, Waits: 100, LongWaits: 100, Processors: 2}
	p.Measure(start, r)
	if p.sleepRatio != minSleepRatio {
		t.Fatalf("all were late: it sleeps %v times its work", p.sleepRatio)
	}
	p.Measure(start.Add(measureInterval), Reading{HasWaits: true, Waits: 200, LongWaits: 200, Processors: 2})
	if p.sleepRatio != 2*minSleepRatio {
		t.Errorf("all were late again: it sleeps %v times its work", p.sleepRatio)
	}
	p.Measure(start.Add(2*measureInterval), Reading{Processors: 2}) // nothing is known
	if p.sleepRatio != 2*minSleepRatio {
		t.Errorf("with nothing known it sleeps %v times its work", p.sleepRatio)
	}
	p.Measure(start.Add(3*measureInterval), Reading{HasWaits: true, Waits: 300, LongWaits: 205, Processors: 2})
	if p.sleepRatio != minSleepRatio {
		t.Errorf("five of a hundred were late: it sleeps %v times its work", p.sleepRatio)
	}
}

// It sleeps at once while many wait for a processor, though none of them waits for long, and more where the
// process uses much of all processors.
func TestPacer_ManyAreRunnable_SleepsAtOnce(t *testing.T) {
	start := time.Unix(1000, 0)
	busy := time.Duration(busyCPUShare * 4 * float64(measureInterval))
	for _, c := range []struct {
		what     string
		runnable uint64
		used     time.Duration
		want     float64
	}{
		{"a queue that is short enough", 4 * busyQueuePerCPU, 0, 0},
		{"a long queue", 4*busyQueuePerCPU + 1, busy, maxSleepRatio},
		{"a long queue and busy processors", 4*busyQueuePerCPU + 1, busy + 1, busySleepRatio},
	} {
		var p Pacer
		p.Measure(start, Reading{HasWaits: true, Processors: 4, CPUUsed: time.Hour})
		p.Measure(start.Add(measureInterval), Reading{HasWaits: true, Processors: 4, CPUUsed: time.Hour + c.used, Runnable: c.runnable})
		if p.sleepRatio != c.want {
			t.Errorf("%s: it sleeps %v times its work, want %v", c.what, p.sleepRatio, c.want)
		}
	}
}

// It is asked for after a moment of work, and reads the scheduler now and then.
func TestPacer_IsDueAndNeedsReading_AfterTheirTimes(t *testing.T) {
	now := time.Unix(1000, 0)
	var p Pacer
	if !p.IsDue(now) || !p.NeedsReading(now) {
		t.Error("the first time is not due")
	}
	p.Measure(now, Reading{Processors: 1})
	p.Resume(now)
	if p.IsDue(now.Add(minWork-1)) || !p.IsDue(now.Add(minWork)) {
		t.Errorf("it is not due after %v", minWork)
	}
	if p.NeedsReading(now.Add(measureInterval)) || !p.NeedsReading(now.Add(measureInterval+1)) {
		t.Errorf("it does not need a reading after %v", measureInterval)
	}
}

// The more urgent a job is, the less it sleeps; a long piece of work counts as a short one.
func TestPacer_Urgency_BoundsTheSleep(t *testing.T) {
	now := time.Unix(1000, 0)
	for urgency, want := range []time.Duration{19 * time.Millisecond, 3 * time.Millisecond, time.Millisecond} {
		p := Pacer{sleepRatio: busySleepRatio, workingSince: now.Add(-time.Millisecond), writers: writerPace{urgency: urgency}}
		if got := p.Sleep(now); got != want {
			t.Errorf("urgency %d: it sleeps for %v, want %v", urgency, got, want)
		}
	}
	p := Pacer{sleepRatio: 4, workingSince: now.Add(-time.Second)}
	if got := p.Sleep(now); got != 4*measureInterval {
		t.Errorf("after a second of work it sleeps for %v, want %v", got, 4*measureInterval)
	}
}
