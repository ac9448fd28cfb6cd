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

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Transaction is what is to be committed in two phases: parts on several stores, or
// the part of one that holds what it needs.
type Transaction struct {
	// Parts are in the order of their spans, see [drive.Parts].
	Parts []txn.Part
	// Gate is asked by each group, as that of a request.
	Gate group.Gate
	// Hold names the transaction if it holds what it needs, see [Node.Hold].
	Hold txn.ID
}

// Counters count transactions by the way they were committed, and what went wrong.
type Counters struct {
	// OneGroup, Joint and TwoPhase count attempts to commit in one group, in several
	// groups of one store together, and in two phases.
	OneGroup, Joint, TwoPhase atomic.Uint64
	// Retries counts conflicts, and InTurn the attempts that waited for their turn.
	Retries, InTurn atomic.Uint64
	// Open is how many that take two phases are not at their end, locks and all.
	Open atomic.Int64
	// Scattered counts reads of several keys, and scans, that met several shards.
	Scattered atomic.Uint64
}

// Remember is for how long request ids are known, 0 for the default.
func (n *Node) Remember() time.Duration { return n.opts.Remember }

// transactionMS is how long a transaction may take. It bounds for how long what a
// dead coordinator has locked stays so, if nobody finds that out before.
const transactionMS = 5000

// newID makes the id of a transaction.
func (n *Node) newID() (id txn.ID) {
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
	for _, p := range *n.parts.Load() {
		if p != nil {
			now = max(now, p.Group.NowMS())
		}
	}
	return now
}

// deadlineMS is when a transaction that begins now must be decided, by the clocks of
// all groups.
func (n *Node) deadlineMS() int64 { return n.NowMS() + transactionMS }

// Wait waits a little before a transaction that was refused is tried again: for what
// has locked its keys.
func (n *Node) Wait(ctx context.Context, refused error, most time.Duration) error {
	var lock *txn.LockedError
	if !errors.As(refused, &lock) {
		return sleep(ctx, most)
	}
	p := n.PartOf(lock.Lock.Start)
	changed := p.Group.Changed()
	for _, l := range p.Group.Locks() {
		if l.Txn == lock.Lock.Txn {
			return await(ctx, changed, most)
		}
	}
	return ctx.Err() // it is gone
}

// Commit commits a transaction. On nil it has taken effect, everywhere; with
// group.ErrUnknown it may have; with any other error it has not, and never will.
func (n *Node) Commit(ctx context.Context, t Transaction) error {
	plan := txn.Plan{ID: t.Hold, DeadlineMS: n.deadlineMS(), Parts: t.Parts, Patient: t.Hold != txn.ID{}}
	if !plan.Patient {
		plan.ID = n.newID()
	}
	plan.Decider = n.published.Load().Owner(t.Parts[0].Span.Start).Group
	n.Count.Open.Add(1)
	l := &lead{node: n, gate: t.Gate, decider: plan.Decider, patient: plan.Patient}
	var effects []txn.Effect
	l.c, effects = txn.NewCoordinator(plan)
	answer, rest := l.run(ctx, effects, true)
	failure := l.failure
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
		return command.ErrConflict // somebody who waited for it has given it up
	}
	return answer.Err
}

// lead leads a transaction to its end.
type lead struct {
	node    *Node
	c       *txn.Coordinator
	gate    group.Gate
	decider partition.GroupID
	patient bool
	// failure is why a group could not be asked, the last time.
	failure error
	// hopeless tells that all groups that could not be asked, the last time, have failed for
	// good.
	hopeless bool
	// unsure tells that a Decide to commit has no answer, and may have succeeded.
	unsure bool
	// changed is closed when what was in the way may be gone.
	changed <-chan struct{}
	// synced tells that the decision would survive a crash.
	synced bool
}

// run does what the coordinator wants until it has an answer, if somebody waits for
// one, and returns that with what is left to do; otherwise to the end, or that of the
// node, or of all groups that are left: then whoever opens it goes on. No answer for who
// waits means that nobody knows: ctx has ended too late to take it back, or the decider
// has failed.
func (l *lead) run(ctx context.Context, effects []txn.Effect, waited bool) (*txn.Answer, []txn.Effect) {
	for wait := 0; l.c.State() != txn.Done || len(effects) > 0; {
		if i := slices.IndexFunc(effects, isAnswer); i >= 0 {
			a := effects[i].(txn.Answer)
			if effects = slices.Delete(effects, i, i+1); waited {
				return &a, effects
			}
		}
		events := l.do(ctx, effects, wait)
		effects = nil
		for _, ev := range events {
			effects = append(effects, l.c.Step(ev)...)
		}
		switch {
		case len(effects) > 0 || l.c.State() == txn.Done:
			wait = 0
			continue
		case !waited && l.hopeless: // whoever opens the node goes on
			return nil, nil
		case !l.over(ctx, waited):
			_ = await(ctx, l.changed, askAgain<<min(wait, 8))
			wait++
			effects = l.c.Step(txn.Timeout{})
			continue
		case waited:
			effects = l.c.Step(txn.Cancel{NoneLeft: !l.unsure})
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

// over tells whether there is no point in going on: for who waits also if the decider
// has failed to answer, as whoever goes on may take long to find out.
func (l *lead) over(ctx context.Context, waited bool) bool {
	failed := l.failure != nil && !errors.Is(l.failure, group.ErrOverloaded)
	return ctx.Err() != nil || l.node.ctx.Err() != nil || waited && failed && l.c.State() > txn.Preparing
}

// askAgain is how long a coordinator waits for a range that is being given away, or a
// lock, before it asks again; doubled a few times.
const askAgain = time.Millisecond

// finishLater does what is left, past the answer.
func (l *lead) finishLater(effects []txn.Effect) {
	end := func() { l.node.Count.Open.Add(-1) }
	if l.c.State() == txn.Done && len(effects) == 0 {
		end()
		return
	}
	l.node.background(func() {
		defer end()
		l.run(l.node.ctx, effects, false)
	})
}

// asked is a call on behalf of an effect.
type asked struct {
	drive.Call
	effect txn.Effect
}

// do does what the coordinator wants, all at once, and returns what came of it. wait
// is how often it was done before.
func (l *lead) do(ctx context.Context, effects []txn.Effect, wait int) []txn.Event {
	l.failure, l.changed, l.hopeless = nil, nil, false
	var calls []asked
	m := l.node.published.Load()
	for _, e := range effects {
		for _, c := range drive.Calls(l.c, e, m) {
			calls = append(calls, asked{c, e})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	// Who listens makes what is late be done at once: not for a first try.
	if p := l.node.part(calls[0].Group); p != nil && (l.patient || wait > 0) {
		l.changed = p.Group.Changed()
	}
	if l.failure = l.settleDecision(calls); l.failure != nil {
		l.hopeless = hasFailed(l.failure)
		return nil
	}
	events := make([]txn.Event, len(calls))
	if len(calls) == 1 {
		events[0], l.failure = l.ask(ctx, calls[0])
		l.hopeless = hasFailed(l.failure)
	} else {
		l.failure = l.askAll(ctx, calls, events)
	}
	return slices.DeleteFunc(events, func(ev txn.Event) bool { return ev == nil })
}

// askAll sends commands to several groups at once.
func (l *lead) askAll(ctx context.Context, calls []asked, events []txn.Event) error {
	failures := make([]error, len(calls))
	var others sync.WaitGroup
	ask := func(i int) { events[i], failures[i] = l.ask(ctx, calls[i]) }
	for i := range len(calls) - 1 {
		others.Go(func() { ask(i) })
	}
	ask(len(calls) - 1)
	others.Wait()
	l.hopeless = true
	for i, err := range failures {
		l.hopeless = l.hopeless && (events[i] != nil || hasFailed(err))
	}
	return errors.Join(failures...)
}

// hasFailed tells whether an error is that of a group, or its store, that takes nothing
// any more until it is opened again.
func hasFailed(err error) bool {
	return errors.Is(err, group.ErrFailed) || errors.Is(err, store.ErrFailed)
}

// settleDecision makes the decision durable before anybody acts on it.
func (l *lead) settleDecision(calls []asked) error {
	if _, ok := calls[0].effect.(txn.SendResolve); !ok || l.synced || l.c.Outcome() != txn.Committed {
		return nil
	}
	decider := l.node.part(l.decider)
	if decider == nil {
		return fmt.Errorf("%w: %v", drive.ErrAway, l.decider)
	}
	sync := l.node.syncLater
	for _, c := range calls {
		if p := l.node.part(c.Group); p != nil && p.Group.Awaited() {
			sync = l.node.sync // somebody waits for the locks to go
		}
	}
	if err := sync(decider); err != nil {
		return err
	}
	l.synced = true
	return nil
}

// ask sends a command to a group. The event is nil if there is nothing to tell, and
// then the error says why if the group could not be asked.
func (l *lead) ask(ctx context.Context, c asked) (txn.Event, error) {
	p := l.node.part(c.Group)
	if p == nil {
		if m := l.node.published.Load(); drive.Removed(m, c.Group) && c.Gone != nil {
			if e, ok := c.effect.(txn.SendDecide); ok && e.Commit && !l.unsure { // it was never asked
				return txn.DecideRefused{Err: &own.WrongGroupError{Group: c.Group, Version: m.Version()}, NoneLeft: true}, nil
			}
			return c.Gone, nil
		}
		return nil, fmt.Errorf("%w: %v", drive.ErrAway, c.Group)
	}
	r := group.Request{Command: c.Command()}
	switch e := c.effect.(type) {
	case txn.SendPrepare:
		r.Gate = l.gate
		reply, err := p.try(ctx, r)
		if err == nil && reply.Err == nil {
			err = l.node.sync(p)
		}
		if err != nil { // nobody can have committed it: it is enough not to go on
			reply = command.Reply{Kind: command.Failed, Err: err}
		}
		return c.Event(reply), nil
	case txn.SendDecide:
		if e.Commit {
			r.Gate = l.gate
		}
		return l.decide(ctx, p, r, c, e)
	case txn.SendResolve:
		reply, err := p.Group.TryLater(ctx, r)
		if err == nil && reply.Err == nil {
			err = l.node.syncLater(p)
		}
		return told(c, reply, err)
	}
	// Nobody acts upon the end of a decision: if that is lost, whoever opens the node
	// finds it carried out.
	reply, err := p.Group.TryLater(ctx, r)
	return told(c, reply, err)
}

// try is Try of whoever asks again while something is in the way: it stays so for good if the
// store has failed.
func (p *Part) try(ctx context.Context, r group.Request) (command.Reply, error) {
	reply, err := p.Group.Try(ctx, r)
	if err == nil && group.Passes(reply.Err) && p.failed() {
		err = store.ErrFailed
	}
	return reply, err
}

// decide asks the decider. What it decides is synced before it is acted upon.
func (l *lead) decide(ctx context.Context, p *Part, r group.Request, c asked, e txn.SendDecide) (txn.Event, error) {
	reply, err := p.try(ctx, r)
	if e.Commit && err != nil {
		unknown := errors.Is(err, group.ErrUnknown)
		if l.unsure = l.unsure || unknown; !unknown && !errors.Is(err, group.ErrOverloaded) {
			// It was not executed, and will not be.
			reply, err = command.Reply{Kind: command.Failed, Err: err}, nil
		}
	}
	ev, err := told(c, reply, err)
	if refused, ok := ev.(txn.DecideRefused); ok {
		refused.NoneLeft = !l.unsure
		ev = refused
	}
	return ev, err
}

// told is what a reply means to the coordinator.
func told(c asked, reply command.Reply, err error) (txn.Event, error) {
	if err != nil {
		return nil, err
	}
	return c.Event(reply), nil
}

// sync makes what the groups of a store have answered durable: where transactions
// leave one store and enter another, a crash must not take back one half.
func (n *Node) sync(p *Part) error { return n.synced(p, p.Host.syncs.do) }

// syncLater is sync for those who are in no hurry: they wait a moment for others who
// are.
func (n *Node) syncLater(p *Part) error { return n.synced(p, p.Host.syncs.later) }

func (n *Node) synced(p *Part, by func(func() error) error) error {
	if n.opts.Durability == wal.Always || plant.Bug("node-prepare-not-synced") {
		return nil
	}
	return by(p.Store.Sync)
}
