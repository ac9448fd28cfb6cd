package node

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/throttle"
)

// The runtime reports how long goroutines wait, or a job would never sleep.
func TestSchedulerReader_GoroutinesRun_ReportsTheirWaits(t *testing.T) {
	var s schedulerReader
	for range 1000 {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	if r := s.read(); !r.HasWaits || r.Waits == 0 || r.LongWaits > r.Waits || r.Processors != runtime.GOMAXPROCS(0) {
		t.Errorf("read %+v", r)
	}
}

// A job sleeps while many wait for a processor, though none of them waits for long.
func TestSchedulerReader_ManyWaitForAProcessor_MakesAPacerSleep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var s schedulerReader
	// They have the only processor one after the other, and before each of them come all that
	// were ready already.
	const waiters = 5
	var crowd sync.WaitGroup
	for range waiters {
		crowd.Go(runtime.Gosched)
	}
	r := s.read()
	crowd.Wait()
	if r.Runnable < waiters || r.Processors != 1 {
		t.Fatalf("read %+v while %d wait", r, waiters)
	}
	var p throttle.Pacer
	now := time.Now()
	p.Resume(now.Add(-time.Millisecond))
	p.Measure(now, r)
	if rest := p.Sleep(now); rest < 10*time.Millisecond {
		t.Errorf("after a millisecond of work it sleeps for %v", rest)
	}
}

// restOf returns how long a driver sleeps after so much work, when goroutines have waited for long in so
// many readings and the log of its copy has been long in so many rounds.
func restOf(ctx context.Context, j mover.Job, worked time.Duration, lateReadings, longLogs int) time.Duration {
	d := jobDriver{node: &Node{ctx: ctx}, job: j}
	now := time.Now()
	for i := range lateReadings {
		d.pacer.Measure(now, throttle.Reading{HasWaits: true, Waits: uint64(i + 1), LongWaits: uint64(i + 1), Processors: 1})
	}
	for i := range longLogs {
		d.pacer.RecordCopied(1000, 1000, int64(i+1)*1000)
	}
	d.pacer.Resume(now.Add(-worked))
	d.maybeRest()
	return time.Since(now)
}

// A driver sleeps for as long as its pacer wants, and not at all while the range is frozen or
// when the node is closed.
func TestJobDriver_OthersWaitForProcessors_SleepsAsLongAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		copying, frozen := mover.Job{Phase: mover.Copying}, mover.Job{Phase: mover.Finishing}
		for what, c := range map[string]struct{ got, want time.Duration }{
			"a moment's work":       {restOf(t.Context(), copying, 50*time.Microsecond, 4, 0), 0},
			"one late reading":      {restOf(t.Context(), copying, time.Millisecond, 1, 0), 500 * time.Microsecond},
			"a millisecond":         {restOf(t.Context(), copying, time.Millisecond, 4, 0), 4 * time.Millisecond},
			"one that is urgent":    {restOf(t.Context(), copying, time.Millisecond, 4, 2), time.Millisecond},
			"a very long piece":     {restOf(t.Context(), copying, time.Second, 4, 0), 40 * time.Millisecond},
			"a frozen range":        {restOf(t.Context(), frozen, time.Millisecond, 4, 0), 0},
			"a node that is closed": {restOf(ended, copying, time.Millisecond, 4, 0), 0},
		} {
			if c.got != c.want {
				t.Errorf("after %s it sleeps for %v, want %v", what, c.got, c.want)
			}
		}
	})
}
