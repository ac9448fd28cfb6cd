package group

import "context"

// Retire closes a group that owns nothing and never will again. Whoever still has hold
// of it is not told that it is closed, but to look elsewhere: own.ErrWrongGroup.
func (g *Group) Retire(ctx context.Context) error {
	g.retired.Store(true)
	return g.Close(ctx)
}

// refusedBy gives an error of the mailboxes of several groups our words. If one of them
// is retired, it may be that which has refused, and another attempt finds out.
func refusedBy(groups []*Group, err error) error {
	for _, g := range groups {
		if g.retired.Load() {
			return g.refused(err)
		}
	}
	return groups[0].refused(err)
}

// refused is refusedBy for the groups of a joint request.
func (c *jointCall) refused(err error) error {
	groups := make([]*Group, len(c.pieces))
	for i := range c.pieces {
		groups[i] = c.pieces[i].Group
	}
	return refusedBy(groups, err)
}
