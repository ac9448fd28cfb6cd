package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// Transaction is a transaction to be committed in two phases: parts on several stores, or the
// part of one that holds what it needs.
type Transaction struct {
	// Participants are in the order of their spans, see [protocol.Participants].
	Participants []txn.Participant
	// Gate is asked by each group, as that of a request.
	Gate group.Gate
	// Reservation names the transaction if it holds what it needs, see [Node.Reserve].
	Reservation txn.ID
}

// Counters count transactions by the way they were committed, and what went wrong.
type Counters struct {
	// OneGroup, Joint and TwoPhase count attempts to commit in one group, in several
	// groups of one store together, and in two phases.
	OneGroup, Joint, TwoPhase atomic.Uint64
	// Retries counts conflicts, and InTurn the attempts that waited for their turn.
	Retries, Reserved atomic.Uint64
	// Open is how many that take two phases are not at their end, locks and all.
	Open atomic.Int64
	// MultiShardReads counts reads of several keys, and scans, that met several shards.
	MultiShardReads atomic.Uint64
}

// Remember is for how long request ids are known, 0 for the default.
func (n *Node) Remember() time.Duration { return n.opts.Remember }

// txnTimeoutMS is how long a transaction may take. It bounds how long the locks of a dead
// coordinator stay, if no other transaction finds out before.
const txnTimeoutMS = 5000

// newTxnID makes the id of a transaction.
func (n *Node) newTxnID() (id txn.ID) {
	_, _ = rand.Read(id[6:]) // never fails
	ms := uint64(n.opts.Wall())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

// NowMS is the latest of the clocks of the machine and all groups: those never go back,
// and some may be ahead of the machine's.
func (n *Node) NowMS() int64 {
	now := n.opts.Wall()
	for _, p := range *n.groupHosts.Load() {
		if p != nil {
			now = max(now, p.Group.NowMS())
		}
	}
	return now
}

// keysPerMS is how many keys of a large transaction make it a millisecond longer. They take
// about a tenth of that on an idle machine.
const keysPerMS = 10

// computeDeadlineMS is when a transaction that begins now must be decided, by the clocks of
// all groups.
func (n *Node) computeDeadlineMS() int64 { return n.NowMS() + txnTimeoutMS }

// computeExtraTimeMS is how much longer a transaction of these parts may take than a small one.
func computeExtraTimeMS(parts []txn.Participant) (ms int64) {
	for i := range parts {
		ms += int64(len(parts[i].Reads) + len(parts[i].Writes))
	}
	return ms / keysPerMS
}

// WaitForUnlock waits a little before a transaction that was refused is tried again: for what
// has locked its keys.
func (n *Node) WaitForUnlock(ctx context.Context, refused error, most time.Duration) error {
	var lock *txn.LockedError
	if !errors.As(refused, &lock) {
		return sleepContext(ctx, most)
	}
	p := n.GroupHostAt(lock.Lock.Start)
	changed := p.Group.Changed()
	for _, l := range p.Group.ListLocks() {
		if l.Txn == lock.Lock.Txn {
			return waitContext(ctx, changed, most)
		}
	}
	return ctx.Err() // it is gone
}

// Commit commits a transaction. On nil it has taken effect, everywhere; with
// group.ErrUnknown it may have; with any other error it has not, and never will.
func (n *Node) Commit(ctx context.Context, t Transaction) error {
	plan := txn.Plan{ID: t.Reservation, DeadlineMS: n.computeDeadlineMS() + computeExtraTimeMS(t.Participants), Participants: t.Participants, Patient: t.Reservation != txn.ID{}}
	if !plan.Patient {
		plan.ID = n.newTxnID()
	}
	plan.CoordinatorGroup = n.published.Load().Owner(t.Participants[0].Span.Start).Group
	n.Counters.Open.Add(1)
	l := &txnDriver{node: n, gate: t.Gate, coordinatorGroup: plan.CoordinatorGroup, hasReservation: plan.Patient}
	var effects []txn.Effect
	l.coordinator, effects = txn.NewCoordinator(plan)
	answer, rest := l.run(ctx, effects, true)
	failure := l.lastErr
	l.finishLater(rest) // l is another goroutine's from here on
	switch {
	case answer == nil:
		return fmt.Errorf("%w: the transaction was left undecided: %w", group.ErrUnknown, errors.Join(ctx.Err(), n.ctx.Err(), failure))
	case answer.Outcome == txn.Committed:
		return nil
	case ctx.Err() != nil && (errors.Is(answer.Err, txn.ErrCancelled) || errors.Is(answer.Err, group.ErrUnknown)):
		return ctx.Err()
	case errors.Is(answer.Err, txn.ErrCancelled): // by Close, not by the caller
		return group.ErrClosed
	case errors.Is(answer.Err, group.ErrUnknown): // whether it was prepared: it is not committed
		return fmt.Errorf("%w: %v", group.ErrFailed, answer.Err)
	case answer.Outcome == txn.Undecided:
		return fmt.Errorf("%w: %w", group.ErrUnknown, answer.Err)
	case answer.Err == nil:
		return command.ErrConflict // a caller that waited for it has given it up
	}
	return answer.Err
}

// txnDriver leads a transaction to its end.
type txnDriver struct {
	node             *Node
	coordinator      *txn.Coordinator
	gate             group.Gate
	coordinatorGroup partition.GroupID
	hasReservation   bool
	// lastErr is why a group could not be asked, the last time.
	lastErr error
	// allFailed reports whether all groups that could not be asked, the last time, have failed for
	// good.
	allFailed bool
	// maybeCommitted reports whether a Decide to commit has no answer, and may have succeeded.
	maybeCommitted bool
	// changed is closed when what was in the way may be gone.
	changed <-chan struct{}
	// decisionSynced reports whether the decision would survive a crash.
	decisionSynced bool
}

// run does what the coordinator wants until it has an answer, if a caller waits for one, and
// returns the answer with what is left to do. Otherwise it runs to the end, or that of the node,
// or of all groups that are left: then the next Open goes on. If a caller waits and there is no
// answer, the outcome is unknown: ctx has ended too late to take it back, or the coordinator group has
// failed.
func (l *txnDriver) run(ctx context.Context, effects []txn.Effect, waited bool) (*txn.Answer, []txn.Effect) {
	for wait := 0; l.coordinator.State() != txn.Done || len(effects) > 0; {
		if i := slices.IndexFunc(effects, isAnswer); i >= 0 {
			a := effects[i].(txn.Answer)
			if effects = slices.Delete(effects, i, i+1); waited {
				return &a, effects
			}
		}
		events := l.runEffects(ctx, effects, wait)
		effects = nil
		for _, ev := range events {
			effects = append(effects, l.coordinator.Step(ev)...)
		}
		switch {
		case len(effects) > 0 || l.coordinator.State() == txn.Done:
			wait = 0
			continue
		case !waited && l.allFailed: // the next Open goes on
			return nil, nil
		case !l.shouldStop(ctx, waited):
			_ = waitContext(ctx, l.changed, retryDelay<<min(wait, 8))
			wait++
			effects = l.coordinator.Step(txn.Timeout{})
			continue
		case waited:
			effects = l.coordinator.Step(txn.Cancel{NoneInFlight: !l.maybeCommitted})
		}
		if !slices.ContainsFunc(effects, isAnswer) {
			return nil, effects
		}
	}
	return nil, nil
}

func isAnswer(e txn.Effect) bool {
	_, ok := e.(txn.Answer)
	return ok
}

// shouldStop reports whether there is no point in going on: if a caller waits, also if the
// coordinator group has failed to answer, as resolving the transaction may take long.
func (l *txnDriver) shouldStop(ctx context.Context, waited bool) bool {
	failed := l.lastErr != nil && !errors.Is(l.lastErr, group.ErrOverloaded)
	return ctx.Err() != nil || l.node.ctx.Err() != nil || waited && failed && l.coordinator.State() > txn.Preparing
}

// retryDelay is how long a coordinator waits for a range that is being given away, or a
// lock, before it asks again; doubled a few times.
const retryDelay = time.Millisecond

// finishLater does what is left, past the answer.
func (l *txnDriver) finishLater(effects []txn.Effect) {
	end := func() { l.node.Counters.Open.Add(-1) }
	if l.coordinator.State() == txn.Done && len(effects) == 0 {
		end()
		return
	}
	l.node.runBackground(func() {
		defer end()
		l.run(l.node.ctx, effects, false)
	})
}

// effectCall is a call on behalf of an effect.
type effectCall struct {
	protocol.Call
	effect txn.Effect
}

// runEffects does what the coordinator wants, all at once, and returns what came of it. wait
// is how often it was done before.
func (l *txnDriver) runEffects(ctx context.Context, effects []txn.Effect, wait int) []txn.Event {
	l.lastErr, l.changed, l.allFailed = nil, nil, false
	var calls []effectCall
	m := l.node.published.Load()
	for _, e := range effects {
		for _, c := range protocol.CallsFor(l.coordinator, e, m) {
			calls = append(calls, effectCall{c, e})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	// A subscriber hurries queued requests: not for a first try.
	if p := l.node.lookupGroup(calls[0].Group); p != nil && (l.hasReservation || wait > 0) {
		l.changed = p.Group.Changed()
	}
	if l.lastErr = l.syncDecision(calls); l.lastErr != nil {
		l.allFailed = isPermanentFailure(l.lastErr)
		return nil
	}
	events := make([]txn.Event, len(calls))
	if len(calls) == 1 {
		events[0], l.lastErr = l.sendCall(ctx, calls[0])
		l.allFailed = isPermanentFailure(l.lastErr)
	} else {
		l.lastErr = l.sendAll(ctx, calls, events)
	}
	return slices.DeleteFunc(events, func(ev txn.Event) bool { return ev == nil })
}

// sendAll sends commands to several groups at once.
func (l *txnDriver) sendAll(ctx context.Context, calls []effectCall, events []txn.Event) error {
	failures := make([]error, len(calls))
	var others sync.WaitGroup
	ask := func(i int) { events[i], failures[i] = l.sendCall(ctx, calls[i]) }
	for i := range len(calls) - 1 {
		others.Go(func() { ask(i) })
	}
	ask(len(calls) - 1)
	others.Wait()
	l.allFailed = true
	for i, err := range failures {
		l.allFailed = l.allFailed && (events[i] != nil || isPermanentFailure(err))
	}
	return errors.Join(failures...)
}

// isPermanentFailure reports whether an error is that of a group, or its store, that takes nothing
// any more until it is opened again.
func isPermanentFailure(err error) bool {
	return errors.Is(err, group.ErrFailed) || errors.Is(err, store.ErrFailed)
}

// syncDecision makes the decision durable before any group acts on it.
func (l *txnDriver) syncDecision(calls []effectCall) error {
	if _, ok := calls[0].effect.(txn.SendResolve); !ok || l.decisionSynced || l.coordinator.Outcome() != txn.Committed {
		return nil
	}
	coordinatorGroup := l.node.lookupGroup(l.coordinatorGroup)
	if coordinatorGroup == nil {
		return fmt.Errorf("%w: %v", protocol.ErrGroupNotOpen, l.coordinatorGroup)
	}
	sync := l.node.syncStoreLater
	for _, c := range calls {
		if p := l.node.lookupGroup(c.Group); p != nil && p.Group.HasWaiters() {
			sync = l.node.syncStore // a caller waits for the locks to go
		}
	}
	if err := sync(coordinatorGroup); err != nil {
		return err
	}
	l.decisionSynced = true
	return nil
}

// sendCall sends a command to a group. The event is nil if there is none, and
// then the error is why if the group could not be asked.
func (l *txnDriver) sendCall(ctx context.Context, c effectCall) (txn.Event, error) {
	p := l.node.lookupGroup(c.Group)
	if p == nil {
		if m := l.node.published.Load(); protocol.IsGroupRemoved(m, c.Group) && c.RemovedEvent != nil {
			if e, ok := c.effect.(txn.SendDecide); ok && e.Commit && !l.maybeCommitted { // it was never asked
				return txn.DecideRefused{Err: &ownership.WrongGroupError{Group: c.Group, Version: m.Version()}, NoneInFlight: true}, nil
			}
			return c.RemovedEvent, nil
		}
		return nil, fmt.Errorf("%w: %v", protocol.ErrGroupNotOpen, c.Group)
	}
	r := group.Request{Command: c.Command()}
	switch e := c.effect.(type) {
	case txn.SendPrepare:
		r.Gate = l.gate
		reply, err := p.tryRequest(ctx, r)
		if err == nil && reply.Err == nil {
			err = l.node.syncStore(p)
		}
		if err != nil { // it cannot have been committed: it is enough not to go on
			reply = command.Reply{Kind: command.Failed, Err: err}
		}
		return c.Event(reply), nil
	case txn.SendDecide:
		if e.Commit {
			r.Gate = l.gate
		}
		return l.sendDecide(ctx, p, r, c, e)
	case txn.SendResolve:
		r.Piggyback = true
		reply, err := p.Group.Execute(ctx, r)
		if err == nil && reply.Err == nil {
			err = l.node.syncStoreLater(p)
		}
		return replyEvent(c, reply, err)
	}
	// No caller acts upon the end of a decision: if that is lost, the next Open finds it carried
	// out.
	r.Piggyback = true
	reply, err := p.Group.Execute(ctx, r)
	return replyEvent(c, reply, err)
}

// tryRequest executes the request of a caller that asks again while something is in the way:
// that stays so for good if the store has failed.
func (p *GroupHost) tryRequest(ctx context.Context, r group.Request) (command.Reply, error) {
	r.NoWait = true
	reply, err := p.Group.Execute(ctx, r)
	if err == nil && group.IsRetryable(reply.Err) && p.hasFailed() {
		err = store.ErrFailed
	}
	return reply, err
}

// sendDecide asks the coordinator group. What it decides is synced before it is acted upon.
func (l *txnDriver) sendDecide(ctx context.Context, p *GroupHost, r group.Request, c effectCall, e txn.SendDecide) (txn.Event, error) {
	reply, err := p.tryRequest(ctx, r)
	if e.Commit && err != nil {
		unknown := errors.Is(err, group.ErrUnknown)
		if l.maybeCommitted = l.maybeCommitted || unknown; !unknown && !errors.Is(err, group.ErrOverloaded) {
			// It was not executed, and will not be.
			reply, err = command.Reply{Kind: command.Failed, Err: err}, nil
		}
	}
	ev, err := replyEvent(c, reply, err)
	if refused, ok := ev.(txn.DecideRefused); ok {
		refused.NoneInFlight = !l.maybeCommitted
		ev = refused
	}
	return ev, err
}

// replyEvent is what a reply means to the coordinator.
func replyEvent(c effectCall, reply command.Reply, err error) (txn.Event, error) {
	if err != nil {
		return nil, err
	}
	return c.Event(reply), nil
}

// syncStore makes what the groups of a store have answered durable: where transactions
// leave one store and enter another, a crash must not take back one half.
func (n *Node) syncStore(p *GroupHost) error { return n.syncStoreBy(p, p.Host.syncer.syncNow) }

// syncStoreLater is syncStore for callers in no hurry: they wait a moment for others that are.
func (n *Node) syncStoreLater(p *GroupHost) error { return n.syncStoreBy(p, p.Host.syncer.syncLater) }

func (n *Node) syncStoreBy(p *GroupHost, by func(func() error) error) error {
	if n.opts.Durability == wal.Always {
		return nil
	}
	return by(p.Store.Sync)
}
