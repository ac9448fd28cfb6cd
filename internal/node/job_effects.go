package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/throttle"
	"github.com/cleavekv/cleave/partition"
)

// findHost returns where a group is.
func (n *Node) findHost(id partition.GroupID) (protocol.GroupHost, error) {
	p := n.lookupGroup(id)
	if p == nil {
		return protocol.GroupHost{}, fmt.Errorf("%w: %v", protocol.ErrGroupNotOpen, id)
	}
	return protocol.GroupHost{Group: p.Group, Store: p.Store}, nil
}

// syncGroups returns an event when the stores of groups have synced what they did, and
// the error if they cannot, or not before ctx ends: a job gets only events that survive a
// crash.
func (d *jobDriver) syncGroups(ctx context.Context, round uint64, ev mover.Event, groups ...partition.GroupID) mover.Event {
	if _, bad := ev.(mover.Failed); bad {
		return ev
	}
	for _, g := range groups {
		if err := d.syncGroupWithin(ctx, g); err != nil {
			return mover.Failed{Round: round, Err: err}
		}
	}
	return ev
}

func (d *jobDriver) syncGroup(g partition.GroupID) error {
	p := d.node.lookupGroup(g)
	if p == nil {
		return protocol.ErrGroupNotOpen
	}
	return d.node.syncStore(p)
}

// syncGroupWithin is sync, for as long as a context lasts.
func (d *jobDriver) syncGroupWithin(ctx context.Context, g partition.GroupID) error {
	if _, limited := ctx.Deadline(); !limited {
		return d.syncGroup(g)
	}
	done := make(chan error, 1)
	d.node.runBackground(func() { done <- d.syncGroup(g) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runEffect does what a job wants, and returns the event for it. It is nil if there
// is none, or nothing was done.
func (d *jobDriver) runEffect(ctx context.Context, x mover.Effect) mover.Event {
	switch x := x.(type) {
	case mover.ReadOwnership:
		return d.syncGroups(ctx, x.Round, protocol.ReadOwnership(d.node.findHost, x), x.From, x.To)
	case mover.EvalCommands:
		return d.evalCommands(ctx, x)
	case mover.Locate:
		d.keepLog(x.From)
		return d.syncGroups(ctx, x.Round, d.copier.Locate(d.node.findHost, x, d.job.Span), x.From)
	case mover.Copy:
		return d.copyRows(ctx, x, x.From, x.To, x.Round, x.NotBeforeMS)
	case mover.CatchUp:
		return d.copyRows(ctx, x, x.From, x.To, x.Round, x.NotBeforeMS)
	case mover.Verify:
		return d.copyRows(ctx, x, x.From, x.To, x.Round, 0)
	case mover.DecideJob:
		return d.runDecision(ctx, x)
	case mover.PublishMap:
		if err := d.publishVersion(ctx, x.Version); err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		return mover.Acknowledged{Round: x.Round}
	}
	return d.runNodeEffect(ctx, x)
}

// runNodeEffect does what a job wants that is done by others.
func (d *jobDriver) runNodeEffect(ctx context.Context, x mover.Effect) mover.Event {
	answer := func(round uint64, err error) mover.Event {
		if err != nil {
			return mover.Failed{Round: round, Err: err}
		}
		return mover.Acknowledged{Round: round}
	}
	switch x := x.(type) {
	case mover.OpenGroups:
		return answer(x.Round, d.node.openNewGroups(ctx, x.Groups))
	case mover.CheckNoDecisions:
		return answer(x.Round, d.node.checkNoDecisions(x.Groups))
	case mover.SurveyCluster:
		v, err := d.node.surveyCluster(ctx)
		if err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		return mover.Surveyed{Round: x.Round, View: v}
	case mover.StartJob:
		_, _ = d.node.StartJob(ctx, x.Request) // the next survey shows whether it is there
	case mover.CancelJob:
		_ = d.node.ControlJob(ctx, x.Job, func(j mover.Job, nowMS int64) (mover.Job, error) {
			next, _, err := mover.Cancel(j, nowMS)
			return next, err
		})
	}
	return nil
}

// evalCommands lets groups evaluate commands.
func (d *jobDriver) evalCommands(ctx context.Context, x mover.EvalCommands) mover.Event {
	if !d.waitUntil(ctx, x.NotBeforeMS) {
		return nil
	}
	remote := d.job.IsRemote()
	last := d.job.Phase == mover.Activating || d.job.Phase == mover.Releasing && !remote
	if d.endHandover == nil && remote && (d.job.Phase == mover.Releasing || d.job.Phase == mover.Activating) {
		d.endHandover = d.node.handovers.begin()
	}
	var groups []partition.GroupID
	for _, p := range x.Commands {
		groups = append(groups, p.Group)
	}
	from, err := d.handoverSource()
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	clearing, _ := x.Commands[0].Command.(*mover.Clear)
	if c := &d.cleared; clearing != nil && c.phase == d.job.Phase && c.attempt == d.job.Attempt {
		clearing.After = c.key
	}
	ev := d.syncGroups(ctx, x.Round, protocol.EvalHandover(ctx, d.node.findHost, x, from), groups...)
	if _, done := ev.(mover.Evaluated); done && last {
		// A caller that waits for the range need not wait for the record.
		if d.endHandover != nil {
			d.endHandover()
			d.endHandover = nil
		}
		if d.decidedMap != nil {
			d.node.publishMap(d.decidedMap)
		}
	}
	if _, done := ev.(mover.Evaluated); done && clearing != nil && len(clearing.Keys) > 0 {
		d.cleared.phase, d.cleared.attempt = d.job.Phase, d.job.Attempt
		d.cleared.key = clearing.Keys[len(clearing.Keys)-1]
		d.maybeRest()
	}
	return ev
}

// handoverSource returns where readers of the feed find what happened to the range
// before it is served. A crash takes nothing of that back.
func (d *jobDriver) handoverSource() (*feed.Handover, error) {
	from, err := protocol.HandoverSource(d.node.findHost, &d.job, func(s *store.Store) int {
		return slices.IndexFunc(d.node.storeHosts, func(h *StoreHost) bool { return h.Store == s })
	})
	if from != nil && err == nil {
		err = d.syncGroup(d.job.From)
	}
	return from, err
}

// copyRows copies rows from one store to another. What a crash could take back at the source
// must not be at the destination.
func (d *jobDriver) copyRows(ctx context.Context, x mover.Effect, from, to partition.GroupID, round uint64, notBeforeMS int64) mover.Event {
	if !d.waitUntil(ctx, notBeforeMS) {
		return nil
	}
	d.keepLog(from)
	ctx, end := d.withThawDeadline(ctx)
	defer end()
	begun := time.Now()
	chunk, err := d.copier.ReadChunk(d.node.findHost, x)
	if err == nil {
		err = d.syncGroup(from)
	}
	if err != nil {
		return mover.Failed{Round: round, Err: err}
	}
	ev := d.syncGroups(ctx, round, chunk.Apply(ctx, d.node.findHost), to)
	took := time.Since(begun)
	switch e := ev.(type) {
	case mover.Copied:
		d.node.jobs.rates.recordCopy(e.Bytes, took)
		if _, known := d.copier.ChangedBytes(); known {
			return ev // it need not hurry: the log is not read
		}
		d.throttleWriters(func(source *store.Store, nowMS int64) {
			d.pacer.RecordCopied(source.LogBytesAfter(wal.Position(d.job.BasePosition)), maxKeptLogBytes, nowMS)
		})
	case mover.CaughtUp:
		e.TookMS = took.Milliseconds()
		d.throttleWriters(func(source *store.Store, nowMS int64) {
			left, own := d.copier.RemainingBytes(source, d.job.CopiedUpTo, e.CopiedUpTo, e.Bytes)
			d.pacer.RecordCaughtUp(throttle.Lag{Bytes: left, RoundBytes: mover.RoundBytes, OwnRange: own}, nowMS)
		})
		return e
	}
	return ev
}

// withThawDeadline is a context that ends when the range has taken no writes for too long: a
// destination that stands still must not keep it so. What is in flight there may come late.
func (d *jobDriver) withThawDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	thaws := d.job.ThawDeadlineMS()
	if thaws == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(thaws-d.node.jobNowMS())*time.Millisecond)
}

// maxKeptLogBytes is how much log a store keeps for a job beyond what it would. A move that takes
// longer goes on with what is known of changes; if it has lost that too it begins again,
// rather than fill the disk.
const maxKeptLogBytes = 1 << 30

// keepLog keeps the log of the source from now on: what is copied is followed by
// what was logged meanwhile.
func (d *jobDriver) keepLog(from partition.GroupID) {
	if p := d.node.lookupGroup(from); p != nil && d.releaseLog == nil && !d.hasTooMuchLog() {
		d.releaseLog = p.Store.RetainLog()
	}
}

// hasTooMuchLog reports whether the log that a job needs has become too long.
func (d *jobDriver) hasTooMuchLog() bool {
	p := d.node.lookupGroup(d.job.From)
	return p != nil && d.job.BasePosition > 0 && p.Store.LogBytesAfter(wal.Position(d.job.BasePosition)) > maxKeptLogBytes
}

// runDecision makes the decision where the records are.
func (d *jobDriver) runDecision(ctx context.Context, x mover.DecideJob) mover.Event {
	c, err := d.node.decideJob(ctx, d.swapCommand(d.job), x)
	if errors.Is(err, mover.ErrNotDeciding) || errors.Is(err, protocol.ErrStaleRecord) {
		d.reloadRecord(ctx)
		return nil
	}
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	was := d.job
	d.decidedMap, d.storedRev = c.Map, c.Job.Rev
	d.setRecord(c.Job)
	switch was.Phase {
	case mover.Marking, mover.Removing, mover.Unmarking:
		d.node.publishMap(c.Map) // no range changes hands
	}
	if was.Phase == mover.Removing {
		d.node.removeGroups(was.Groups)
	}
	return d.runEffects(ctx, c.Effects)
}

// decideJob makes a decision, with the record that asks for it if that is not stored.
func (n *Node) decideJob(ctx context.Context, s *protocol.SwapJob, x mover.DecideJob) (*protocol.DecideJob, error) {
	n.mapMu.Lock()
	defer n.mapMu.Unlock()
	if err := n.finishPendingPlacing(ctx); err != nil {
		return nil, err
	}
	c := &protocol.DecideJob{Catalog: catalogKeys, ID: s.Job.ID, Choose: x, NowMS: n.jobNowMS()}
	if s.Rev == s.Job.Rev {
		return c, n.writeCatalog(ctx, c)
	}
	return c, n.writeCatalog(ctx, group.Steps{s, c})
}

// publishVersion offers a map of at least some version to the routers.
func (d *jobDriver) publishVersion(ctx context.Context, v partition.Version) error {
	if d.node.published.Load().Version() >= v {
		return nil
	}
	m, err := d.node.loadNewestMap(ctx)
	if err == nil {
		d.node.publishMap(m)
	}
	return err
}

// checkNoDecisions returns mover.ErrKeepsDecisions if a group keeps any: a group that has to ask
// what became of a transaction must find it.
func (n *Node) checkNoDecisions(groups []partition.GroupID) error {
	for _, id := range groups {
		p := n.lookupGroup(id)
		if p == nil {
			return fmt.Errorf("%w: %v", protocol.ErrGroupNotOpen, id)
		}
		kept := false
		err := txn.ScanDecisions(p.Store, id, func(txn.Decision) bool {
			kept = true
			return false
		})
		if err != nil {
			return err
		}
		if kept {
			return fmt.Errorf("%w: %v", mover.ErrKeepsDecisions, id)
		}
	}
	return nil
}
