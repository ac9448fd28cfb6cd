package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// find returns where a group is.
func (n *Node) find(id partition.GroupID) (drive.Place, error) {
	p := n.part(id)
	if p == nil {
		return drive.Place{}, fmt.Errorf("%w: %v", drive.ErrAway, id)
	}
	return drive.Place{Group: p.Group, Store: p.Store}, nil
}

// durable returns an event when the stores of groups have synced what they did, and
// the error if they cannot, or not before ctx ends: a job hears only of what survives a
// crash.
func (d *driver) durable(ctx context.Context, round uint64, ev mover.Event, groups ...partition.GroupID) mover.Event {
	if _, bad := ev.(mover.Failed); bad {
		return ev
	}
	for _, g := range groups {
		if err := d.syncWithin(ctx, g); err != nil {
			return mover.Failed{Round: round, Err: err}
		}
	}
	return ev
}

func (d *driver) sync(g partition.GroupID) error {
	p := d.n.part(g)
	if p == nil {
		return drive.ErrAway
	}
	return d.n.sync(p)
}

// syncWithin is sync, for as long as a context lasts.
func (d *driver) syncWithin(ctx context.Context, g partition.GroupID) error {
	if _, limited := ctx.Deadline(); !limited {
		return d.sync(g)
	}
	done := make(chan error, 1)
	d.n.background(func() { done <- d.sync(g) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// execute does what a job wants, and returns what it is to hear. It is nil if there
// is nothing to hear, or nothing was done.
func (d *driver) execute(ctx context.Context, x mover.Effect) mover.Event {
	switch x := x.(type) {
	case mover.Look:
		return d.durable(ctx, x.Round, drive.Look(d.n.find, x), x.From, x.To)
	case mover.Evaluate:
		return d.evaluate(ctx, x)
	case mover.Locate:
		d.keepLog(x.From)
		return d.durable(ctx, x.Round, d.carrier.Locate(d.n.find, x, d.job.Span), x.From)
	case mover.Copy:
		return d.carry(ctx, x, x.From, x.To, x.Round, x.NotBeforeMS)
	case mover.CatchUp:
		return d.carry(ctx, x, x.From, x.To, x.Round, x.NotBeforeMS)
	case mover.Verify:
		return d.carry(ctx, x, x.From, x.To, x.Round, 0)
	case mover.Choose:
		return d.choose(ctx, x)
	case mover.Publish:
		if err := d.publish(ctx, x.Version); err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		return mover.Published{Round: x.Round}
	}
	return d.executeForOthers(ctx, x)
}

// executeForOthers does what a job wants that is done by others.
func (d *driver) executeForOthers(ctx context.Context, x mover.Effect) mover.Event {
	answer := func(round uint64, err error) mover.Event {
		if err != nil {
			return mover.Failed{Round: round, Err: err}
		}
		return mover.Published{Round: round}
	}
	switch x := x.(type) {
	case mover.Host:
		return answer(x.Round, d.n.hostGroups(ctx, x.Groups))
	case mover.Retire:
		return answer(x.Round, d.n.noDecisions(x.Groups))
	case mover.Survey:
		v, err := d.n.survey(ctx)
		if err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		return mover.Surveyed{Round: x.Round, View: v}
	case mover.Spawn:
		_, _ = d.n.StartJob(ctx, x.Request) // the next survey shows whether it is there
	case mover.Stop:
		_ = d.n.ControlJob(ctx, x.Job, func(j mover.Job, nowMS int64) (mover.Job, error) {
			next, _, err := mover.Cancel(j, nowMS)
			return next, err
		})
	}
	return nil
}

// evaluate lets groups evaluate commands.
func (d *driver) evaluate(ctx context.Context, x mover.Evaluate) mover.Event {
	if !d.until(ctx, x.NotBeforeMS) {
		return nil
	}
	remote := d.job.Remote()
	last := d.job.Phase == mover.Activating || d.job.Phase == mover.Releasing && !remote
	if d.handed == nil && remote && (d.job.Phase == mover.Releasing || d.job.Phase == mover.Activating) {
		d.handed = d.n.handing.begin()
	}
	var groups []partition.GroupID
	for _, p := range x.Parts {
		groups = append(groups, p.Group)
	}
	from, err := d.handedFrom()
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	clearing, _ := x.Parts[0].Command.(*mover.Clear)
	if c := &d.cleared; clearing != nil && c.phase == d.job.Phase && c.attempt == d.job.Attempt {
		clearing.After = c.key
	}
	ev := d.durable(ctx, x.Round, drive.EvaluateHanded(ctx, d.n.find, x, from), groups...)
	if _, done := ev.(mover.Evaluated); done && last {
		// Whoever waits for the range need not wait for the record.
		if d.handed != nil {
			d.handed()
			d.handed = nil
		}
		if d.made != nil {
			d.n.offer(d.made)
		}
	}
	if _, done := ev.(mover.Evaluated); done && clearing != nil && len(clearing.Keys) > 0 {
		d.cleared.phase, d.cleared.attempt = d.job.Phase, d.job.Attempt
		d.cleared.key = clearing.Keys[len(clearing.Keys)-1]
		d.easeOff()
	}
	return ev
}

// handedFrom returns where readers of the feed find what happened to the range
// before it is served. A crash takes nothing of that back.
func (d *driver) handedFrom() (*feed.Handed, error) {
	from, err := drive.HandedFrom(d.n.find, &d.job, func(s *store.Store) int {
		return slices.IndexFunc(d.n.hosts, func(h *Host) bool { return h.Store == s })
	})
	if from != nil && err == nil {
		err = d.sync(d.job.From)
	}
	return from, err
}

// carry brings rows from one store to another. What a crash could take back at the
// source must not be at the destination.
func (d *driver) carry(ctx context.Context, x mover.Effect, from, to partition.GroupID, round uint64, notBeforeMS int64) mover.Event {
	if !d.until(ctx, notBeforeMS) {
		return nil
	}
	d.keepLog(from)
	ctx, end := d.beforeThaw(ctx)
	defer end()
	begun := time.Now()
	load, err := d.carrier.Read(d.n.find, x)
	if err == nil && !plant.Bug("node-source-not-synced") {
		err = d.sync(from)
	}
	if err != nil {
		return mover.Failed{Round: round, Err: err}
	}
	ev := d.durable(ctx, round, load.Bring(ctx, d.n.find), to)
	took := time.Since(begun)
	switch e := ev.(type) {
	case mover.Copied:
		d.n.jobs.rates.carried(e.Bytes, took)
		if _, known := d.carrier.Changed(); known {
			return ev // it need not hurry: nobody reads the log
		}
		d.applyBrake(func(s *store.Store, nowMS int64) mover.Brake {
			return d.brake.Copied(s.Behind(wal.Position(d.job.Base)), maxHeldLog, nowMS)
		})
	case mover.CaughtUp:
		e.TookMS = took.Milliseconds()
		d.applyBrake(func(s *store.Store, nowMS int64) mover.Brake {
			left, own := d.carrier.Left(s, d.job.Upto, e.Upto, e.Bytes)
			return d.brake.CaughtUp(left, own, nowMS)
		})
		return e
	}
	return ev
}

// beforeThaw is a context that ends when the range has taken no writes for too long: a
// destination that stands still must not keep it so. What is on its way there may come late.
func (d *driver) beforeThaw(ctx context.Context) (context.Context, context.CancelFunc) {
	thaws := d.job.ThawsMS()
	if thaws == 0 || plant.Bug("node-frozen-for-good") {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(thaws-d.n.jobMS())*time.Millisecond)
}

// applyBrake holds up the writers of the range if they write faster than it is carried.
func (d *driver) applyBrake(look func(source *store.Store, nowMS int64) mover.Brake) {
	if p := d.n.part(d.job.From); p != nil {
		d.brake = look(p.Store, d.n.jobMS())
		p.Group.Slow(d.job.Span, time.Duration(d.brake.WaitUS)*time.Microsecond)
	}
}

// restsInHaste is for how many times as long as it has worked a job rests at most, by
// its haste.
var restsInHaste = [mover.MaxHaste + 1]float64{fullRests, 3, 1}

// sprintBytes is how much is brought at one go of what has changed, and sprintMS how long
// both sides are compared at one go: a second's work or so.
const sprintBytes, sprintMS = 128 << 20, 1000

// easeOff lets the job rest if others need the processors. Who waits for it, or would
// overtake it, does not wait longer for that.
func (d *driver) easeOff() {
	if !d.job.Phase.Frozen() && !d.sprints() {
		d.ease.rest(d.n.ctx, restsInHaste[d.brake.Haste])
	}
}

// sprints tells whether the end is in sight: what was brought is written again meanwhile, so
// the sooner the job is there the less it brings.
func (d *driver) sprints() bool {
	compares := d.job.Phase == mover.Verifying && d.n.jobMS()-d.job.ChangedMS < sprintMS
	if d.job.Phase != mover.Catching && !compares {
		return false
	}
	left, known := d.carrier.Changed()
	return known && left < sprintBytes
}

// releaseBrake lets them go on, and the job begin without haste.
func (d *driver) releaseBrake() {
	if p := d.n.part(d.job.From); p != nil && d.brake.WaitUS > 0 {
		p.Group.Slow(d.job.Span, 0)
	}
	d.brake = mover.Brake{}
}

// maxHeldLog is how much log a store keeps for a job beyond what it would. A move that takes
// longer goes on with what is known of changes; if it has lost that too it begins again,
// rather than fill the disk.
const maxHeldLog = 1 << 30

// keepLog keeps the log of the source from now on: what is copied is followed by
// what was logged meanwhile.
func (d *driver) keepLog(from partition.GroupID) {
	if p := d.n.part(from); p != nil && d.letGo == nil && !d.tooMuchLog() {
		d.letGo = p.Store.KeepLog()
	}
}

// tooMuchLog tells whether the log that a job needs has become too long.
func (d *driver) tooMuchLog() bool {
	p := d.n.part(d.job.From)
	return p != nil && d.job.Base > 0 && p.Store.Behind(wal.Position(d.job.Base)) > maxHeldLog
}

// choose makes the decision where the records are.
func (d *driver) choose(ctx context.Context, x mover.Choose) mover.Event {
	c, err := d.n.choose(ctx, d.swap(d.job), x)
	if errors.Is(err, mover.ErrNotDeciding) || errors.Is(err, drive.ErrOvertaken) {
		d.reload(ctx)
		return nil
	}
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	was := d.job
	d.made, d.stored = c.Map, c.Job.Rev
	d.take(c.Job)
	switch was.Phase {
	case mover.Marking, mover.Removing, mover.Unmarking:
		d.n.offer(c.Map) // no range changes hands
	}
	if was.Phase == mover.Removing {
		d.n.dismissGroups(was.Groups)
	}
	return d.do(ctx, c.Effects)
}

// choose makes a decision, with the record that asks for it if that is not stored.
func (n *Node) choose(ctx context.Context, s *drive.Swap, x mover.Choose) (*drive.Choose, error) {
	n.mapping.Lock()
	defer n.mapping.Unlock()
	if err := n.settlePlacing(ctx); err != nil {
		return nil, err
	}
	c := &drive.Choose{Catalog: meta, ID: s.Job.ID, Choose: x, NowMS: n.jobMS()}
	if s.Rev == s.Job.Rev {
		return c, n.enter(ctx, c)
	}
	return c, n.enter(ctx, group.Steps{s, c})
}

// publish offers a map of at least some version to those who route.
func (d *driver) publish(ctx context.Context, v partition.Version) error {
	if d.n.published.Load().Version() >= v {
		return nil
	}
	m, err := d.n.newestMap(ctx)
	if err == nil {
		d.n.offer(m)
	}
	return err
}

// noDecisions returns mover.ErrDecisions if a group keeps any: whoever has to ask
// what became of a transaction must find it.
func (n *Node) noDecisions(groups []partition.GroupID) error {
	for _, id := range groups {
		p := n.part(id)
		if p == nil {
			return fmt.Errorf("%w: %v", drive.ErrAway, id)
		}
		kept := false
		err := txn.Decisions(p.Store, id, func(txn.Decision) bool {
			kept = true
			return false
		})
		if err != nil {
			return err
		}
		if kept {
			return fmt.Errorf("%w: %v", mover.ErrDecisions, id)
		}
	}
	return nil
}
