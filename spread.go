package cleave

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
)

// piece is what a write of several keys does in one group.
type piece struct {
	part    *node.Part
	at      place // its first key
	request group.Request
}

// together executes pieces as one, whatever their number. make is called for each
// attempt: which groups have the keys may have changed. The reply that failed is
// handed to judge with its piece; without one, all of them succeeded.
func (db *DB) together(ctx context.Context, make func() []piece, judge func(i int, err error) error) ([]command.Reply, error) {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		pieces := make()
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

// atOnce executes pieces once.
func atOnce(ctx context.Context, pieces []piece) ([]command.Reply, error) {
	if len(pieces) == 1 {
		reply, err := pieces[0].part.Group.Do(ctx, pieces[0].request)
		return []command.Reply{reply}, err
	}
	joint := make([]group.Piece, len(pieces))
	for i, p := range pieces {
		if p.part.Host != pieces[0].part.Host {
			return nil, crossGroup(pieces[0].at, p.at)
		}
		joint[i] = group.Piece{Group: p.part.Group, Request: p.request}
	}
	return group.Joint(ctx, joint)
}
