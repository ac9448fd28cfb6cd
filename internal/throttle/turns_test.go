package throttle

import (
	"testing"
	"time"
)

func TestTurns_CallersInARow_GetTurnsAtItsRate(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewTurns(100, now)
	for i := range 20 {
		if got, want := b.Wait(now), time.Duration(i)*10*time.Millisecond; got != want {
			t.Fatalf("caller %d waits for %v, want %v", i, got, want)
		}
		b.Take(now, 1)
	}
	b.Return(5)
	if got := b.Wait(now); got != 150*time.Millisecond {
		t.Errorf("after 5 of 20 were given back: %v", got)
	}
}

// However long nobody came, no more than a moment's turns are at once.
func TestTurns_AfterAPause_KeepsABurstOnly(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewTurns(1000, now)
	now = now.Add(time.Hour)
	atOnce := 0
	for ; b.Wait(now) == 0; atOnce++ {
		b.Take(now, 1)
	}
	if want := int(turnBurst/time.Millisecond) + 1; atOnce != want {
		t.Errorf("%d turns at once, want %d", atOnce, want)
	}
}

func TestTurns_NoTurns_WaitIsForever(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, rate := range []float64{0, -1} {
		b := NewTurns(rate, now)
		b.Take(now, 1)
		b.Return(1)
		if got := b.Wait(now.Add(time.Hour)); got != Forever {
			t.Errorf("%v a second: a wait of %v", rate, got)
		}
	}
}
