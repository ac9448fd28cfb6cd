package node

import (
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/cleavekv/cleave/internal/cputime"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/throttle"
)

// finalBytes is how much of what has changed is copied at one go, and finalVerifyMS how long
// both sides are compared at one go: a second's work or so.
const finalBytes, finalVerifyMS = 128 << 20, 1000

// maybeRest lets the job sleep if others need the processors. A caller that waits for it, or
// would overtake it, does not wait longer for that.
func (d *jobDriver) maybeRest() {
	if d.job.Phase.IsFrozen() || d.isNearEnd() {
		return
	}
	now := time.Now()
	if !d.pacer.IsDue(now) {
		return
	}
	if d.pacer.NeedsReading(now) {
		d.pacer.Measure(now, d.scheduler.read())
	}
	if rest := d.pacer.Sleep(now); rest > 0 {
		_ = sleepContext(d.node.ctx, rest) // the caller checks the context
	}
	d.pacer.Resume(time.Now())
}

// isNearEnd reports whether the end is in sight: what was copied is written again meanwhile, so
// the sooner the job is there the less it copies.
func (d *jobDriver) isNearEnd() bool {
	compares := d.job.Phase == mover.Verifying && d.node.jobNowMS()-d.job.ChangedMS < finalVerifyMS
	if d.job.Phase != mover.CatchingUp && !compares {
		return false
	}
	left, known := d.copier.ChangedBytes()
	return known && left < finalBytes
}

// throttleWriters delays the writers of the range if they write faster than it is copied, which
// record finds out.
func (d *jobDriver) throttleWriters(record func(source *store.Store, nowMS int64)) {
	if p := d.node.lookupGroup(d.job.From); p != nil {
		record(p.Store, d.node.jobNowMS())
		p.Group.ThrottleWrites(d.job.Span, d.pacer.WriteDelay())
	}
}

// releaseWriters ends their delay, and the urgency of the job.
func (d *jobDriver) releaseWriters() {
	if p := d.node.lookupGroup(d.job.From); p != nil && d.pacer.WriteDelay() > 0 {
		p.Group.ThrottleWrites(d.job.Span, 0)
	}
	d.pacer.ForgetWriters()
}

// schedulerReader reads how goroutines wait for processors, and how much of these the process uses.
type schedulerReader struct {
	samples [2]metrics.Sample // kept, so that a histogram is read into the memory of the last one
}

func (s *schedulerReader) read() throttle.Reading {
	user, system := cputime.Used()
	r := throttle.Reading{CPUUsed: user + system, Processors: runtime.GOMAXPROCS(0)}
	s.samples[0].Name = "/sched/latencies:seconds"
	s.samples[1].Name = "/sched/goroutines/runnable:goroutines"
	metrics.Read(s.samples[:])
	if v := s.samples[0].Value; v.Kind() == metrics.KindFloat64Histogram { // else the runtime does not report it
		r.HasWaits = true
		h := v.Float64Histogram()
		for i, n := range h.Counts {
			if r.Waits += n; h.Buckets[i] >= throttle.LongWait.Seconds() {
				r.LongWaits += n
			}
		}
	}
	if v := s.samples[1].Value; v.Kind() == metrics.KindUint64 {
		r.Runnable = v.Uint64()
	}
	return r
}
