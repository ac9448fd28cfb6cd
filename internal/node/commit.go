package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Transaction is what is to be committed in two phases: parts on several stores, or
// the part of one that holds what it needs.
type Transaction struct {
	// Parts are by shard, in the order of their spans.
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

// deadlineMS is when a transaction that begins now must be decided, by the clocks of
// all groups: some may be ahead of the machine's.
func (n *Node) deadlineMS() int64 {
	now := n.opts.Wall()
	for _, p := range *n.parts.Load() {
		if p != nil {
			now = max(now, p.Group.NowMS())
		}
	}
	return now + transactionMS
}

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
	l := &lead{node: n, gate: t.Gate, decider: plan.Decider}
	var effects []txn.Effect
	l.c, effects = txn.NewCoordinator(plan)
	answer, rest := l.run(ctx, effects)
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
	// failure is why a group could not be asked, the last time.
	failure error
	// changed is closed when what was in the way may be gone.
	changed <-chan struct{}
	// synced tells that the decision would survive a crash.
	synced bool
}

// run does what the coordinator wants until it has an answer, and returns that with
// what is left to do. Without an answer, ctx has ended too late to take it back, or
// the decider has failed: nobody knows.
func (l *lead) run(ctx context.Context, effects []txn.Effect) (*txn.Answer, []txn.Effect) {
	for wait := 0; ; {
		for i, e := range effects {
			if a, ok := e.(txn.Answer); ok {
				return &a, append(effects[:i:i], effects[i+1:]...)
			}
		}
		events := l.do(ctx, effects)
		effects = nil
		for _, ev := range events {
			effects = append(effects, l.c.Step(ev)...)
		}
		if len(effects) > 0 {
			wait = 0
			continue
		}
		switch deciding := l.c.State() > txn.Preparing; {
		case l.c.State() == txn.Done:
			return nil, nil
		case ctx.Err() != nil || l.node.ctx.Err() != nil || deciding && l.failure != nil && !errors.Is(l.failure, group.ErrOverloaded):
			// Before the decision was asked for, that is an end; after it, whoever goes
			// on finds out.
			if effects = l.c.Step(txn.Cancel{}); deciding {
				return nil, effects
			}
			continue
		}
		_ = await(ctx, l.changed, askAgain<<min(wait, 6))
		wait++
		effects = l.c.Step(txn.Timeout{})
	}
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
		l.finish(effects)
	})
}

// finish leads the transaction to its end, or until the node is closed: then whoever
// opens it goes on.
func (l *lead) finish(effects []txn.Effect) {
	ctx := l.node.ctx
	for wait := 0; ctx.Err() == nil && (l.c.State() != txn.Done || len(effects) > 0); {
		events := l.do(ctx, effects)
		effects = nil
		for _, ev := range events {
			for _, e := range l.c.Step(ev) {
				if _, ok := e.(txn.Answer); !ok { // nobody waits for it
					effects = append(effects, e)
				}
			}
		}
		if len(effects) > 0 || l.c.State() == txn.Done {
			wait = 0
			continue
		}
		_ = await(ctx, l.changed, askAgain<<min(wait, 10))
		wait++
		effects = l.c.Step(txn.Timeout{})
	}
}

// do does what the coordinator wants, all at once, and returns what came of it.
func (l *lead) do(ctx context.Context, effects []txn.Effect) []txn.Event {
	l.failure = nil
	type asked struct {
		drive.Call
		effect txn.Effect
	}
	var calls []asked
	m := l.node.published.Load()
	for _, e := range effects {
		if err := l.settleDecision(e); err != nil {
			l.failure = err
			return nil
		}
		for _, c := range drive.Calls(l.c, e, m) {
			calls = append(calls, asked{c, e})
		}
	}
	if l.changed = nil; len(calls) > 0 {
		if p := l.node.part(calls[0].Group); p != nil {
			l.changed = p.Group.Changed()
		}
	}
	events, failures := make([]txn.Event, len(calls)), make([]error, len(calls))
	var others sync.WaitGroup
	for i := range calls {
		ask := func() { events[i], failures[i] = l.ask(ctx, calls[i].Call, calls[i].effect) }
		if i+1 < len(calls) {
			others.Go(ask)
		} else {
			ask()
		}
	}
	others.Wait()
	l.failure = errors.Join(failures...)
	happened := events[:0]
	for _, ev := range events {
		if ev != nil {
			happened = append(happened, ev)
		}
	}
	return happened
}

// settleDecision makes the decision durable before anybody acts on it.
func (l *lead) settleDecision(e txn.Effect) error {
	if _, ok := e.(txn.SendResolve); !ok || l.synced || l.c.Outcome() != txn.Committed {
		return nil
	}
	p := l.node.part(l.decider)
	if p == nil {
		return fmt.Errorf("%w: %v", drive.ErrAway, l.decider)
	}
	if err := l.node.sync(p); err != nil {
		return err
	}
	l.synced = true
	return nil
}

// ask sends a command to a group. The event is nil if there is nothing to tell, and
// then the error says why if the group could not be asked.
func (l *lead) ask(ctx context.Context, c drive.Call, e txn.Effect) (txn.Event, error) {
	p := l.node.part(c.Group)
	if p == nil {
		if drive.Removed(l.node.published.Load(), c.Group) && c.Gone != nil {
			return c.Gone, nil
		}
		return nil, fmt.Errorf("%w: %v", drive.ErrAway, c.Group)
	}
	r := group.Request{Command: c.Command()}
	_, prepares := e.(txn.SendPrepare)
	if d, decides := e.(txn.SendDecide); prepares || decides && d.Commit {
		r.Gate = l.gate
	}
	_, collects := e.(txn.SendCollect)
	if collects {
		l.node.collecting.wait(ctx)
	}
	reply, err := p.Group.Try(ctx, r)
	// A decision is synced before it is acted upon, and nobody acts upon its end: if
	// that is lost, whoever opens the node finds it carried out.
	if _, decides := e.(txn.SendDecide); err == nil && reply.Err == nil && !decides && !collects {
		err = l.node.sync(p)
	}
	if err != nil {
		if prepares { // nobody can have committed it: it is enough not to go on
			return c.Event(command.Reply{Kind: command.Failed, Err: err}), nil
		}
		return nil, err
	}
	return c.Event(reply), nil
}

// sync makes what the groups of a store have answered durable: where transactions
// leave one store and enter another, a crash must not take back one half.
func (n *Node) sync(p *Part) error {
	if n.opts.Durability == wal.Always || plant.Bug("node-prepare-not-synced") {
		return nil
	}
	return p.Host.syncs.do(p.Store.Sync)
}
