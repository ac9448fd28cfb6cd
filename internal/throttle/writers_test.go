package throttle

import (
	"testing"
	"time"
)

// Writers are delayed while a job does not gain on them, longer and longer, and no
// longer than that.
func TestPacer_JobDoesNotGain_DelaysWritersMoreAndMore(t *testing.T) {
	const much, round = 100 << 20, 8 << 20
	var p Pacer
	now, own := int64(1000), true
	record := func(behind, after int64) time.Duration {
		now += after
		p.RecordCaughtUp(Lag{Bytes: behind, RoundBytes: round, OwnRange: own}, now)
		return p.WriteDelay()
	}
	if w := record(much, 0); w != 0 {
		t.Errorf("the first time: %v", w)
	}
	if w := record(much*9/10, writersIntervalMS); w != 0 {
		t.Errorf("a tenth of all in a tenth of a second: %v", w)
	}
	if w := record(much, writersIntervalMS/2); w != 0 {
		t.Errorf("a time that came soon: %v", w)
	}
	for want := 1; want <= maxUrgency; want++ {
		if w := record(much, writersIntervalMS); w != 0 || p.writers.urgency != want {
			t.Fatalf("nothing gained: urgency %d, %v, want %d and none", p.writers.urgency, w, want)
		}
	}
	for want := minWriteDelay; want < maxWriteDelay; want *= 2 {
		if w := record(much, writersIntervalMS); w != want {
			t.Fatalf("nothing gained: %v, want %v", w, want)
		}
	}
	for range 3 {
		if w := record(2*much, writersIntervalMS); w != maxWriteDelay {
			t.Errorf("lost ground: %v, want %v", w, maxWriteDelay)
		}
	}
	if w := record(2*much-2*much/50, writersIntervalMS); w != maxWriteDelay {
		t.Errorf("gained, as it should be: %v", w)
	}
	if w := record(much, writersIntervalMS); w != maxWriteDelay/2 {
		t.Errorf("gained more than that: %v", w)
	}
	for range 20 {
		record(round, writersIntervalMS)
	}
	if w := p.WriteDelay(); w != 0 {
		t.Errorf("no more than a round is left for a while: %v", w)
	}
	own = false
	for range 5 {
		if w := record(much, writersIntervalMS); w != 0 {
			t.Errorf("the log is that of others: %v", w)
		}
	}
	own = true
	record(2*much, writersIntervalMS)
	if p.WriteDelay() == 0 {
		t.Fatal("no delay to end")
	}
	if p.ForgetWriters(); p.WriteDelay() != 0 || p.writers.urgency != 0 {
		t.Errorf("forgotten: urgency %d, %v", p.writers.urgency, p.WriteDelay())
	}
}

// A copy is urgent when half of the log that may be kept for it is full.
func TestPacer_LogOfACopyIsHalfFull_IsUrgent(t *testing.T) {
	var p Pacer
	const most = 1000
	for i, c := range []struct {
		kept    int64
		urgency int
	}{{500, 0}, {501, 1}, {600, 2}, {700, 2}, {500, 2}} {
		p.RecordCopied(c.kept, most, 1000+int64(i)*writersIntervalMS)
		if p.writers.urgency != c.urgency || p.WriteDelay() > 0 { // for the log is that of all
			t.Errorf("with %d of %d bytes: urgency %d, %v", c.kept, most, p.writers.urgency, p.WriteDelay())
		}
	}
}
