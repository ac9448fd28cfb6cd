package group

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
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

// ExecuteJoint executes requests of several groups as one: all of them, at one moment, or none.
// The groups share a log, and each has at most one request. If one fails, its reply has the
// reason, and the others have changed nothing. At most one has an ID, which stands for all: if
// it was executed before, nothing is executed, and the replies of the others are empty. It waits
// as [Group.Execute] does, unless the request that is refused has NoWait.
func ExecuteJoint(ctx context.Context, requests []SubRequest) ([]command.Reply, error) {
	w := new(waiter)
	defer w.releaseReservation()
	for {
		replies, err := executeJointOnce(ctx, requests)
		met := slices.IndexFunc(replies, func(r command.Reply) bool { return isRetryable(r.Err) })
		if err != nil || met < 0 || requests[met].Request.NoWait {
			return replies, err
		}
		if again, err := w.wait(ctx, requests[met], replies[met].Err); err != nil {
			return nil, err
		} else if !again {
			return replies, nil
		}
		requests = slices.Clone(requests) // those before are the caller's, or others'
		for i := range requests {
			requests[i].Request.ReservationID = w.reservationID
		}
	}
}

// executeJointOnce executes joint requests, whatever is in their way.
func executeJointOnce(ctx context.Context, requests []SubRequest) ([]command.Reply, error) {
	j := newJointCall(requests)
	if q := requests[0].Group.opts.JointQueue; q != nil {
		if err := q.doCall(ctx, j); err != nil {
			return nil, err // the request may be under way still
		}
		return j.listReplies(), nil
	}
	if executeJoint(ctx, []*jointCall{j}); j.err != nil {
		return nil, j.err
	}
	return j.listReplies(), nil
}

// RunBetweenBatches calls f while no batch of any of the groups is under way.
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
// that come while one is under way go together into the next batch, whatever their
// groups. Each of them is still done as a whole or not at all.
type JointQueue struct {
	actor *actor.Actor[struct{}, *jointCall, struct{}]
}

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

// jointCall is a joint request in flight. It belongs to the goroutine that has claimed it.
type jointCall struct {
	// call stands for the request in a [batchRun].
	call
	parts []jointPart
	// first is the part that is evaluated before the others: the one with an ID, because it may
	// turn out that nothing is left to do.
	first int
	err   error
	// claimed is set by the goroutine that executes it, or by the caller that leaves before.
	claimed atomic.Bool
}

// jointPart is what a joint request does in one group.
type jointPart struct {
	call
	group *Group
	// mark is the state of the group's batch before the part was evaluated.
	mark savepoint
}

func newJointCall(requests []SubRequest) *jointCall {
	j := &jointCall{parts: make([]jointPart, len(requests))}
	j.joint = j
	for i, r := range requests {
		j.parts[i].Request, j.parts[i].group = r.Request, r.Group
		if r.Request.ID != (RequestID{}) {
			j.first = i
		}
	}
	return j
}

// listReplies returns the replies of the parts.
func (j *jointCall) listReplies() []command.Reply {
	replies := make([]command.Reply, len(j.parts))
	for i := range j.parts {
		replies[i] = j.parts[i].reply
	}
	return replies
}

func (j *jointCall) listGroups() []*Group {
	groups := make([]*Group, len(j.parts))
	for i := range j.parts {
		groups[i] = j.parts[i].group
	}
	return groups
}

// partAt returns the part that is evaluated as the nth.
func (j *jointCall) partAt(n int) *jointPart {
	switch n {
	case 0:
		n = j.first
	case j.first:
		n = 0
	}
	return &j.parts[n]
}

// isUrgent reports whether all parts of it are.
func (j *jointCall) isUrgent() bool {
	for i := range j.parts {
		if !isUrgent(j.parts[i].Command) {
			return false
		}
	}
	return true
}

// doCall executes a request together with others.
func (q *JointQueue) doCall(ctx context.Context, j *jointCall) error {
	_, err := q.actor.Call(ctx, j)
	if errors.Is(err, actor.ErrAbandoned) && j.claimed.CompareAndSwap(false, true) {
		return ctx.Err() // the handler does not use it any more
	}
	if err != nil {
		return mailboxErrorOf(j.listGroups(), err)
	}
	return j.err
}

// run is the handler: it executes what has come, in order.
func (*JointQueue) run(_ *struct{}, queued []*jointCall, _ []struct{}) {
	claimed := make([]*jointCall, 0, len(queued))
	for _, j := range queued {
		if j.claimed.CompareAndSwap(false, true) {
			claimed = append(claimed, j)
		}
	}
	executeJoint(context.Background(), claimed)
}

// executeJoint executes joint requests in order, in as many batches as it takes. Between two of
// them the groups are free for others.
func executeJoint(ctx context.Context, joints []*jointCall) {
	calls, errs := make([]*call, len(joints)), make([]error, len(joints))
	for i, j := range joints {
		calls[i] = &j.call
	}
	var r batchRun
	for done := 0; done < len(joints); {
		groups := numberParts(joints[done:])
		err := r.holdGroups(ctx, groups, func() {
			r.reset()
			done += r.executeBatch(calls[done:], errs[done:])
		})
		if err != nil {
			err = mailboxErrorOf(groups, err)
			for ; done < len(joints); done++ {
				errs[done] = err
			}
		}
	}
	for i, j := range joints {
		j.err = errs[i]
	}
}

// numberParts gives each part the number of its group among those of joint requests, and returns
// the groups.
func numberParts(joints []*jointCall) (groups []*Group) {
	for _, j := range joints {
		for i := range j.parts {
			part := &j.parts[i]
			if part.participant = slices.Index(groups, part.group); part.participant < 0 {
				part.participant, groups = len(groups), append(groups, part.group)
			}
		}
	}
	return groups
}

// evalJoint evaluates a joint request: all of its parts, or none if one of them fails.
func (r *batchRun) evalJoint(c *call) {
	j := c.joint
	c.hasWritten, c.replayed = false, false
	for i := range j.parts {
		j.parts[i].reply = command.Reply{}
	}
	size := 0
	for n := range j.parts {
		part := j.partAt(n)
		x := r.participants[part.participant]
		before := x.env.Effects().Size()
		part.mark = x.takeSavepoint()
		x.evalCall(&part.call)
		copyReply(&part.call)
		if part.reply.Err != nil || part.replayed {
			for ; n >= 0; n-- {
				undone := j.partAt(n)
				r.participants[undone.participant].rollbackTo(undone.mark)
			}
			// If its record is of this batch, then what becomes of that becomes of it.
			c.replayed, c.hasWritten = part.replayed, part.replayed && part.hasWritten
			return
		}
		size += x.env.Effects().Size() - before
		c.hasWritten = c.hasWritten || part.hasWritten
	}
	r.effectBytes += size
	for i := range j.parts {
		r.tableChanged = r.tableChanged || r.participants[j.parts[i].participant].guard.hasTableChanged()
	}
}

// savepoint is a state within a batch to which an executor can go back.
type savepoint struct {
	env    command.Savepoint
	table  *ownership.Table
	locks  int
	sealed ledger
}

func (x *executor) takeSavepoint() savepoint {
	return savepoint{x.env.Savepoint(), x.guard.ownerSite.Table, x.guard.locks.Savepoint(), x.sealedLedger}
}

// rollbackTo takes back what was executed since mark, records of requests included.
func (x *executor) rollbackTo(m savepoint) {
	x.env.RollbackTo(m.env)
	x.guard.ownerSite.Table, x.sealedLedger = m.table, m.sealed
	x.guard.locks.RollbackTo(m.locks)
}

func collectActors(groups []*Group) []*actor.Actor[executor, *call, error] {
	actors := make([]*actor.Actor[executor, *call, error], len(groups))
	for i, g := range groups {
		actors[i] = g.actor
	}
	return actors
}
