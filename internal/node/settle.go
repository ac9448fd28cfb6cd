package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// background runs f unless the node is closed, which waits for it.
func (n *Node) background(f func()) {
	n.tasks.Lock()
	defer n.tasks.Unlock()
	if n.ctx.Err() == nil {
		n.done.Go(f)
	}
}

// settleLock ends the transaction of a lock that is in the way, if it is decided. The error is
// nil, or store.ErrFailed: then the lock stays.
func (n *Node) settleLock(ctx context.Context, l txn.Lock) error {
	// Until its deadline somebody may lead it, who is refused by the decider, and aborts it.
	if err := n.end(ctx, l, drive.Inquire(l)); hasFailed(err) && n.NowMS() > l.DeadlineMS {
		return fmt.Errorf("%w: %v", store.ErrFailed, err) // who waits for the lock is in no doubt
	}
	return nil
}

// abandon ends the transaction of a lock that nobody leads any more.
func (n *Node) abandon(ctx context.Context, l txn.Lock) error {
	return n.end(ctx, l, &txn.Decide{ID: l.Txn, Decider: l.Decider, DeadlineMS: l.DeadlineMS})
}

// end asks the decider of a lock, and does what it says where the lock is.
func (n *Node) end(ctx context.Context, l txn.Lock, question command.Command) error {
	o, err := n.outcome(ctx, l.Decider, question)
	if err != nil || o == txn.Undecided {
		return err
	}
	id, resolve := drive.Settle(l, o, n.published.Load())
	owner := n.part(id)
	if owner == nil {
		return drive.ErrAway
	}
	reply, err := owner.Group.Try(ctx, group.Request{Command: resolve})
	return errors.Join(err, reply.Err)
}

// outcome asks a decider. What it says would survive a crash.
func (n *Node) outcome(ctx context.Context, decider partition.GroupID, question command.Command) (txn.Outcome, error) {
	p := n.part(decider)
	if p == nil {
		if drive.Removed(n.published.Load(), decider) {
			return txn.Aborted, nil
		}
		return txn.Undecided, drive.ErrAway
	}
	reply, err := p.Group.Try(ctx, group.Request{Command: question})
	switch {
	case err != nil:
		return txn.Undecided, err
	case errors.Is(reply.Err, txn.ErrForgotten):
		return txn.Aborted, nil // a committed one is remembered as long as there is a lock
	case reply.Err != nil:
		return txn.Undecided, reply.Err
	}
	return txn.OutcomeOf(reply), n.sync(p)
}

// tendTransactions ends transactions of a group that nobody looks after.
func (n *Node) tendTransactions(ctx context.Context, p *Part) {
	for _, l := range p.Group.Overdue() {
		_ = n.settleLock(ctx, l) // it is looked at again
	}
}

// firstLocks returns one lock of each transaction in each shard of a group: whoever
// ends it there ends them all.
func (n *Node) firstLocks(p *Part) []txn.Lock {
	type part struct {
		txn   txn.ID
		shard partition.ShardID
	}
	seen := map[part]bool{}
	return slices.DeleteFunc(p.Group.Locks(), func(l txn.Lock) bool {
		at := part{l.Txn, n.published.Load().Find(l.At()).ID}
		defer func() { seen[at] = true }()
		return seen[at]
	})
}

// recover ends the transactions that were under way when the node was last closed:
// whoever led them is gone. What cannot be done now is done later: a range that is
// being given away keeps its locks until it has come.
func (n *Node) recover(ctx context.Context) error {
	for _, p := range n.Parts() {
		for _, l := range n.firstLocks(p) {
			if n.abandon(ctx, l) != nil {
				n.abandonLater(l)
			}
		}
	}
	for _, p := range n.Parts() {
		var found []txn.Decision
		err := txn.Decisions(p.Store, p.ID, func(d txn.Decision) bool {
			if len(d.Spans) > 0 {
				found = append(found, d)
			}
			return true
		})
		if err != nil {
			return err
		}
		for _, d := range found {
			n.Count.Open.Add(1)
			l := &lead{node: n, decider: p.ID}
			var effects []txn.Effect
			l.c, effects = txn.Resume(d, p.ID)
			l.finishLater(effects)
		}
	}
	return nil
}

// abandonLater is abandon until that succeeds, or the node is closed. It does no harm
// if somebody else was faster.
func (n *Node) abandonLater(l txn.Lock) {
	n.Count.Open.Add(1)
	n.background(func() {
		defer n.Count.Open.Add(-1)
		for wait := askAgain; sleep(n.ctx, wait) == nil && n.abandon(n.ctx, l) != nil; {
			wait = min(2*wait, time.Second)
		}
	})
}

// settleSpan waits until no transaction has locked anything in a span, or one stays. Nobody
// locks anything there any more.
func (n *Node) settleSpan(ctx context.Context, s partition.Span) error {
	for {
		some := false
		for _, p := range n.Parts() {
			for _, l := range p.Group.Locks() {
				if s.Contains(l.Start) {
					some = true
					if err := n.settleLock(ctx, l); err != nil {
						return err
					}
				}
			}
		}
		if !some {
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// SettleDecided returns when the rows, and so the feed, have all that was acknowledged
// before the call. A transaction across stores is acknowledged when it is decided, and
// carried out a moment later. Nobody waits for those that are undecided.
func (n *Node) SettleDecided(ctx context.Context) error {
	if plant.Bug("node-decided-not-settled") {
		return nil
	}
	for wait := askAgain; ; wait = min(2*wait, time.Second) {
		if err := n.Closed(); err != nil {
			return err
		}
		done, err := n.settleOnce(ctx)
		if done || hasFailed(err) { // one that failed does nothing any more
			return err
		}
		if ended := sleep(ctx, wait); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// settleOnce looks at all groups, and ends what is decided. It has failed, too, if a
// range has changed hands meanwhile: its locks may have gone where it had looked before.
func (n *Node) settleOnce(ctx context.Context) (bool, error) {
	handing, parts, m := n.handing.mark(), n.Parts(), n.published.Load()
	lists := make([]*own.List, len(parts))
	for i, p := range parts {
		lists[i] = p.Group.List()
	}
	var failed error
	for _, p := range parts {
		for _, l := range n.firstLocks(p) {
			failed = errors.Join(failed, n.end(ctx, l, drive.Inquire(l)))
		}
	}
	// By another map whoever ends one lock of a shard may have left others that were in it.
	still := n.handing.same(handing) && n.published.Load() == m
	for i, p := range parts {
		still = still && !p.Group.Reowning() && p.Group.List() == lists[i]
	}
	return still && failed == nil, failed
}
