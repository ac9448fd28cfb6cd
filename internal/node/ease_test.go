package node

import (
	"context"
	"testing"
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
		{maxRests - 1, 100, 100, maxRests},
		{maxRests, 100, 100, maxRests},
		{2, 5, 100, 1},
		{0.5, 0, 0, 0},
	} {
		if got := restsAfter(c.rests, c.late, c.all); got != c.want {
			t.Errorf("after %v, with %v of %v late: %v, want %v", c.rests, c.late, c.all, got, c.want)
		}
	}
}

// The runtime tells how long goroutines wait, or a job would never rest.
func TestTheSchedulerTellsWhoHadToWait(t *testing.T) {
	var e ease
	for range 1000 {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	if e.look(); e.all == 0 {
		t.Error("nobody has ever waited for a processor")
	}
	e.rests = maxRests
	e.awake, e.looked = time.Now().Add(-time.Second), time.Now()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := e.awake
	if e.rest(ended, maxRests); !e.awake.After(before) {
		t.Error("a job that is over rests")
	}
}
