package hotkey

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Detector finds keys that are slower than others. Its methods may be called by any
// goroutine.
type Detector struct {
	o Options
	// below is the bound of random numbers that choose a call.
	below uint64

	mu    sync.Mutex
	top   top
	until time.Time // when the window ends
}

// New returns a detector that has seen nothing yet.
func New(o Options) (*Detector, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Detector{o: o, below: math.MaxUint64 / uint64(o.Sample), top: newTop(o.Keys), until: o.Now().Add(o.Window)}, nil
}

// Sampled chooses calls by chance: whoever gets true measures the call and hands it to
// Record, and others have nothing to do. It spares them two looks at the clock, which
// cost more than all the rest.
func (d *Detector) Sampled() bool {
	if d.o.Random != nil {
		return d.o.Random() <= d.below
	}
	return rand.Uint64() <= d.below
}

// Observe is for calls that were measured anyway: it records one of Options.Sample.
func (d *Detector) Observe(key string, latency time.Duration) {
	if d.Sampled() {
		d.Record(key, latency)
	}
}

// Record adds a sample. A negative latency, of a clock that was set back, counts as none.
func (d *Detector) Record(key string, latency time.Duration) {
	now := d.o.Now()
	d.mu.Lock()
	ended, report := d.advance(now)
	d.top.add(short(key), max(latency, 0))
	d.mu.Unlock()
	if ended && d.o.OnWindow != nil {
		d.o.OnWindow(report)
	}
}

// advance ends the window if its time has come, and returns what was found in it.
func (d *Detector) advance(now time.Time) (ended bool, r Report) {
	if now.Before(d.until) {
		return false, r
	}
	if d.o.OnWindow != nil {
		r = d.report()
	}
	windows := 1 + now.Sub(d.until)/d.o.Window
	d.until = d.until.Add(windows * d.o.Window)
	d.top.decay(int(min(windows, 1000)))
	return true, r
}

// Report tells which keys are hot now.
func (d *Detector) Report() Report {
	now := d.o.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !now.Before(d.until) && d.o.OnWindow == nil { // else the next Record ends it
		d.advance(now)
	}
	return d.report()
}

// Reset forgets all samples.
func (d *Detector) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.top = newTop(d.o.Keys)
	d.until = d.o.Now().Add(d.o.Window)
}
