package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Hold asks for a place in the queues of the groups that have what a transaction
// needs, and returns when it has all of it: from then on no other begins to change
// it. The transaction is committed under the id. Call release when it is over.
//
// A hold is a courtesy that keeps those who were turned away too often from starving.
// It ends with the deadline of the transaction, which is put off while it waits, and
// nothing depends on it but who comes first.
func (n *Node) Hold(ctx context.Context, claims []txn.Claim) (id txn.ID, release func(), err error) {
	m := n.published.Load()
	byGroup := map[partition.GroupID][]txn.Claim{}
	for _, c := range claims {
		for _, p := range drive.Pieces(m, c.Span) {
			c.Span = p.Span
			byGroup[p.Group] = append(byGroup[p.Group], c)
		}
	}
	t := &turn{node: n, id: n.newID(), claims: byGroup, renewedMS: n.WallMS()}
	// In one order for all, so that nobody waits in a circle.
	for _, g := range slices.Sorted(maps.Keys(byGroup)) {
		p := n.part(g)
		if p == nil {
			err = own.ErrWrongGroup
			break
		}
		t.asked = append(t.asked, p)
		if err = t.hold(ctx, p); err != nil {
			break
		}
	}
	for _, p := range t.asked {
		if err == nil {
			err = t.untilFree(ctx, p)
		}
	}
	if err == nil {
		err = t.renew(ctx)
	}
	release = func() {
		if ctx.Err() != nil { // who leaves early does not wait for groups that stand still
			n.background(t.release)
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

// turn is the place of a transaction in the queues of its groups.
type turn struct {
	node      *Node
	id        txn.ID
	claims    map[partition.GroupID][]txn.Claim
	asked     []*Part // so far
	renewedMS int64   // when all of them were asked last, or later
}

// renewEveryMS is how often a transaction that waits tells those whom it has asked that
// it has not died.
const renewEveryMS = transactionMS / 10

// ask asks a group for its place, or again, which keeps it.
func (t *turn) ask(ctx context.Context, p *Part) (held bool, err error) {
	reply, err := p.try(ctx, group.Request{Command: &txn.Hold{ID: t.id, Claims: t.claims[p.ID], DeadlineMS: t.node.deadlineMS()}})
	if err != nil {
		return false, group.Untouched(ctx, err)
	}
	if reply.Err != nil && !errors.Is(reply.Err, own.ErrFrozen) {
		return false, reply.Err
	}
	return txn.HeldBy(reply), nil
}

// renew keeps the places of a transaction that has waited for long. The usual one has
// not, and it costs nothing.
func (t *turn) renew(ctx context.Context) error {
	now := t.node.WallMS()
	if now-t.renewedMS < renewEveryMS {
		return nil
	}
	t.renewedMS = now
	for _, p := range t.asked {
		if _, err := t.ask(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// hold asks one group until everything is held.
func (t *turn) hold(ctx context.Context, p *Part) error {
	for wait := 0; ; wait++ {
		changed := p.Group.Changed()
		if held, err := t.ask(ctx, p); held || err != nil {
			return err
		}
		if err := t.await(ctx, changed, wait); err != nil {
			return err
		}
	}
}

// untilFree waits for transactions that had locked something before it was held: they
// would change what is read now. Nobody ends them once the node is closed, or their store has
// failed, or, past their deadline, that of their decider. Otherwise they end by their deadline:
// for longer it keeps no place.
func (t *turn) untilFree(ctx context.Context, p *Part) error {
	claims := t.claims[p.ID]
	for wait := 0; ; wait++ {
		changed := p.Group.Changed()
		locks := p.Group.Locks()
		met := slices.IndexFunc(locks, func(l txn.Lock) bool {
			return slices.ContainsFunc(claims, func(c txn.Claim) bool { return (c.Write || l.Write) && c.Span.Overlaps(l.Span()) })
		})
		if met < 0 {
			return nil
		}
		if err := t.node.Closed(); err != nil {
			return err
		}
		decider, over := t.node.part(locks[met].Decider), t.node.NowMS() > locks[met].DeadlineMS
		if p.failed() || over && decider != nil && decider.failed() {
			return store.ErrFailed
		}
		if err := await(ctx, changed, askAgain<<min(wait, 6)); err != nil {
			return err
		}
	}
}

// await waits for a change, for longer and longer, and keeps what it has meanwhile.
func (t *turn) await(ctx context.Context, changed <-chan struct{}, wait int) error {
	if err := await(ctx, changed, askAgain<<min(wait, 6)); err != nil {
		return err
	}
	return t.renew(ctx)
}

// release gives up all places. A queue that is full now has room in a while; others would
// wait for the deadline if it were left at that.
func (t *turn) release() {
	for _, p := range t.asked {
		if t.leave(p) {
			continue
		}
		t.node.background(func() {
			for sleep(t.node.ctx, askAgain) == nil && !t.leave(p) {
			}
		})
	}
}

// leave gives up the place in one group. It is false if that has to be tried again.
func (t *turn) leave(p *Part) bool {
	_, err := p.Group.Try(t.node.ctx, group.Request{Command: &txn.Unhold{ID: t.id}})
	return !errors.Is(err, group.ErrOverloaded)
}
