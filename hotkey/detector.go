package hotkey

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Detector finds keys that are slower than others. Its methods may be called by any
// goroutine.
type Detector struct {
	o Options
	// sampleBound is the bound of random numbers that choose a call.
	sampleBound uint64

	mu        sync.Mutex
	top       topKeys
	windowEnd time.Time // when the window ends
}

// New returns a detector that has seen nothing yet.
func New(o Options) (*Detector, error) {
	o = o.withDefaults()
	if err := o.checkRanges(); err != nil {
		return nil, err
	}
	return &Detector{o: o, sampleBound: math.MaxUint64 / uint64(o.Sample), top: newTopKeys(o.Keys), windowEnd: o.Now().Add(o.Window)}, nil
}

// Sampled chooses calls by chance: a caller that gets true measures the call and hands it to
// Record, and others have nothing to do. It saves them two readings of the clock, which
// cost more than all the rest.
func (d *Detector) Sampled() bool {
	if d.o.Random != nil {
		return d.o.Random() <= d.sampleBound
	}
	return rand.Uint64() <= d.sampleBound
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
	ended, report := d.rollWindow(now)
	d.top.addSample(truncateKey(key), max(latency, 0))
	d.mu.Unlock()
	if ended && d.o.OnWindow != nil {
		d.o.OnWindow(report)
	}
}

// rollWindow ends the window if its time has come, and returns what was found in it.
func (d *Detector) rollWindow(now time.Time) (ended bool, r Report) {
	if now.Before(d.windowEnd) {
		return false, r
	}
	if d.o.OnWindow != nil {
		r = d.buildReport()
	}
	windows := 1 + now.Sub(d.windowEnd)/d.o.Window
	d.windowEnd = d.windowEnd.Add(windows * d.o.Window)
	d.top.halveCounts(int(min(windows, 1000)))
	return true, r
}

// Report returns which keys are hot now.
func (d *Detector) Report() Report {
	now := d.o.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !now.Before(d.windowEnd) && d.o.OnWindow == nil { // else the next Record ends it
		d.rollWindow(now)
	}
	return d.buildReport()
}

// Reset forgets all samples.
func (d *Detector) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.top = newTopKeys(d.o.Keys)
	d.windowEnd = d.o.Now().Add(d.o.Window)
}

// Report is what a detector knows at a moment. Numbers of samples are weighed by age, so
// they have fractions.
type Report struct {
	// Hot are the keys that are too slow, the slowest first.
	Hot []Hot
	// Median is the median of the mean latencies of all keys that have enough samples.
	// For an even number of them it is the upper one of the two in the middle.
	Median time.Duration
	// Judged is how many keys have enough samples, and Tracked how many there are at all.
	Judged, Tracked int
	// Samples is how many samples there were.
	Samples float64
	// Bound is how many samples a key can have had without being tracked: 0 as long as the
	// table is not full.
	Bound float64
}

// Hot is a key that is slower than others.
type Hot struct {
	Key string
	// Samples is how many latencies of it were measured, and Missed how many more it may
	// have had before it was tracked.
	Samples, Missed float64
	// Latency is the mean of them, and Ratio how many times the median that is.
	Latency time.Duration
	Ratio   float64
}

// buildReport judges all keys.
func (d *Detector) buildReport() Report {
	r := Report{Tracked: len(d.top.minHeap), Samples: d.top.total}
	if r.Tracked == d.o.Keys {
		r.Bound = d.top.minHeap[0].count
	}
	var judged []*trackedKey
	for _, k := range d.top.minHeap {
		if k.samples >= float64(d.o.MinSamples) {
			judged = append(judged, k)
		}
	}
	r.Judged = len(judged)
	if r.Judged == 0 {
		return r
	}
	slices.SortFunc(judged, func(a, b *trackedKey) int {
		return cmp.Or(cmp.Compare(b.meanLatency(), a.meanLatency()), cmp.Compare(a.key, b.key))
	})
	median := judged[(r.Judged-1)/2].meanLatency()
	r.Median = time.Duration(median)
	if r.Judged < d.o.MinKeys {
		return r
	}
	for _, k := range judged {
		ratio := k.meanLatency() / math.Max(median, 1) // a nanosecond is as fast as a call can be
		if ratio <= d.o.Ratio {
			break
		}
		r.Hot = append(r.Hot, Hot{Key: k.key, Samples: k.samples, Missed: k.missed, Latency: time.Duration(k.meanLatency()), Ratio: ratio})
	}
	return r
}

// Wrap returns a call of a client that the detector watches: one of Options.Sample is
// measured, whatever comes of it, and all are passed on.
func Wrap[K ~string, V any](d *Detector, call func(context.Context, K) (V, error)) func(context.Context, K) (V, error) {
	return func(ctx context.Context, key K) (V, error) {
		if !d.Sampled() {
			return call(ctx, key)
		}
		defer d.recordSince(string(key), d.o.Now())
		return call(ctx, key)
	}
}

// Time runs f, and measures it if it is chosen.
func (d *Detector) Time(key string, f func()) {
	if d.Sampled() {
		defer d.recordSince(key, d.o.Now())
	}
	f()
}

func (d *Detector) recordSince(key string, start time.Time) { d.Record(key, d.o.Now().Sub(start)) }
