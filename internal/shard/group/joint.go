package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// JointLog is a Log that can commit for several groups at once.
type JointLog interface {
	Log
	// CommitJoint is Commit for each part, all or none of them.
	CommitJoint(urgent bool, parts []JointEntry) error
}

// JointEntry is what one group commits together with others.
type JointEntry struct {
	Log     Log
	Effects []byte
}

// SubRequest is a request to one of several groups.
type SubRequest struct {
	Group   *Group
	Request Request
}

// ErrNoSharedLog means that the groups do not share a log.
var ErrNoSharedLog = errors.New("group: the groups have no log in common")

// DoJoint executes requests of several groups as one: all of them, at one moment,
// or none. The groups share a log, and each has at most one request. If one fails,
// its reply tells why, and the others have changed nothing. At most one has an ID,
// which stands for all: if it was executed before, nothing is now, and the replies of
// the others are empty.
func DoJoint(ctx context.Context, pieces []SubRequest) ([]command.Reply, error) {
	for _, p := range pieces {
		if err := p.Group.throttle.waitAt(ctx, p.Request.Key); err != nil {
			return nil, err
		}
	}
	w := new(waiter)
	defer w.releaseReservation()
	for {
		replies, err := TryJoint(ctx, pieces)
		met := slices.IndexFunc(replies, func(r command.Reply) bool { return isRetryable(r.Err) })
		if err != nil || met < 0 {
			return replies, err
		}
		if again, err := w.wait(ctx, pieces[met], replies[met].Err); err != nil {
			return nil, err
		} else if !again {
			return replies, nil
		}
		pieces = slices.Clone(pieces) // those before are the caller's, or others'
		for i := range pieces {
			pieces[i].Request.ReservationID = w.reservationID
		}
	}
}

// TryJoint is Joint without the wait for locks and ranges that are given away.
func TryJoint(ctx context.Context, pieces []SubRequest) ([]command.Reply, error) {
	c := &jointCall{requests: pieces, replies: make([]command.Reply, len(pieces))}
	if j := pieces[0].Group.opts.JointQueue; j != nil {
		return j.doCall(ctx, c)
	}
	runJointCalls(ctx, []*jointCall{c})
	return c.replies, c.err
}

// RunBetweenBatches calls f while no batch of any of the groups is on its way.
func RunBetweenBatches(ctx context.Context, groups []*Group, f func()) error {
	if len(groups) == 0 { // of a store that has none left
		f()
		return nil
	}
	if err := actor.DoAll(ctx, collectActors(groups), func([]*executor) { f() }); err != nil {
		return mailboxErrorOf(groups, err)
	}
	return nil
}

// JointQueue lets the joint requests of groups that share a log share its writes too: those
// that come while one is on its way go together into the next batch, whatever their
// groups. Each of them is still done as a whole or not at all.
type JointQueue struct {
	actor *actor.Actor[struct{}, *jointCall, struct{}]
}

// maxQueuedJoints bounds the joint requests that wait. Each is a caller that waits for it.
const maxQueuedJoints = 1 << 16

// NewJointQueue returns what the groups of one log have in common, for [Options.JointQueue].
func NewJointQueue() *JointQueue {
	// As for a group: the handler waits for a disk, and a batch costs a write to it,
	// however many are in it.
	a, err := actor.New(struct{}{}, actor.Batch((*JointQueue)(nil).run), actor.Options{Capacity: maxQueuedJoints, Turns: -1, Gather: true})
	if err != nil {
		panic(err) // the options are right
	}
	return &JointQueue{a}
}

// jointCall is a joint request on its way. It belongs to whoever has claimed it.
type jointCall struct {
	requests []SubRequest
	replies  []command.Reply
	err      error
	// replayed tells that it was executed before, batchRefused that its batch was refused.
	replayed, batchRefused bool
	// claimed is set by whoever executes it, or by the caller who leaves before.
	claimed atomic.Bool
}

// doCall executes a request together with others.
func (j *JointQueue) doCall(ctx context.Context, c *jointCall) ([]command.Reply, error) {
	_, err := j.actor.Call(ctx, c)
	if errors.Is(err, actor.ErrAbandoned) && c.claimed.CompareAndSwap(false, true) {
		return nil, ctx.Err() // nobody looks at it any more
	}
	if err != nil {
		return nil, c.mailboxError(err)
	}
	return c.replies, c.err
}

// run is the handler: it executes what has come, in order.
func (*JointQueue) run(_ *struct{}, calls []*jointCall, _ []struct{}) {
	claimed := make([]*jointCall, 0, len(calls))
	for _, c := range calls {
		if c.claimed.CompareAndSwap(false, true) {
			claimed = append(claimed, c)
		}
	}
	runJointCalls(context.Background(), claimed)
}

// runJointCalls executes joint requests in order, in as many batches as it takes.
func runJointCalls(ctx context.Context, calls []*jointCall) {
	for len(calls) > 0 {
		b := newJointBatch(calls)
		err := actor.DoAll(ctx, collectActors(b.groups), b.run)
		var panicked *actor.PanicError
		switch {
		case err == nil:
			b.retryUrgent(ctx)
			calls = calls[b.evaluated:]
		case len(calls) == 1 || errors.As(err, &panicked):
			for _, c := range calls {
				c.replies, c.err = nil, c.mailboxError(err)
			}
			b.abandonPiggybacked(err)
			return
		default: // a group is closed: those that do not need it go on
			for i := range calls {
				runJointCalls(ctx, calls[i:i+1])
			}
			return
		}
	}
}

// jointBatch is joint requests as a batch of their groups.
type jointBatch struct {
	multiGroupBatch
	calls     []*jointCall
	evaluated int // of calls, so far
}

func newJointBatch(calls []*jointCall) *jointBatch {
	b := &jointBatch{calls: calls}
	for _, c := range calls {
		for i := range c.requests {
			if g := c.requests[i].Group; !slices.Contains(b.groups, g) {
				b.groups = append(b.groups, g)
			}
		}
	}
	return b
}

// run evaluates requests until the batch is large enough, and commits what they write.
func (b *jointBatch) run(states []*executor) {
	b.setStates(states)
	b.admitCalls()
	b.beginBatches()
	for full := false; b.evaluated < len(b.calls) && !full; b.evaluated++ {
		c := b.calls[b.evaluated]
		if c.err == nil { // a group may have died since it was admitted
			for i := range c.requests {
				c.err = cmp.Or(c.err, b.refusedErrs[b.groupIndex(&c.requests[i])])
			}
		}
		if c.err != nil {
			continue
		}
		var again bool
		if full, again = b.evalCall(c); again {
			break // its record has to be there first
		}
	}
	err := b.commit(!slices.ContainsFunc(b.calls[:b.evaluated], func(c *jointCall) bool { return c.hasWritten() && !c.isUrgent() }))
	b.finishBatches(err)
	if err == nil {
		return
	}
	for _, c := range b.calls[:b.evaluated] {
		switch {
		case c.replayed, c.err != nil:
			// The record of a request that was executed before was there before, and one
			// that was refused before has seen nothing of the batch.
		case errors.Is(err, ErrUncertain) && !c.hasFailed():
			c.err = fmt.Errorf("%w: %w", ErrUnknown, failedError(err))
		case errors.Is(err, ErrUncertain):
			c.err = failedError(err)
		default: // also of one that failed: what it has met did not happen
			c.err, c.batchRefused = err, true
		}
	}
}

// retryUrgent executes urgent requests that were refused with others again, each by itself: they
// may use what is kept for them when the disk is full.
func (b *jointBatch) retryUrgent(ctx context.Context) {
	for _, c := range b.calls[:b.evaluated] {
		if c.batchRefused && b.evaluated > 1 && c.isUrgent() {
			c.err, c.batchRefused = nil, false
			clear(c.replies)
			runJointCalls(ctx, []*jointCall{c})
		}
	}
}

// admitCalls makes the groups ready for the requests. Whatever of that is a batch of its own
// comes before any clock is held.
func (b *jointBatch) admitCalls() {
	b.raiseCeilings()
	for _, c := range b.calls {
		for i := range c.requests {
			at := b.groupIndex(&c.requests[i])
			if c.err == nil {
				c.err = b.refusedErrs[at]
			}
			if c.err == nil {
				c.err = b.states[at].admitCall(&call{Request: c.requests[i].Request})
			}
		}
	}
}

// groupIndex is which of the groups a piece is for.
func (b *jointBatch) groupIndex(p *SubRequest) int { return slices.Index(b.groups, p.Group) }

// evalCall evaluates one request. If a part fails, no part of it leaves anything. full
// tells that the batch ends with it, again that it ends before it: it was executed in it.
func (b *jointBatch) evalCall(c *jointCall) (full, again bool) {
	marks := make([]savepoint, 0, len(c.requests))
	order := c.evalOrder()
	for n, i := range order {
		x := b.states[b.groupIndex(&c.requests[i])]
		marks = append(marks, x.takeSavepoint())
		one := call{Request: c.requests[i].Request}
		x.evalCall(&one)
		copyReply(&one)
		c.replies[i], c.replayed = one.reply, one.replayed
		if one.reply.Err != nil || one.replayed {
			for ; n >= 0 && !plant.Bug("group-joint-not-taken-back"); n-- {
				b.states[b.groupIndex(&c.requests[order[n]])].rollbackTo(marks[n])
			}
			if again = one.replayed && one.hasWritten; again {
				c.replayed = false
				clear(c.replies)
			}
			return false, again
		}
		full = full || x.isBatchFull()
	}
	return full, false
}

// evalOrder is that in which the pieces are evaluated. The one with an ID comes first: it
// may turn out that nothing is left to do.
func (c *jointCall) evalOrder() []int {
	order := make([]int, len(c.requests))
	for i := range order {
		order[i] = i
	}
	if i := slices.IndexFunc(c.requests, func(p SubRequest) bool { return p.Request.ID != RequestID{} }); i > 0 {
		order[0], order[i] = i, 0
	}
	return order
}

// isUrgent reports whether all parts of it are.
func (c *jointCall) isUrgent() bool {
	return !slices.ContainsFunc(c.requests, func(p SubRequest) bool { return !isUrgent(p.Request.Command) })
}

// hasWritten reports whether the batch has what it writes.
func (c *jointCall) hasWritten() bool { return c.err == nil && !c.replayed && !c.hasFailed() }

// hasFailed reports whether a part of it has failed, so that it writes nothing.
func (c *jointCall) hasFailed() bool {
	return slices.ContainsFunc(c.replies, func(r command.Reply) bool { return r.Err != nil })
}

// multiGroupBatch is a batch of several groups that share a log: one entry of it for each, all in
// one frame, so that all of it is visible at one moment or never.
type multiGroupBatch struct {
	groups []*Group
	states []*executor
	// refusedErrs is why a group cannot take part, by group. Those that can have begun a
	// batch, and hold their clocks until all of it is visible.
	refusedErrs []error
	piggybacked [][]*call // those of each group that ride along
}

func collectActors(groups []*Group) []*actor.Actor[executor, *call, error] {
	actors := make([]*actor.Actor[executor, *call, error], len(groups))
	for i, g := range groups {
		actors[i] = g.actor
	}
	return actors
}

func (b *multiGroupBatch) setStates(states []*executor) {
	b.states, b.refusedErrs, b.piggybacked = states, make([]error, len(states)), make([][]*call, len(states))
}

// raiseCeilings sees to it that the groups have time and versions left. That may be a batch of
// its own.
func (b *multiGroupBatch) raiseCeilings() {
	for i, x := range b.states {
		if b.refusedErrs[i] = x.fatalErr; x.fatalErr == nil {
			b.refusedErrs[i] = x.raiseCeilings()
		}
	}
}

// beginBatches begins the batch of each group, with what rides along: that is requests without an
// id which take no range over, so nobody has to admit them, or to know them again.
func (b *multiGroupBatch) beginBatches() {
	for i, x := range b.states {
		if b.refusedErrs[i] == nil {
			b.refusedErrs[i] = x.fatalErr // since another was admitted
		}
		if b.refusedErrs[i] == nil {
			x.beginBatch()
			b.piggybacked[i] = x.piggyback.takeAll()
			for _, c := range b.piggybacked[i] {
				x.evalCall(c)
			}
		}
	}
}

// commit commits what every group writes in one frame. It is urgent if what rides along is, too.
func (b *multiGroupBatch) commit(urgently bool) error {
	for _, late := range b.piggybacked {
		urgently = urgently && !slices.ContainsFunc(late, func(c *call) bool { return !isUrgent(c.Command) })
	}
	var parts []JointEntry
	for i, x := range b.states {
		if b.refusedErrs[i] == nil && x.needsLogEntry() {
			parts = append(parts, JointEntry{x.log, x.sealBatch()})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	log, ok := parts[0].Log.(JointLog)
	if !ok {
		return ErrNoSharedLog
	}
	err := log.CommitJoint(urgently, parts)
	if errors.Is(err, ErrUncertain) {
		for _, x := range b.states {
			x.fatalErr = failedError(err)
		}
	}
	return err
}

// finishBatches shows what the batch has changed. A range that one group gives another is
// nobody's, or both have it, until both have shown their lists: until then readers of
// several groups are told so.
func (b *multiGroupBatch) finishBatches(err error) {
	reowned := err == nil && slices.ContainsFunc(b.states, func(x *executor) bool { return x.guard.hasTableChanged() })
	if reowned {
		for _, x := range b.states {
			x.published.tableChanges.Add(1)
		}
	}
	for i, x := range b.states {
		if b.refusedErrs[i] == nil {
			x.finishBatch(err == nil)
		}
	}
	if reowned {
		for _, x := range b.states {
			x.published.tableChanges.Add(-1)
		}
	}
	for i, x := range b.states {
		b.notifyPiggybacked(x, b.piggybacked[i], err)
		b.piggybacked[i] = nil
	}
}

// notifyPiggybacked answers those who ride along. Who is refused with others has another try by
// himself, if he is urgent.
func (b *multiGroupBatch) notifyPiggybacked(x *executor, late []*call, err error) {
	errs := make([]error, len(late))
	for i, c := range late {
		copyReply(c)
		errs[i] = x.writerError(err)
	}
	if err != nil && x.fatalErr == nil {
		x.retryUrgent(late, errs, true)
	}
	for i, c := range late {
		c.notifyDone(errs[i])
	}
}

// abandonPiggybacked answers those who ride along with a batch that panicked.
func (b *multiGroupBatch) abandonPiggybacked(err error) {
	for i, g := range b.groups {
		if i < len(b.piggybacked) {
			notifyAll(b.piggybacked[i], g.mailboxError(err))
		}
	}
}
