package cleave

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
)

// piece is what a write of several keys does in one group.
type piece struct {
	part    *node.Part
	at      place // its first key
	request group.Request
}

// together executes pieces of one store as one, whatever their number. cut is called
// for each attempt: which groups have the keys may have changed. The reply that
// failed is handed to judge with its piece; without one, all of them succeeded. If
// they are on several stores the error is errApart.
func (db *DB) together(ctx context.Context, cut func() []piece, judge func(i int, err error) error) ([]command.Reply, error) {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		pieces := cut()
		if !oneHost(pieces) {
			return nil, errApart
		}
		db.count(len(pieces))
		replies, err := atOnce(ctx, pieces)
		for i := range replies {
			if err == nil && replies[i].Err != nil {
				err = replies[i].Err
				if !errors.Is(err, own.ErrWrongGroup) {
					return replies, judge(i, err)
				}
			}
		}
		if !errors.Is(err, own.ErrWrongGroup) {
			return replies, err
		}
		if err := db.node.Reroute(ctx, version, attempt); err != nil {
			return nil, err
		}
	}
}

// errApart means that keys are on several stores, so that it takes two phases.
var errApart = errors.New("cleave: the keys are on several stores")

// oneHost tells whether all pieces are on one store.
func oneHost(pieces []piece) bool {
	return !slices.ContainsFunc(pieces, func(p piece) bool { return p.part.Host != pieces[0].part.Host })
}

// atOnce executes pieces of one store once.
func atOnce(ctx context.Context, pieces []piece) ([]command.Reply, error) {
	if len(pieces) == 1 {
		reply, err := pieces[0].part.Group.Do(ctx, pieces[0].request)
		return []command.Reply{reply}, err
	}
	joint := make([]group.Piece, len(pieces))
	for i, p := range pieces {
		joint[i] = group.Piece{Group: p.part.Group, Request: p.request}
	}
	return group.Joint(ctx, joint)
}

// count counts a transaction by how many groups of one store commit it.
func (db *DB) count(groups int) {
	if groups == 1 {
		db.node.Count.OneGroup.Add(1)
	} else {
		db.node.Count.Joint.Add(1)
	}
}

// guess tells whether the next transaction is likely to need several stores, by those
// before it. It may be wrong: who takes the state of one store too many has done some
// work in vain, and so has who looks again at all that he has read when he comes to the
// second store.
type guess struct{ n atomic.Int32 }

// How sure a guess gets, and how many stores are looked at because of one.
const (
	apartMost   = 8
	apartStores = 4
)

// note notes whether a transaction needed several stores.
func (g *guess) note(needed bool) {
	n := g.n.Load()
	switch {
	case needed && n < apartMost:
		g.n.Store(n + 1) // others may have noted theirs meanwhile: it is a guess
	case !needed && n > 0:
		g.n.Store(n - 1)
	}
}

func (g *guess) expected(n *node.Node) bool {
	return g.n.Load() > apartMost/2 && len(n.Hosts()) <= apartStores
}

// passes tells whether what a transaction has met is no fault of its own, and passes:
// others that are under way, or a shard on its way to another group.
func passes(err error) bool {
	return err != nil && (errors.Is(err, own.ErrWrongGroup) || errors.Is(err, node.ErrIndexes) || errors.Is(err, txn.ErrLocked) || errors.Is(err, txn.ErrHeld) ||
		errors.Is(err, txn.ErrDeadline) || errors.Is(err, txn.ErrFinished))
}
