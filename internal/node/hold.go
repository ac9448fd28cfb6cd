package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Hold asks for a place in the queues of the groups that have what a transaction
// needs, and returns when it has all of it: from then on no other begins to change
// it. The transaction is committed under the id. Call release when it is over.
//
// A hold is a courtesy that keeps those who were turned away too often from starving.
// It ends with the deadline of the transaction, and nothing depends on it but who
// comes first.
func (n *Node) Hold(ctx context.Context, claims []txn.Claim) (id txn.ID, release func(), err error) {
	m := n.published.Load()
	byGroup := map[partition.GroupID][]txn.Claim{}
	for _, c := range claims {
		for _, p := range drive.Pieces(m, c.Span) {
			byGroup[p.Group] = append(byGroup[p.Group], txn.Claim{Span: p.Span, Write: c.Write})
		}
	}
	id = n.newID()
	deadline := n.deadlineMS()
	var asked []*Part
	release = func() {
		for _, p := range asked {
			_, _ = p.Group.Try(n.ctx, group.Request{Command: &txn.Unhold{ID: id}})
		}
	}
	// In one order for all, so that nobody waits in a circle.
	for _, g := range slices.Sorted(maps.Keys(byGroup)) {
		p := n.part(g)
		if p == nil {
			err = own.ErrWrongGroup
			break
		}
		asked = append(asked, p)
		if err = hold(ctx, p, &txn.Hold{ID: id, Claims: byGroup[g], DeadlineMS: deadline}); err != nil {
			break
		}
	}
	for _, p := range asked {
		if err == nil {
			err = n.untilFree(ctx, p, byGroup[p.ID])
		}
	}
	if err != nil {
		release()
		return txn.ID{}, nil, err
	}
	return id, release, nil
}

// hold asks one group until everything is held.
func hold(ctx context.Context, p *Part, c *txn.Hold) error {
	for wait := 0; ; wait++ {
		changed := p.Group.Changed()
		again := *c
		reply, err := p.Group.Try(ctx, group.Request{Command: &again})
		switch {
		case err != nil:
			return group.Untouched(ctx, err)
		case reply.Err != nil && !errors.Is(reply.Err, own.ErrFrozen):
			return reply.Err
		case txn.HeldBy(reply):
			return nil
		}
		if err := await(ctx, changed, askAgain<<min(wait, 6)); err != nil {
			return err
		}
	}
}

// untilFree waits for transactions that had locked something before it was held: they
// would change what is read now. Nobody ends them once the node is closed.
func (n *Node) untilFree(ctx context.Context, p *Part, claims []txn.Claim) error {
	for wait := 0; ; wait++ {
		changed := p.Group.Changed()
		if !slices.ContainsFunc(p.Group.Locks(), func(l txn.Lock) bool {
			return slices.ContainsFunc(claims, func(c txn.Claim) bool { return (c.Write || l.Write) && c.Span.Overlaps(l.Span()) })
		}) {
			return nil
		}
		if err := n.Closed(); err != nil {
			return err
		}
		if err := await(ctx, changed, askAgain<<min(wait, 6)); err != nil {
			return err
		}
	}
}
