package actor

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Stats is a snapshot of an actor's counters. They are read one after the
// other while the actor runs, so they agree with each other only at rest. In
// mode Combining those of a busy actor may lag behind by fewer than 64 messages.
type Stats struct {
	Depth    int  // messages waiting in the mailbox
	DepthMax int  // the most that ever waited
	Busy     bool // the actor is held

	Accepted  uint64 // messages taken, into the mailbox or straight to the handler
	Refused   uint64 // messages turned away: full, stopped, poisoned, context ended
	Handled   uint64 // accepted messages given to the handler
	Dropped   uint64 // accepted messages that a poisoned actor did not handle
	Abandoned uint64 // calls whose sender left before the reply
	Batches   uint64 // times the handler was given messages
	Exclusive uint64 // Do and DoAll calls
	Panics    uint64 // of the handler, and of functions given to Do and DoAll

	QueueWait Histogram // from a place in the mailbox to the start of the batch
	Service   Histogram // of one batch
}

// maxSinglesLag is how many messages that callers handled at once may be missing in
// the counters of an actor that is busy. An atomic store for each would be a
// third atomic write on a path that has two.
const maxSinglesLag = 64

// counters is written by the holder alone.
type counters struct {
	publishedSingles atomic.Uint64 // what is published of solo
	directBatched    atomic.Uint64 // messages of batches that never were in the mailbox
	handled          atomic.Uint64 // messages other than singles
	batchRuns        atomic.Uint64 // batches other than singles
	dropped          atomic.Uint64 // of all these, those that were not handled
	exclusives       atomic.Uint64
	panics           atomic.Uint64
}

// timing is touched for samples only.
type timing struct {
	wait    histogramRecorder
	service histogramRecorder
}

// Stats returns the actor's counters. It never waits for a handler.
func (a *Actor[S, M, R]) Stats() Stats {
	if a.checkMade() != nil {
		return Stats{}
	}
	if a.combining && a.word.CompareAndSwap(nil, a.locked) {
		a.publishedSingles.Store(a.directSingles)
		a.releaseActor()
	}
	vacated := a.vacated.Load() // first, so that Depth is not below zero
	admitted := a.admitted.Load()
	singles, dropped := a.publishedSingles.Load(), a.dropped.Load()
	word := a.word.Load()
	return Stats{
		Depth:     int(admitted - vacated),
		DepthMax:  int(a.maxDepth.Load()),
		Busy:      word != nil && word != a.closed,
		Accepted:  uint64(admitted) + singles + a.directBatched.Load(),
		Refused:   a.refused.Load(),
		Handled:   singles + a.handled.Load() - dropped,
		Dropped:   dropped,
		Abandoned: a.abandonedCalls.Load(),
		Batches:   singles + a.batchRuns.Load(),
		Exclusive: a.exclusives.Load(),
		Panics:    a.panics.Load(),
		QueueWait: a.wait.snapshot(),
		Service:   a.service.snapshot(),
	}
}

// countBatch notes that a batch of n messages is about to run.
func (a *Actor[S, M, R]) countBatch(n int) {
	a.handled.Store(a.handled.Load() + uint64(n))
	if a.poisoned == nil {
		a.batchRuns.Store(a.batchRuns.Load() + 1)
	}
	if a.publishedSingles.Load() != a.directSingles {
		a.publishedSingles.Store(a.directSingles)
	}
}

// shouldSample reports whether the batch that starts now is measured.
func (a *Actor[S, M, R]) shouldSample() bool {
	if a.batches++; a.batches < a.sampleEvery || a.sampleEvery == 0 {
		return false
	}
	a.batches = 0
	return true
}

// runTimed is run, measured.
func (a *Actor[S, M, R]) runTimed(ms []M, rs []R) {
	start := a.now()
	a.runHandler(ms, rs)
	a.service.record(a.now() - start)
}

// recordWaits notes how long the sampled entries of the batch have waited.
func (a *Actor[S, M, R]) recordWaits() {
	now := a.now()
	for _, n := range a.entries {
		if n.enqueuedAt != 0 {
			a.wait.record(now - n.enqueuedAt)
		}
	}
}

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

// histogramRecorder is a histogram being filled by the holder and read by any goroutine.
type histogramRecorder struct {
	counts [histogramBuckets]atomic.Uint64
	sum    atomic.Uint64
	max    atomic.Uint64
}

func (r *histogramRecorder) record(d time.Duration) {
	ns := uint64(max(d, 0))
	r.counts[min(bits.Len64(ns), histogramBuckets-1)].Add(1)
	r.sum.Add(ns)
	if ns > r.max.Load() { // only the holder writes
		r.max.Store(ns)
	}
}

func (r *histogramRecorder) snapshot() (h Histogram) {
	for i := range r.counts {
		h.Counts[i] = r.counts[i].Load()
	}
	h.SumNS, h.MaxNS = r.sum.Load(), r.max.Load()
	return h
}
