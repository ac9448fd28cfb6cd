// Package hotkey answers one question: which keys does a client wait for longer than for
// the others, or ask for far more often?
//
// A shard's own figures do not show one hot key among thousands. The client sees it: calls
// about that key take many times as long as those about the rest. A [Detector] is given
// calls, measures a few of them, and reports keys whose latency is many times the median
// of all keys. It needs no store and wraps any client; package redishook has a hook for
// go-redis.
//
// # Promises
//
//   - A call that is not measured costs some nanoseconds, and no memory.
//   - Memory is bounded, whatever keys come: at most Options.Keys of them, with at most
//     [MaxKeyBytes] bytes each.
//   - A key that has more than 1/Keys of all samples is tracked, however many others there
//     are. [Report.Bound] is that number. What may have been missed of a key before it
//     was tracked is reported with it.
//   - Old samples count less: each window halves them.
//
// # Choices
//
// By default one call of 1000 is measured, and a key counts as hot if it has 20 samples,
// at least 3 keys have as many, and its mean latency is more than 10 times the median of
// theirs. All of these are [Options].
//
// Keys are chosen by the Space-Saving algorithm of [heat.TopKeys]: a key that comes when the
// table is full takes the place of the one with the fewest samples, and inherits its count as
// its error. Latencies are never inherited.
//
// # Limits
//
// It distinguishes keys by how long callers waited, on average or in the slowest of a
// hundred calls, and by how often they asked. A key that is slow because its value is large is
// found too. With fewer than three busy keys there is no median to compare with.
package hotkey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/heat"
)

// ErrOptions means that an option is out of its range: the text says which and what to
// use.
var ErrOptions = errors.New("hotkey: bad options")

// Options configure a [Detector]. The zero value works.
type Options struct {
	// Sample is of how many calls one is measured. Default 1000; 1 is all of them. At
	// most 1<<30.
	Sample int
	// MinSamples is how many samples a key needs to be judged. Default 20: fewer are
	// moved by one slow call.
	MinSamples int
	// MinKeys is how many keys must have as many. Default 3: of two, either could be the
	// slow one.
	MinKeys int
	// Ratio is above how many times the median a key is hot. Default 10. At least 1.
	Ratio float64
	// Keys is how many keys are tracked. Default 1024, which takes about half a MiB with
	// keys of usual length. At least 2, at most 1<<20.
	Keys int
	// Window is after how long samples count half. Default a minute.
	Window time.Duration
	// OnWindow, if set, is called with what was found when a window has ended, by the
	// goroutine that records the first sample after it. It may use the detector.
	OnWindow func(Report)
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Random returns uniform numbers that choose what is measured; it must be safe for
	// concurrent use. Default that of math/rand/v2.
	Random func() uint64
}

const maxSample, maxKeys = 1 << 30, 1 << 20

// withDefaults spells the defaults out.
func (o Options) withDefaults() Options {
	setDefault(&o.Sample, 1000)
	setDefault(&o.MinSamples, 20)
	setDefault(&o.MinKeys, 3)
	setDefault(&o.Ratio, 10)
	setDefault(&o.Keys, 1024)
	setDefault(&o.Window, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// checkRanges reports every option that is out of its range.
func (o Options) checkRanges() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
		}
	}
	bad(o.Sample < 1 || o.Sample > maxSample, "Sample is %d: use 1 to %d", o.Sample, maxSample)
	bad(o.MinSamples < 1, "MinSamples is %d: use at least 1", o.MinSamples)
	bad(o.MinKeys < 1, "MinKeys is %d: use at least 1", o.MinKeys)
	bad(!(o.Ratio >= 1), "Ratio is %v: use at least 1", o.Ratio)
	bad(o.Keys < 2 || o.Keys > maxKeys, "Keys is %d: use 2 to %d", o.Keys, maxKeys)
	bad(o.MinKeys > o.Keys, "MinKeys is %d, more than the %d Keys that are tracked: no key would ever be hot", o.MinKeys, o.Keys)
	bad(o.Window <= 0, "Window is %v: use a positive time", o.Window)
	return errors.Join(errs...)
}

// Detector finds keys that are slower than others. Its methods may be called by any
// goroutine.
type Detector struct {
	o Options
	// sampleBound is the bound of random numbers that choose a call.
	sampleBound uint64

	mu        sync.Mutex
	top       *heat.TopKeys
	windowEnd time.Time // when the window ends
}

// New returns a detector that has seen nothing yet.
func New(o Options) (*Detector, error) {
	o = o.withDefaults()
	if err := o.checkRanges(); err != nil {
		return nil, err
	}
	top, err := heat.NewTopKeys(heat.ByOps, o.Keys)
	if err != nil {
		return nil, err
	}
	return &Detector{o: o, sampleBound: math.MaxUint64 / uint64(o.Sample), top: top, windowEnd: o.Now().Add(o.Window)}, nil
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
	d.top.Add(&heat.Access{Key: []byte(truncateKey(key)), Service: max(latency, 0)}, 1)
	d.mu.Unlock()
	if ended && d.o.OnWindow != nil {
		d.o.OnWindow(report)
	}
}

// minKeptWeight is the weight below which a key is dropped: that of one sample five windows
// ago.
const minKeptWeight = 1.0 / 32

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
	d.top.Scale(math.Ldexp(1, -int(min(windows, 1000))), minKeptWeight)
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
	d.top.Reset()
	d.windowEnd = d.o.Now().Add(d.o.Window)
}

// Report is what a detector knows at a moment. Numbers of samples are weighed by age, so
// they have fractions.
type Report struct {
	// Hot are the keys that are too slow on average, the slowest first.
	Hot []Hot
	// Tails are the keys whose p99 is too high, the highest first. A key may be hot in its tail alone: its mean does not show
	// that one call of fifty waits. Only keys with 100 samples are judged.
	Tails []Hot
	// Busy are the keys that are asked for too often, the most frequent first, however fast they are.
	Busy []Hot
	// Median is the median of the mean latencies of all keys that have enough samples.
	// For an even number of them it is the upper one of the two in the middle.
	Median time.Duration
	// MedianP99 is that of their p99, of keys with 100 samples.
	MedianP99 time.Duration
	// Judged is how many keys have enough samples, and Tracked how many there are at all.
	Judged, Tracked int
	// Samples is how many samples there were.
	Samples float64
	// Bound is how many samples a key can have had without being tracked: 0 as long as the
	// table is not full.
	Bound float64
}

// Hot is a key that is slower than others, or asked for more often.
type Hot struct {
	Key string
	// Samples is how many latencies of it were measured, and Missed how many more it may
	// have had before it was tracked.
	Samples, Missed float64
	// Latency is the mean of them, and P99 what one of a hundred exceeds: it is at most half too high.
	Latency, P99 time.Duration
	// Ratio is how many times the median there is of what put the key into its list: mean, p99 or samples.
	Ratio float64
}

// minTailSamples is how many samples a key needs for a p99: of fewer it is the slowest one.
const minTailSamples = 100

// buildReport judges all keys.
func (d *Detector) buildReport() Report {
	r := Report{Tracked: d.top.Len(), Samples: d.top.Total(), Bound: d.top.Floor()}
	var judged []heat.HotKey
	for _, k := range d.top.Top(-1) {
		if k.Ops >= float64(d.o.MinSamples) {
			judged = append(judged, k)
		}
	}
	r.Judged = len(judged)
	if r.Judged == 0 {
		return r
	}
	var median float64
	r.Hot, median = d.findAbove(judged, meanLatency)
	r.Median = time.Duration(median)
	r.Busy, _ = d.findAbove(judged, func(k heat.HotKey) float64 { return k.Ops })
	tailed := slices.DeleteFunc(judged, func(k heat.HotKey) bool { return k.Ops < minTailSamples })
	r.Tails, median = d.findAbove(tailed, func(k heat.HotKey) float64 { return float64(k.P99) })
	r.MedianP99 = time.Duration(median)
	return r
}

// findAbove returns the keys that have more than Options.Ratio times the median of something, those with the most first, and
// that median. It orders keys by it.
func (d *Detector) findAbove(keys []heat.HotKey, of func(heat.HotKey) float64) (found []Hot, median float64) {
	if len(keys) == 0 {
		return nil, 0
	}
	slices.SortFunc(keys, func(a, b heat.HotKey) int {
		return cmp.Or(cmp.Compare(of(b), of(a)), cmp.Compare(a.Key, b.Key))
	})
	median = of(keys[(len(keys)-1)/2])
	if len(keys) < d.o.MinKeys {
		return nil, median
	}
	for _, k := range keys {
		ratio := of(k) / math.Max(median, 1) // a nanosecond is as fast as a call can be
		if ratio <= d.o.Ratio {
			break
		}
		found = append(found, Hot{Key: k.Key, Samples: k.Ops, Missed: k.Error, Latency: time.Duration(meanLatency(k)), P99: k.P99, Ratio: ratio})
	}
	return found, median
}

// meanLatency is the mean of the samples of a key, in nanoseconds. One that took no time counts too.
func meanLatency(k heat.HotKey) float64 { return k.ServiceNS / k.Ops }

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
