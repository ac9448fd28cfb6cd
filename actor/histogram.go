package actor

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations by powers of two: Counts[0] those of 0, Counts[i]
// those from 2^(i-1) up to but not including 2^i nanoseconds. The last, from 2^39
// ns or about 9 minutes on, has no upper end. The durations are samples: see
// Options.SampleEvery.
type Histogram struct {
	Counts [41]uint64
	SumNS  uint64
	MaxNS  uint64
}

const histogramBuckets = len(Histogram{}.Counts)

// Count is the number of samples.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Mean is the mean of the samples, 0 without any.
func (h *Histogram) Mean() time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return time.Duration(h.SumNS / n)
}

// Quantile is an upper bound of the q-quantile of the samples, less than twice
// its value and never above the largest sample; from 2^39 ns on it is that
// sample. q is clamped to 0 and 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	if !(q > 0) { // also if q is not a number
		q = 0
	}
	rank := uint64(min(q, 1) * float64(n-1))
	var seen uint64
	for i, c := range h.Counts {
		if seen += c; seen > rank && i < histogramBuckets-1 {
			return time.Duration(min(uint64(1)<<i-1, h.MaxNS))
		}
	}
	return time.Duration(h.MaxNS)
}

// Add adds the samples of o, for instance to sum up a fleet.
func (h *Histogram) Add(o Histogram) {
	for i, c := range o.Counts {
		h.Counts[i] += c
	}
	h.SumNS += o.SumNS
	h.MaxNS = max(h.MaxNS, o.MaxNS)
}

// recorder is a histogram being filled by the holder and read by anybody.
type recorder struct {
	counts [histogramBuckets]atomic.Uint64
	sum    atomic.Uint64
	max    atomic.Uint64
}

func (r *recorder) observe(d time.Duration) {
	ns := uint64(max(d, 0))
	r.counts[min(bits.Len64(ns), histogramBuckets-1)].Add(1)
	r.sum.Add(ns)
	if ns > r.max.Load() { // only the holder writes
		r.max.Store(ns)
	}
}

func (r *recorder) snapshot() (h Histogram) {
	for i := range r.counts {
		h.Counts[i] = r.counts[i].Load()
	}
	h.SumNS, h.MaxNS = r.sum.Load(), r.max.Load()
	return h
}
