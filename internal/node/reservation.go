package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// Reserve asks for a place in the queues of the groups that have what a transaction
// needs, and returns when it has all of it: from then on no other begins to change
// it. The transaction is committed under the id. Call release when it is over.
//
// A reservation is a courtesy that keeps transactions that were turned away too often from
// starving. It ends with the deadline of the transaction, which is put off while it waits, and
// nothing depends on it but which transaction comes first.
func (n *Node) Reserve(ctx context.Context, spans []txn.ReservedSpan) (id txn.ID, release func(), err error) {
	m := n.published.Load()
	byGroup := map[partition.GroupID][]txn.ReservedSpan{}
	for _, c := range spans {
		for _, p := range protocol.SplitByGroup(m, c.Span) {
			c.Span = p.Span
			byGroup[p.Group] = append(byGroup[p.Group], c)
		}
	}
	t := &reservation{node: n, id: n.newTxnID(), spans: byGroup, renewedMS: n.WallMS()}
	// In one order for all, so that they never wait in a circle.
	for _, g := range slices.Sorted(maps.Keys(byGroup)) {
		p := n.lookupGroup(g)
		if p == nil {
			err = ownership.ErrWrongGroup
			break
		}
		t.groups = append(t.groups, p)
		if err = t.reserveGroup(ctx, p); err != nil {
			break
		}
	}
	for _, p := range t.groups {
		if err == nil {
			err = t.waitForLocks(ctx, p)
		}
	}
	if err == nil {
		err = t.maybeRenew(ctx)
	}
	release = func() {
		if ctx.Err() != nil { // a caller that leaves early does not wait for groups that stand still
			n.runBackground(t.release)
			return
		}
		t.release()
	}
	if err != nil {
		release()
		return txn.ID{}, nil, err
	}
	return t.id, release, nil
}

// reservation is the place of a transaction in the queues of its groups.
type reservation struct {
	node      *Node
	id        txn.ID
	spans     map[partition.GroupID][]txn.ReservedSpan
	groups    []*GroupHost // so far
	renewedMS int64        // when all of them were asked last, or later
}

// renewIntervalMS is how often a waiting transaction renews its reservations, to show that it
// has not died.
const renewIntervalMS = txnTimeoutMS / 10

// tryReserve asks a group for its place, or again, which keeps it.
func (t *reservation) tryReserve(ctx context.Context, p *GroupHost) (held bool, err error) {
	reply, err := p.tryRequest(ctx, group.Request{Command: &txn.Reserve{ID: t.id, Spans: t.spans[p.ID], DeadlineMS: t.node.computeDeadlineMS()}})
	if err != nil {
		return false, group.AsReadError(ctx, err)
	}
	if reply.Err != nil && !errors.Is(reply.Err, ownership.ErrFrozen) {
		return false, reply.Err
	}
	return txn.IsReserved(reply), nil
}

// maybeRenew keeps the places of a transaction that has waited for long. The usual one has
// not, and it costs nothing.
func (t *reservation) maybeRenew(ctx context.Context) error {
	now := t.node.WallMS()
	if now-t.renewedMS < renewIntervalMS {
		return nil
	}
	t.renewedMS = now
	for _, p := range t.groups {
		if _, err := t.tryReserve(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// reserveGroup asks one group until everything is held.
func (t *reservation) reserveGroup(ctx context.Context, p *GroupHost) error {
	for wait := 0; ; wait++ {
		changed := p.Group.Changed()
		if held, err := t.tryReserve(ctx, p); held || err != nil {
			return err
		}
		if err := t.waitAndRenew(ctx, changed, wait); err != nil {
			return err
		}
	}
}

// waitForLocks waits for transactions that had locked something before it was held: they would
// change what is read now. They do not end once the node is closed, or their store has failed,
// or, past their deadline, that of their coordinator group. Otherwise they end by their deadline: for
// longer the reservation keeps no place.
func (t *reservation) waitForLocks(ctx context.Context, p *GroupHost) error {
	spans := t.spans[p.ID]
	for wait := 0; ; wait++ {
		changed := p.Group.Changed()
		locks := p.Group.ListLocks()
		met := slices.IndexFunc(locks, func(l txn.Lock) bool {
			return slices.ContainsFunc(spans, func(c txn.ReservedSpan) bool { return (c.Write || l.Write) && c.Span.Overlaps(l.Span()) })
		})
		if met < 0 {
			return nil
		}
		if err := t.node.CheckOpen(); err != nil {
			return err
		}
		coordinatorGroup, over := t.node.lookupGroup(locks[met].CoordinatorGroup), t.node.NowMS() > locks[met].DeadlineMS
		if p.hasFailed() || over && coordinatorGroup != nil && coordinatorGroup.hasFailed() {
			return store.ErrFailed
		}
		if err := waitContext(ctx, changed, retryDelay<<min(wait, 6)); err != nil {
			return err
		}
	}
}

// waitAndRenew waits for a change, for longer and longer, and keeps what it has meanwhile.
func (t *reservation) waitAndRenew(ctx context.Context, changed <-chan struct{}, wait int) error {
	if err := waitContext(ctx, changed, retryDelay<<min(wait, 6)); err != nil {
		return err
	}
	return t.maybeRenew(ctx)
}

// release gives up all places. A queue that is full now has room in a while; others would
// wait for the deadline if it were left at that.
func (t *reservation) release() {
	for _, p := range t.groups {
		if t.releaseGroup(p) {
			continue
		}
		t.node.runBackground(func() {
			for sleepContext(t.node.ctx, retryDelay) == nil && !t.releaseGroup(p) {
			}
		})
	}
}

// releaseGroup gives up the place in one group. It is false if that has to be tried again.
func (t *reservation) releaseGroup(p *GroupHost) bool {
	_, err := p.Group.Execute(t.node.ctx, group.Request{NoWait: true, Command: &txn.Release{ID: t.id}})
	return !errors.Is(err, group.ErrOverloaded)
}
