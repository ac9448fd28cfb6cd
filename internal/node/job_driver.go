package node

import (
	"context"
	"errors"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/cleavekv/cleave/internal/cputime"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/throttle"
	"github.com/cleavekv/cleave/partition"
)

// jobDriver does what one job wants: it stores a record, does what that wants, takes the event
// that comes of it, and stores the next.
type jobDriver struct {
	node *Node
	job  mover.Job
	// storedRev is the Rev of the record that is stored: that of job, or of one from which it
	// follows, see mover.CanStoreLater.
	storedRev uint64
	// completion is notified how the job has ended.
	completion *jobCompletion
	// woken is sent to when the record may be another one.
	woken chan struct{}
	// decidedMap is the map that the job has decided on, nil if another driver did.
	decidedMap *partition.Map
	// cleared is the last store key that was removed in a phase of an attempt:
	// before it are only rows that are gone.
	cleared struct {
		phase   mover.Phase
		attempt uint64
		key     []byte
	}
	// copier copies rows. pacer decides how much it sleeps meanwhile, by what scheduler reports,
	// and how long writers of the range wait.
	copier    protocol.Copier
	pacer     throttle.Pacer
	scheduler schedulerReader
	// hasBackupLock reports whether n.jobs.backupLock is shared.
	hasBackupLock bool
	// endHandover ends what n.handovers began, and releaseLog releases the source's log. They
	// are nil if there is nothing to end.
	endHandover, releaseLog func()
}

// startDriver begins to drive a job.
func (n *Node) startDriver(j mover.Job) *jobCompletion {
	d := &jobDriver{node: n, job: j, storedRev: j.Rev, completion: newJobCompletion(), woken: make(chan struct{}, 1)}
	d.copier.Yield = d.maybeRest
	if j.Phase == mover.Releasing && j.IsRemote() { // before a crash it may have been given up
		d.endHandover = n.handovers.begin()
	}
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	n.jobs.drivers[j.ID] = d
	n.runBackground(func() {
		d.run(n.ctx)
		n.jobs.mu.Lock()
		delete(n.jobs.drivers, j.ID)
		n.jobs.mu.Unlock()
	})
	return d.completion
}

// wakeDriver makes the driver of a job read the record.
func (n *Node) wakeDriver(id ownership.JobID) {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	if d := n.jobs.drivers[id]; d != nil {
		select {
		case d.woken <- struct{}{}:
		default:
		}
	}
}

// How long a driver waits for something to change before it asks for the same
// again, while a range takes no writes, otherwise, and for other jobs.
const (
	frozenPause = time.Millisecond
	retryPause  = 25 * time.Millisecond
	surveyPause = 250 * time.Millisecond
)

// run drives the job until it has ended, or the node is closed: then it goes on
// when that is open again.
func (d *jobDriver) run(ctx context.Context) {
	defer d.releaseAll()
	d.setRecord(d.job) // as it was stored by its admission, or before a crash
	ev := mover.Event(mover.Timeout{})
	for ctx.Err() == nil {
		if !d.hasBackupLock {
			if d.node.jobs.backupLock.lockShared(ctx) != nil {
				return
			}
			d.hasBackupLock = true
		}
		changed := d.node.jobs.changed.subscribe()
		ev = d.step(ctx, ev)
		d.releaseUnneeded()
		if d.job.Phase.IsFinal() {
			_ = d.node.trimJobs(ctx, d.job.ID) // the next one that ends tries again
			d.node.events.reportJobEnded(&d.job)
			d.completion.completeWith(d.job)
			d.node.jobs.changed.notify()
			return
		}
		if ev == nil {
			ev = mover.Timeout{}
			d.waitForChange(ctx, changed)
		}
	}
}

// releaseAll gives back what the driver holds.
func (d *jobDriver) releaseAll() {
	d.releaseWriters()
	d.copier.Close()
	if d.hasBackupLock {
		d.hasBackupLock = false
		d.node.jobs.backupLock.unlockShared()
	}
	for _, end := range []*func(){&d.endHandover, &d.releaseLog} {
		if *end != nil {
			(*end)()
			*end = nil
		}
	}
}

// releaseUnneeded releases what the phase does not need. A range that takes no writes, or that
// no group serves, is moved without a break.
func (d *jobDriver) releaseUnneeded() {
	p := d.job.Phase
	if p.IsFrozen() || p == mover.Releasing || p == mover.Activating {
		return
	}
	if d.hasBackupLock {
		d.hasBackupLock = false
		d.node.jobs.backupLock.unlockShared()
	}
	if d.job.Paused || p < mover.Copying || p == mover.Verifying || p > mover.Deciding {
		d.releaseWriters() // a comparison does not take less time for it
	}
	if d.job.Paused || p < mover.Locating || p > mover.Deciding {
		d.copier.Close()
	}
	if d.releaseLog != nil && (d.job.Paused || p < mover.Locating || p > mover.Deciding || d.hasTooMuchLog()) {
		d.releaseLog()
		d.releaseLog = nil
	}
}

// waitForChange waits until there may be something to do.
func (d *jobDriver) waitForChange(ctx context.Context, changed <-chan struct{}) {
	wait := retryPause
	switch {
	case d.job.Phase.IsFrozen():
		wait, changed = frozenPause, nil
	case d.job.Phase == mover.Surveying || d.job.Phase == mover.Stopping:
		wait = surveyPause
	default:
		changed = nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	case <-d.woken:
		d.reloadRecord(ctx)
	}
}

// waitUntil waits for a time of the job, unless the job is changed meanwhile.
func (d *jobDriver) waitUntil(ctx context.Context, ms int64) bool {
	wait := ms - d.node.jobNowMS()
	if wait <= 0 {
		return true
	}
	if d.hasBackupLock && !d.job.Phase.IsFrozen() { // a backup does not wait for a slow job
		d.hasBackupLock = false
		d.node.jobs.backupLock.unlockShared()
		defer func() {
			d.hasBackupLock = d.node.jobs.backupLock.lockShared(context.WithoutCancel(ctx)) == nil
		}()
	}
	timer := time.NewTimer(time.Duration(wait) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		return true
	case <-d.woken:
		d.reloadRecord(ctx)
	}
	return false
}

// step gives an event to the job, stores what it becomes, does what it wants then,
// and returns what came of that; nil for nothing yet.
func (d *jobDriver) step(ctx context.Context, ev mover.Event) mover.Event {
	next, effects := mover.Step(d.job, ev, d.node.jobNowMS())
	switch {
	case next.Rev == d.job.Rev:
	case mover.CanStoreLater(&d.job, next.Phase):
		d.setRecord(next)
	default:
		begun := time.Now()
		if err := d.storeRecord(ctx, next); err != nil {
			d.reloadRecord(ctx)
			return nil
		}
		d.node.jobs.rates.recordRound(time.Since(begun))
		d.storedRev = next.Rev
		d.setRecord(next)
	}
	return d.runEffects(ctx, effects)
}

// storeRecord stores a record. With the last one of a job that was done for another, that
// one's is stored too, with what it has cost.
func (d *jobDriver) storeRecord(ctx context.Context, next mover.Job) error {
	if !next.Phase.IsFinal() || next.Parent == 0 {
		return d.node.writeCatalog(ctx, d.swapCommand(next))
	}
	for {
		parent, err := d.node.loadJob(ctx, next.Parent)
		if errors.Is(err, ErrNoJob) || err == nil && parent.Phase.IsFinal() {
			return d.node.writeCatalog(ctx, d.swapCommand(next)) // it has no use for it any more
		}
		if err != nil {
			return err
		}
		sum := &protocol.SwapJob{Catalog: catalogKeys, Rev: parent.Rev, Job: mover.AddChildCost(parent, &next.Cost, d.node.jobNowMS())}
		err = d.node.writeCatalog(ctx, group.Steps{d.swapCommand(next), sum})
		if errors.Is(err, protocol.ErrStaleRecord) {
			if now, e := d.node.loadJob(ctx, next.Parent); e == nil && now.Rev != parent.Rev {
				continue // the parent has gone on meanwhile, maybe not the job itself
			}
		}
		if err == nil {
			d.node.wakeDriver(next.Parent)
		}
		return err
	}
}

// swapCommand is the command that stores a record.
func (d *jobDriver) swapCommand(next mover.Job) *protocol.SwapJob {
	return &protocol.SwapJob{Catalog: catalogKeys, Rev: d.storedRev, Job: next}
}

// setRecord goes on with a record.
func (d *jobDriver) setRecord(j mover.Job) {
	d.job = j
	if d.node.opts.OnJob != nil {
		d.node.opts.OnJob(j)
	}
}

// runEffects does what the job wants. At most one effect has an answer.
func (d *jobDriver) runEffects(ctx context.Context, effects []mover.Effect) (answer mover.Event) {
	for _, x := range effects {
		if ev := d.runEffect(ctx, x); ev != nil {
			answer = ev
		}
	}
	if f, ok := answer.(mover.Failed); ok {
		return d.handleFailure(ctx, f)
	}
	return answer
}

// handleFailure passes an error to the job, and waits before the same is tried again. An error
// that means nothing about the job, as that of a queue that is full, or leaves open whether
// something was done, is not passed on: an error means to some phases that nothing was done, and
// to those with a decision to make that the map refuses it.
func (d *jobDriver) handleFailure(ctx context.Context, f mover.Failed) mover.Event {
	passes := errors.Is(f.Err, group.ErrUnknown) || errors.Is(f.Err, group.ErrOverloaded)
	if ctx.Err() != nil || errors.Is(f.Err, group.ErrClosed) || passes {
		return nil
	}
	d.node.events.reportStepFailed(&d.job, f.Err)
	round := d.job.Round
	if ev := d.step(ctx, f); d.job.Round != round {
		return ev
	}
	return nil
}

// reloadRecord takes the record that is stored.
func (d *jobDriver) reloadRecord(ctx context.Context) {
	if j, err := d.node.loadJob(ctx, d.job.ID); err == nil && j.Rev != d.storedRev {
		d.job, d.storedRev = j, j.Rev
	}
}

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
		d.delayWriters(d.pacer.WriteDelay())
	}
}

// releaseWriters ends their delay, and the urgency of the job.
func (d *jobDriver) releaseWriters() {
	if d.pacer.WriteDelay() > 0 {
		d.delayWriters(0)
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
