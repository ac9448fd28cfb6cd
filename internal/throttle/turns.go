package throttle

import (
	"math"
	"time"
)

// turnBurst is how much of what was not used is kept: it evens out a goroutine that comes late, and is short
// against the waits that a limit makes.
const turnBurst = 50 * time.Millisecond

// Forever is the wait for a turn that does not come.
const Forever = time.Duration(math.MaxInt64)

// Turns are given at a rate, in the order in which they are asked for. A turn is a time: whoever takes one waits for it.
type Turns struct {
	// interval is the time between two turns in nanoseconds, infinite if there are none.
	interval float64
	// next is the time of the next turn.
	next time.Time
}

// NewTurns returns so many turns a second, of which one is at once; 0 is none ever.
func NewTurns(perSecond float64, now time.Time) Turns {
	return Turns{interval: float64(time.Second) / max(perSecond, 0), next: now}
}

// Wait is how long a caller would wait that took a turn now.
func (t *Turns) Wait(now time.Time) time.Duration {
	if math.IsInf(t.interval, 1) {
		return Forever
	}
	return max(0, t.next.Sub(now))
}

// Take takes turns. The caller waits for the first of them: the others delay who comes later.
func (t *Turns) Take(now time.Time, turns int) {
	if earliest := now.Add(-turnBurst); t.next.Before(earliest) {
		t.next = earliest
	}
	t.next = t.next.Add(t.span(turns))
}

// Return gives turns back that were not used.
func (t *Turns) Return(turns int) { t.next = t.next.Add(-t.span(turns)) }

// maxTurnSpan bounds the time of turns that are taken together.
const maxTurnSpan = 1000 * time.Hour

func (t *Turns) span(turns int) time.Duration {
	return time.Duration(min(t.interval*float64(turns), float64(maxTurnSpan)))
}
