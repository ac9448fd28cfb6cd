package node

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// View is the state of some stores at one moment: what was committed by then,
// transactions across stores whole or not at all. It belongs to one
// goroutine. Close it.
type View struct {
	node  *Node
	sides []side
	// judges is nil if no transaction had locked anything.
	judges *judges
}

// side is one store in a view.
type side struct {
	host   *Host
	moment Moment
	snap   *store.Snapshot // nil if the view is of the state itself
	// verdict is the last one, or what is seen if there is nothing to judge.
	verdict verdict
}

// patience is how often stores are looked at before their groups are held. A look
// takes a fraction of the millisecond in which the clocks must not move.
const patience = 10

// View returns the state of stores now.
//
// It looks without disturbing anybody. If the clocks and the ranges of the groups were
// the same before and after, it has seen one moment; if that does not work out, the
// groups stand still for a look.
func (n *Node) View(ctx context.Context, hosts ...*Host) (*View, error) {
	for {
		v, err := n.viewOnce(ctx, hosts)
		// A group that is no more does not matter, unless all are.
		gone := errors.Is(err, group.ErrClosed) || errors.Is(err, own.ErrWrongGroup)
		if !gone || n.ctx.Err() != nil {
			return v, err
		}
	}
}

func (n *Node) viewOnce(ctx context.Context, hosts []*Host) (*View, error) {
	if err := ready(ctx, hosts); err != nil {
		return nil, err
	}
	apart := len(hosts) > 1
	for attempt := 0; ; attempt++ {
		if apart { // nothing comes of a look meanwhile
			if err := n.handing.wait(ctx); err != nil {
				return nil, err
			}
		}
		var v *View
		var err error
		// Whoever hands a range over has to take his turns: no group is held until he has.
		if attempt < patience || apart && n.handing.now() {
			v, err = n.look(hosts, false)
		} else {
			v, err = n.lookStill(ctx, hosts)
		}
		if err != nil || v != nil {
			return v, err
		}
		runtime.Gosched()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// lookStill looks while the groups of the stores stand still.
func (n *Node) lookStill(ctx context.Context, hosts []*Host) (v *View, err error) {
	var groups []*group.Group
	for _, h := range hosts {
		groups = append(groups, h.groups()...)
	}
	var failed error
	err = group.Still(ctx, groups, func() { v, failed = n.look(hosts, true) })
	if v != nil && !v.within(groups) {
		v.Close() // one was opened meanwhile, and does not stand still
		v = nil
	}
	return v, errors.Join(err, failed)
}

// within tells whether the view goes by what some groups knew, and by no others.
func (v *View) within(groups []*group.Group) bool {
	for i := range v.sides {
		for _, k := range v.sides[i].moment.known {
			if !slices.Contains(groups, k.group) {
				return false
			}
		}
	}
	return true
}

// look takes the state of stores, or nil if it turns out not to be of one moment. If
// their groups are held they need not be watched.
func (n *Node) look(hosts []*Host, held bool) (*View, error) {
	handing := n.handing.mark()
	v := &View{node: n, sides: make([]side, len(hosts))}
	locked := false
	stores := make([]*store.Store, len(hosts), len(n.hosts))
	for i, h := range hosts {
		v.sides[i] = side{host: h, moment: h.Moment()}
		locked = locked || v.sides[i].moment.locked
		stores[i] = h.Store
	}
	if locked { // the decisions of all groups count
		for _, h := range n.hosts {
			if !slices.Contains(hosts, h) {
				stores = append(stores, h.Store)
			}
		}
	}
	snaps, err := store.Snapshots(stores...)
	if err != nil {
		return nil, err
	}
	for i := range v.sides {
		v.sides[i].snap, v.sides[i].verdict.from = snaps[i], snaps[i]
	}
	if locked {
		v.judges = newJudges(v.sides, snaps)
	}
	still := len(hosts) == 1 || n.handing.same(handing) // between two stores a range is nobody's for a moment
	for i := 0; i < len(hosts) && still && !held; i++ {
		still = v.sides[i].moment.stands() && (locked || v.sides[i].moment.Still())
	}
	if !still {
		v.Close()
		return nil, nil
	}
	return v, nil
}

// Close gives back what the view holds.
func (v *View) Close() {
	for i := range v.sides {
		if v.sides[i].snap != nil {
			v.sides[i].snap.Close()
		}
	}
	if v.judges != nil {
		for _, other := range v.judges.at[len(v.sides):] {
			other.Close()
		}
	}
}

// Has tells whether the view is of a store.
func (v *View) Has(h *Host) bool {
	return slices.ContainsFunc(v.sides, func(s side) bool { return s.host == h })
}

// Hosts returns the stores that the view is of.
func (v *View) Hosts() (hosts []*Host) {
	for i := range v.sides {
		hosts = append(hosts, v.sides[i].host)
	}
	return hosts
}

// Positions returns the place in the log of each store of the node that the view shows.
// It must be of all of them.
func (v *View) Positions() []wal.Position {
	at := make([]wal.Position, len(v.node.hosts))
	for i := range v.sides {
		at[slices.Index(v.node.hosts, v.sides[i].host)] = v.sides[i].snap.Position()
	}
	return at
}
