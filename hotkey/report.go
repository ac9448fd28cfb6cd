package hotkey

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/plant"
)

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

// report judges all keys.
func (d *Detector) report() Report {
	r := Report{Tracked: len(d.top.least), Samples: d.top.total}
	if r.Tracked == d.o.Keys {
		r.Bound = d.top.least[0].count
	}
	enough := float64(d.o.MinSamples)
	if plant.Bug("hotkey-one-sample-is-enough") {
		enough = 1
	}
	var judged []*tracked
	for _, k := range d.top.least {
		if k.samples >= enough {
			judged = append(judged, k)
		}
	}
	r.Judged = len(judged)
	if r.Judged == 0 {
		return r
	}
	slices.SortFunc(judged, func(a, b *tracked) int { return cmp.Or(cmp.Compare(b.mean(), a.mean()), cmp.Compare(a.key, b.key)) })
	median := judged[(r.Judged-1)/2].mean()
	r.Median = time.Duration(median)
	if r.Judged < d.o.MinKeys {
		return r
	}
	for _, k := range judged {
		ratio := k.mean() / math.Max(median, 1) // a nanosecond is as fast as a call can be
		if ratio <= d.o.Ratio {
			break
		}
		r.Hot = append(r.Hot, Hot{Key: k.key, Samples: k.samples, Missed: k.missed, Latency: time.Duration(k.mean()), Ratio: ratio})
	}
	return r
}
