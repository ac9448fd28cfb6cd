package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// runBackground runs f unless the node is closed, which waits for it.
func (n *Node) runBackground(f func()) {
	n.tasksMu.Lock()
	defer n.tasksMu.Unlock()
	if n.ctx.Err() == nil {
		n.taskGroup.Go(f)
	}
}

// resolveIfDecided ends the transaction of a lock that is in the way, if it is decided. The
// error is nil, or store.ErrFailed: then the lock stays.
func (n *Node) resolveIfDecided(ctx context.Context, l txn.Lock) error {
	// Until its deadline a coordinator may lead it, which is refused by the coordinator group, and aborts
	// it.
	if err := n.resolveLock(ctx, l, protocol.NewOutcomeQuery(l)); isPermanentFailure(err) && n.NowMS() > l.DeadlineMS {
		return fmt.Errorf("%w: %v", store.ErrFailed, err) // a waiter for the lock is in no doubt
	}
	return nil
}

// resolveAbandoned ends the transaction of a lock that no coordinator leads any more.
func (n *Node) resolveAbandoned(ctx context.Context, l txn.Lock) error {
	return n.resolveLock(ctx, l, &txn.Decide{ID: l.Txn, CoordinatorGroup: l.CoordinatorGroup, DeadlineMS: l.DeadlineMS})
}

// resolveLock asks the coordinator group of a lock, and applies the outcome where the lock is.
func (n *Node) resolveLock(ctx context.Context, l txn.Lock, question command.Command) error {
	o, err := n.fetchOutcome(ctx, l.CoordinatorGroup, question)
	if err != nil || o == txn.Undecided {
		return err
	}
	id, resolve := protocol.NewResolve(l, o, n.published.Load())
	owner := n.lookupGroup(id)
	if owner == nil {
		return protocol.ErrGroupNotOpen
	}
	reply, err := owner.Group.Execute(ctx, group.Request{NoWait: true, Command: resolve})
	return errors.Join(err, reply.Err)
}

// fetchOutcome asks a coordinator group. Its answer would survive a crash.
func (n *Node) fetchOutcome(ctx context.Context, coordinatorGroup partition.GroupID, question command.Command) (txn.Outcome, error) {
	p := n.lookupGroup(coordinatorGroup)
	if p == nil {
		if protocol.IsGroupRemoved(n.published.Load(), coordinatorGroup) {
			return txn.Aborted, nil
		}
		return txn.Undecided, protocol.ErrGroupNotOpen
	}
	reply, err := p.Group.Execute(ctx, group.Request{NoWait: true, Command: question})
	switch {
	case err != nil:
		return txn.Undecided, err
	case errors.Is(reply.Err, txn.ErrForgotten):
		return txn.Aborted, nil // a committed one is remembered as long as there is a lock
	case reply.Err != nil:
		return txn.Undecided, reply.Err
	}
	return txn.ParseOutcome(reply), n.syncStore(p)
}

// resolveOverdue ends transactions of a group that no coordinator leads.
func (n *Node) resolveOverdue(ctx context.Context, p *GroupHost) {
	for _, l := range p.Group.ListOverdueLocks() {
		_ = n.resolveIfDecided(ctx, l) // it is tried again
	}
}

// firstLocks returns one lock of each transaction in each shard of a group: a resolve there
// resolves all of the transaction's locks in the shard.
func (n *Node) firstLocks(p *GroupHost) []txn.Lock {
	type part struct {
		txn   txn.ID
		shard partition.ShardID
	}
	seen := map[part]bool{}
	return slices.DeleteFunc(p.Group.ListLocks(), func(l txn.Lock) bool {
		at := part{l.Txn, n.published.Load().Find(l.RecordPosition()).ID}
		defer func() { seen[at] = true }()
		return seen[at]
	})
}

// recoverTransactions ends the transactions that were under way when the node was last closed:
// their coordinators are gone. What cannot be done now is done later: a range that is being
// given away keeps its locks until it has arrived.
func (n *Node) recoverTransactions(ctx context.Context) error {
	for _, p := range n.GroupHosts() {
		for _, l := range n.firstLocks(p) {
			if n.resolveAbandoned(ctx, l) != nil {
				n.resolveAbandonedLater(l)
			}
		}
	}
	for _, p := range n.GroupHosts() {
		var found []txn.Decision
		err := txn.ScanDecisions(p.Store, p.ID, func(d txn.Decision) bool {
			if len(d.Spans) > 0 {
				found = append(found, d)
			}
			return true
		})
		if err != nil {
			return err
		}
		for _, d := range found {
			n.Counters.Open.Add(1)
			l := &txnDriver{node: n, coordinatorGroup: p.ID}
			var effects []txn.Effect
			l.coordinator, effects = txn.ResumeCoordinator(d, p.ID)
			l.finishLater(effects)
		}
	}
	return nil
}

// resolveAbandonedLater is resolveAbandoned until that succeeds, or the node is closed. It does
// no harm if another goroutine was faster.
func (n *Node) resolveAbandonedLater(l txn.Lock) {
	n.Counters.Open.Add(1)
	n.runBackground(func() {
		defer n.Counters.Open.Add(-1)
		for wait := retryDelay; sleepContext(n.ctx, wait) == nil && n.resolveAbandoned(n.ctx, l) != nil; {
			wait = min(2*wait, time.Second)
		}
	})
}

// waitForUnlockedSpan waits until no transaction has locked anything in a span, or one stays. No
// new locks are taken there.
func (n *Node) waitForUnlockedSpan(ctx context.Context, s partition.Span) error {
	for {
		some := false
		for _, p := range n.GroupHosts() {
			for _, l := range p.Group.ListLocks() {
				if s.Contains(l.Start) {
					some = true
					if err := n.resolveIfDecided(ctx, l); err != nil {
						return err
					}
				}
			}
		}
		if !some {
			return nil
		}
		if err := sleepContext(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// ResolveDecided returns when the rows, and so the feed, have all that was acknowledged before
// the call. A transaction across stores is acknowledged when it is decided, and carried out a
// moment later. ResolveDecided does not wait for undecided transactions.
func (n *Node) ResolveDecided(ctx context.Context) error {
	for wait := retryDelay; ; wait = min(2*wait, time.Second) {
		if err := n.CheckOpen(); err != nil {
			return err
		}
		done, err := n.tryResolveDecided(ctx)
		if done || isPermanentFailure(err) { // one that failed does nothing any more
			return err
		}
		if ended := sleepContext(ctx, wait); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// tryResolveDecided checks all groups, and ends what is decided. It has failed, too, if a
// range has changed hands meanwhile: its locks may have gone where it had looked before.
func (n *Node) tryResolveDecided(ctx context.Context) (bool, error) {
	handing, parts, m := n.handovers.changeCount(), n.GroupHosts(), n.published.Load()
	lists := make([]*ownership.Table, len(parts))
	for i, p := range parts {
		lists[i] = p.Group.OwnershipTable()
	}
	var failed error
	for _, p := range parts {
		for _, l := range n.firstLocks(p) {
			failed = errors.Join(failed, n.resolveLock(ctx, l, protocol.NewOutcomeQuery(l)))
		}
	}
	// By another map, a resolve of one lock of a shard may have left others that were in it.
	still := n.handovers.isUnchangedSince(handing) && n.published.Load() == m
	for i, p := range parts {
		still = still && !p.Group.IsChangingOwnership() && p.Group.OwnershipTable() == lists[i]
	}
	return still && failed == nil, failed
}
