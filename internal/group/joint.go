package group

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/command"
)

// JointLog is a Log that can commit for several groups at once.
type JointLog interface {
	Log
	// CommitJoint is Commit for each part, all or none of them.
	CommitJoint(urgent bool, parts []JointPart) error
}

// JointPart is what one group commits together with others.
type JointPart struct {
	Log     Log
	Effects []byte
}

// Piece is a request to one of several groups.
type Piece struct {
	Group   *Group
	Request Request
}

// ErrNotJoint means that the groups do not share a log.
var ErrNotJoint = errors.New("group: the groups have no log in common")

// Joint executes requests of several groups as one: all of them, at one moment,
// or none. The groups share a log, and each has at most one request. If one fails,
// its reply tells why, and the others have changed nothing. At most one has an ID,
// which stands for all: if it was executed before, nothing is now, and the replies of
// the others are empty.
func Joint(ctx context.Context, pieces []Piece) ([]command.Reply, error) {
	for _, p := range pieces {
		if err := p.Group.slow.hold(ctx, p.Request.Key); err != nil {
			return nil, err
		}
	}
	w := new(waiter)
	defer w.leave()
	for {
		replies, err := TryJoint(ctx, pieces)
		met := slices.IndexFunc(replies, func(r command.Reply) bool { return passes(r.Err) })
		if err != nil || met < 0 {
			return replies, err
		}
		if again, err := w.wait(ctx, pieces[met], replies[met].Err); err != nil {
			return nil, err
		} else if !again {
			return replies, nil
		}
		pieces = slices.Clone(pieces) // those before are the caller's, or others'
		for i := range pieces {
			pieces[i].Request.Turn = w.turn
		}
	}
}

// TryJoint is Joint without the wait for locks and ranges that are given away.
func TryJoint(ctx context.Context, pieces []Piece) ([]command.Reply, error) {
	c := &jointCall{pieces: pieces, replies: make([]command.Reply, len(pieces))}
	if j := pieces[0].Group.opts.Joints; j != nil {
		return j.do(ctx, c)
	}
	doJoint(ctx, []*jointCall{c})
	return c.replies, c.err
}

// Still calls f while no batch of any of the groups is on its way.
func Still(ctx context.Context, groups []*Group, f func()) error {
	if len(groups) == 0 { // of a store that has none left
		f()
		return nil
	}
	if err := actor.DoAll(ctx, actorsOf(groups), func([]*executor) { f() }); err != nil {
		return refusedBy(groups, err)
	}
	return nil
}
