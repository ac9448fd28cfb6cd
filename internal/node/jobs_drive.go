package node

import (
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// driver does what one job wants: it stores a record, does what that wants, hears
// what came of it, and stores the next.
type driver struct {
	n   *Node
	job mover.Job
	// stored is the Rev of the record that is stored: that of job, or of one from
	// which it follows, see mover.Passing.
	stored uint64
	// end is told how the job has ended.
	end *ending
	// woken tells that the record may be another one.
	woken chan struct{}
	// made is the map that the job has decided on, nil if somebody else did.
	made *partition.Map
	// cleared is the last store key that was removed in a phase of an attempt:
	// before it are only rows that are gone.
	cleared struct {
		phase   mover.Phase
		attempt uint64
		key     []byte
	}
	// carrier carries rows. brake says how much it hurries, and for how long writers
	// of the range wait, and ease how much it rests.
	carrier drive.Carrier
	brake   mover.Brake
	ease    ease
	// quiet tells that n.jobs.quiet is shared.
	quiet bool
	// handed ends what n.handing began, and letGo gives the source's log free. They
	// are nil if there is nothing to end.
	handed, letGo func()
}

// drive begins to drive a job.
func (n *Node) drive(j mover.Job) *ending {
	d := &driver{n: n, job: j, stored: j.Rev, end: newEnding(), woken: make(chan struct{}, 1)}
	d.carrier.Rest = d.easeOff
	if j.Phase == mover.Releasing && j.Remote() { // before a crash it may have been given up
		d.handed = n.handing.begin()
	}
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	n.jobs.drivers[j.ID] = d
	n.background(func() {
		d.run(n.ctx)
		n.jobs.mu.Lock()
		delete(n.jobs.drivers, j.ID)
		n.jobs.mu.Unlock()
	})
	return d.end
}

// wake makes the driver of a job look at the record.
func (n *Node) wake(id own.Job) {
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
	drivePause  = 25 * time.Millisecond
	surveyPause = 250 * time.Millisecond
)

// run drives the job until it has ended, or the node is closed: then it goes on
// when that is open again.
func (d *driver) run(ctx context.Context) {
	defer d.release()
	d.take(d.job) // as it was stored by whoever admitted it, or before a crash
	ev := mover.Event(mover.Timeout{})
	for ctx.Err() == nil {
		if !d.quiet {
			if d.n.jobs.quiet.share(ctx) != nil {
				return
			}
			d.quiet = true
		}
		changed := d.n.jobs.changed.listen()
		ev = d.step(ctx, ev)
		d.relax()
		if d.job.Phase.Final() {
			_ = d.n.forgetJobs(ctx, d.job.ID) // the next one that ends tries again
			d.end.tell(d.job)
			d.n.jobs.changed.ring()
			return
		}
		if ev == nil {
			ev = mover.Timeout{}
			d.pause(ctx, changed)
		}
	}
}

// release gives back what the driver holds.
func (d *driver) release() {
	d.releaseBrake()
	d.carrier.Close()
	if d.quiet {
		d.quiet = false
		d.n.jobs.quiet.unshare()
	}
	for _, end := range []*func(){&d.handed, &d.letGo} {
		if *end != nil {
			(*end)()
			*end = nil
		}
	}
}

// relax gives back what the phase does not need. A range that takes no writes, or
// that nobody serves, is brought through without a break.
func (d *driver) relax() {
	p := d.job.Phase
	if p.Frozen() || p == mover.Releasing || p == mover.Activating {
		return
	}
	if d.quiet {
		d.quiet = false
		d.n.jobs.quiet.unshare()
	}
	if d.job.Paused || p < mover.Copying || p == mover.Verifying || p > mover.Deciding {
		d.releaseBrake() // a comparison does not take less time for it
	}
	if d.job.Paused || p < mover.Locating || p > mover.Deciding {
		d.carrier.Close()
	}
	if d.letGo != nil && (d.job.Paused || p < mover.Locating || p > mover.Deciding || d.tooMuchLog()) {
		d.letGo()
		d.letGo = nil
	}
}

// pause waits until there may be something to do.
func (d *driver) pause(ctx context.Context, changed <-chan struct{}) {
	wait := drivePause
	switch {
	case d.job.Phase.Frozen():
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
		d.reload(ctx)
	}
}

// until waits for a time of the job, unless somebody interferes with it meanwhile.
func (d *driver) until(ctx context.Context, ms int64) bool {
	wait := ms - d.n.jobMS()
	if wait <= 0 {
		return true
	}
	if d.quiet && !d.job.Phase.Frozen() { // a backup does not wait for a slow job
		d.quiet = false
		d.n.jobs.quiet.unshare()
		defer func() {
			d.quiet = d.n.jobs.quiet.share(context.WithoutCancel(ctx)) == nil
		}()
	}
	timer := time.NewTimer(time.Duration(wait) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		return true
	case <-d.woken:
		d.reload(ctx)
	}
	return false
}

// step gives an event to the job, stores what it becomes, does what it wants then,
// and returns what came of that; nil for nothing yet.
func (d *driver) step(ctx context.Context, ev mover.Event) mover.Event {
	next, effects := mover.Step(d.job, ev, d.n.jobMS())
	switch {
	case next.Rev == d.job.Rev:
	case mover.Passing(&d.job, next.Phase):
		d.take(next)
	default:
		begun := time.Now()
		if err := d.keep(ctx, next); err != nil {
			d.reload(ctx)
			return nil
		}
		d.n.jobs.rates.round(time.Since(begun))
		d.stored = next.Rev
		d.take(next)
	}
	return d.do(ctx, effects)
}

// keep stores a record. With the last one of a job that was done for another, that
// one's is stored too, with what it has cost.
func (d *driver) keep(ctx context.Context, next mover.Job) error {
	if !next.Phase.Final() || next.Parent == 0 {
		return d.n.enter(ctx, d.swap(next))
	}
	for {
		parent, err := d.n.record(ctx, next.Parent)
		if errors.Is(err, ErrNoJob) || err == nil && parent.Phase.Final() {
			return d.n.enter(ctx, d.swap(next)) // it has no use for it any more
		}
		if err != nil {
			return err
		}
		sum := &drive.Swap{Catalog: meta, Rev: parent.Rev, Job: mover.Account(parent, &next.Cost, d.n.jobMS())}
		err = d.n.enter(ctx, group.Steps{d.swap(next), sum})
		if errors.Is(err, drive.ErrOvertaken) {
			if now, e := d.n.record(ctx, next.Parent); e == nil && now.Rev != parent.Rev {
				continue // the parent has gone on meanwhile, maybe not the job itself
			}
		}
		if err == nil {
			d.n.wake(next.Parent)
		}
		return err
	}
}

// swap is the command that stores a record.
func (d *driver) swap(next mover.Job) *drive.Swap {
	return &drive.Swap{Catalog: meta, Rev: d.stored, Job: next}
}

// take goes on with a record.
func (d *driver) take(j mover.Job) {
	d.job = j
	if d.n.opts.OnJob != nil {
		d.n.opts.OnJob(j)
	}
}

// do does what the job wants. At most one effect has an answer.
func (d *driver) do(ctx context.Context, effects []mover.Effect) (answer mover.Event) {
	for _, x := range effects {
		if ev := d.execute(ctx, x); ev != nil {
			answer = ev
		}
	}
	if f, ok := answer.(mover.Failed); ok {
		return d.failed(ctx, f)
	}
	return answer
}

// failed tells the job of an error, and waits before the same is tried again. One that
// says nothing about the job, as that of a queue that is full, or leaves open whether
// something was done, it is not told of: an error means to some phases that nothing was,
// and to those with a decision to make that the map refuses it.
func (d *driver) failed(ctx context.Context, f mover.Failed) mover.Event {
	passes := errors.Is(f.Err, group.ErrUnknown) || errors.Is(f.Err, group.ErrOverloaded)
	if ctx.Err() != nil || errors.Is(f.Err, group.ErrClosed) || passes {
		return nil
	}
	round := d.job.Round
	if ev := d.step(ctx, f); d.job.Round != round {
		return ev
	}
	return nil
}

// reload takes the record that is stored.
func (d *driver) reload(ctx context.Context) {
	if j, err := d.n.record(ctx, d.job.ID); err == nil && j.Rev != d.stored {
		d.job, d.stored = j, j.Rev
	}
}
