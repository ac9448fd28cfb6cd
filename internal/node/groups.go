package node

import (
	"context"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// hostGroups opens groups that the map has and the node has not.
func (n *Node) hostGroups(ctx context.Context, ids []partition.GroupID) error {
	m, err := n.newestMap(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		g, ok := m.Group(id)
		if !ok || n.part(id) != nil {
			continue // it is there, or was removed since
		}
		if err := n.openGroup(g); err != nil {
			return err
		}
		n.attend(n.part(id))
	}
	return nil
}

// attend begins the housekeeping of a group.
func (n *Node) attend(p *Part) {
	ctx, stop := context.WithCancel(n.ctx)
	p.stop = stop
	if n.opts.TendEvery > 0 {
		n.background(func() { n.tend(ctx, p) })
	}
}

// dismissGroups forgets groups that the map does not have any more. They own
// nothing, so whoever still has hold of one is told to look elsewhere. They are closed
// beside what goes on, and not opened again.
func (n *Node) dismissGroups(ids []partition.GroupID) {
	for _, id := range ids {
		p := n.part(id)
		if p == nil {
			continue
		}
		p.stop()
		n.dismiss(p)
		n.background(func() { n.retire(p) })
	}
}

// retire closes a group that was dismissed. If the node is closed first, that goes on
// with it.
func (n *Node) retire(p *Part) {
	if err := p.Group.Retire(n.ctx); err != nil {
		return
	}
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	n.dismissed = slices.DeleteFunc(n.dismissed, func(x *Part) bool { return x == p })
}
