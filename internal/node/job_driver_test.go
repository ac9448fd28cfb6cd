package node

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A job rests more and more while others wait for processors, up to a bound, and less
// and less when they do not, down to not at all.
func TestAJobRestsWhileOthersWaitForProcessors(t *testing.T) {
	for _, c := range []struct{ rests, late, all, want float64 }{
		{0, 0, 0, 0},
		{0, 5, 100, 0},
		{0, 6, 100, 0.5},
		{0.5, 6, 100, 1},
		{maxSleepRatio - 1, 100, 100, maxSleepRatio},
		{maxSleepRatio, 100, 100, maxSleepRatio},
		{2, 5, 100, 1},
		{0.5, 0, 0, 0},
	} {
		if got := nextSleepRatio(c.rests, maxSleepRatio, c.late, c.all); got != c.want {
			t.Errorf("after %v, with %v of %v late: %v, want %v", c.rests, c.late, c.all, got, c.want)
		}
	}
}

// The runtime tells how long goroutines wait, or a job would never rest.
func TestTheSchedulerTellsWhoHadToWait(t *testing.T) {
	var e yielder
	for range 1000 {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	if e.probeScheduler(time.Now()); e.totalCount == 0 {
		t.Error("nobody has ever waited for a processor")
	}
}

// It rests while many wait for a processor, though none of them waits for long.
func TestAJobRestsWhileManyWaitForProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var e yielder
	e.probeScheduler(time.Now())
	e.sleepRatio = 0
	// They have the only processor one after the other, and before each of them come all who
	// were ready already.
	var crowd sync.WaitGroup
	for range 2*busyQueuePerCPU + 1 {
		crowd.Go(runtime.Gosched)
	}
	e.probeScheduler(time.Now().Add(time.Hour))
	if e.sleepRatio != maxSleepRatio {
		t.Errorf("it rests %v, want %v", e.sleepRatio, maxSleepRatio)
	}
	e.cpuUsed = 0 // all that the process ever used it has in a nanosecond
	e.probeScheduler(e.probedAt.Add(time.Nanosecond))
	if e.sleepRatio != busySleepRatio {
		t.Errorf("with all processors in use it rests %v, want %v", e.sleepRatio, busySleepRatio)
	}
	crowd.Wait()
}

// It sleeps for as long as it was told to at most, and not at all for a node that is
// closed.
func TestAJobRestsAsLongAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rests := func(ctx context.Context, worked time.Duration, most float64) time.Duration {
			now := time.Now()
			e := yielder{sleepRatio: 4, workingSince: now.Add(-worked), probedAt: now}
			e.maybeSleep(ctx, most)
			return time.Since(now)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for what, c := range map[string]struct{ got, want time.Duration }{
			"a moment's work":       {rests(t.Context(), minWork/2, maxSleepRatio), 0},
			"a millisecond":         {rests(t.Context(), time.Millisecond, maxSleepRatio), 4 * time.Millisecond},
			"one in some haste":     {rests(t.Context(), time.Millisecond, 1), time.Millisecond},
			"a very long piece":     {rests(t.Context(), time.Second, maxSleepRatio), 4 * probeInterval},
			"a node that is closed": {rests(ended, time.Millisecond, maxSleepRatio), 0},
		} {
			if c.got != c.want {
				t.Errorf("after %s it rests for %v, want %v", what, c.got, c.want)
			}
		}
	})
}
