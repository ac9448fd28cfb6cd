package group

import (
	"context"
	"errors"
	"fmt"
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
	for parked := 0; ; parked++ {
		replies, err := TryJoint(ctx, pieces)
		i := slices.IndexFunc(replies, func(r command.Reply) bool { return r.Err != nil && passes(r.Err) })
		if err != nil || i < 0 {
			return replies, err
		}
		if err := pieces[i].Group.park(ctx, replies[i].Err, parked); err != nil {
			return nil, err
		}
	}
}

// TryJoint is Joint without the wait for locks and ranges that are given away.
func TryJoint(ctx context.Context, pieces []Piece) ([]command.Reply, error) {
	actors := make([]*actor.Actor[executor, *call, error], len(pieces))
	for i, p := range pieces {
		actors[i] = p.Group.actor
	}
	j := joint{pieces: pieces, replies: make([]command.Reply, len(pieces))}
	if err := actor.DoAll(ctx, actors, j.run); err != nil {
		return nil, pieces[0].Group.refused(err)
	}
	return j.replies, j.err
}

// Still calls f while no batch of any of the groups is on its way.
func Still(ctx context.Context, groups []*Group, f func()) error {
	if len(groups) == 0 { // of a store that has none left
		f()
		return nil
	}
	actors := make([]*actor.Actor[executor, *call, error], len(groups))
	for i, g := range groups {
		actors[i] = g.actor
	}
	if err := actor.DoAll(ctx, actors, func([]*executor) { f() }); err != nil {
		return groups[0].refused(err)
	}
	return nil
}

// joint is a batch of several groups.
type joint struct {
	pieces  []Piece
	states  []*executor
	replies []command.Reply
	err     error
}

// run evaluates every part, and commits them in one entry of the log each, in one
// frame. The clocks stand still until all of it is visible, as in a batch of one.
func (j *joint) run(states []*executor) {
	j.states = states
	for i, x := range states {
		if j.err = x.dead; j.err == nil {
			j.err = x.reserve()
		}
		if j.err == nil {
			j.err = x.admit(&call{Request: j.pieces[i].Request})
		}
		if j.err != nil {
			return
		}
	}
	order := make([]int, len(states))
	for i := range order {
		order[i] = i
	}
	// The one with an ID comes first: it may turn out that nothing is left to do.
	if i := slices.IndexFunc(j.pieces, func(p Piece) bool { return p.Request.ID != RequestID{} }); i > 0 {
		order[0], order[i] = i, 0
	}
	evaluated, ok := 0, true
	for ; evaluated < len(order) && ok; evaluated++ {
		ok = j.evaluate(order[evaluated])
	}
	if ok {
		j.err = j.commit()
	}
	j.finish(order[:evaluated], ok && j.err == nil)
}

// finish shows what the batch has changed. A range that one group gives another is
// nobody's, or both have it, until both have shown their lists: until then readers of
// several groups are told so.
func (j *joint) finish(order []int, committed bool) {
	reowned := committed && slices.ContainsFunc(j.states, func(x *executor) bool { return x.guard.reowned() })
	if reowned {
		for _, x := range j.states {
			x.visible.reowning.Add(1)
		}
	}
	for _, i := range order {
		j.states[i].finish(committed)
	}
	if reowned {
		for _, x := range j.states {
			x.visible.reowning.Add(-1)
		}
	}
}

// evaluate evaluates one part and tells whether to go on.
func (j *joint) evaluate(i int) bool {
	x := j.states[i]
	c := call{Request: j.pieces[i].Request}
	x.evaluate([]*call{&c})
	keepReply(&c)
	j.replies[i] = c.reply
	return c.reply.Err == nil && !c.recalled
}

func (j *joint) commit() error {
	var parts []JointPart
	for _, x := range j.states {
		if x.env.Effects().Len() > 0 {
			parts = append(parts, JointPart{x.log, x.seal()})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	log, ok := j.states[0].log.(JointLog)
	if !ok {
		return ErrNotJoint
	}
	err := log.CommitJoint(false, parts)
	if errors.Is(err, ErrUncertain) {
		for _, x := range j.states {
			x.dead = failed(err)
		}
		return fmt.Errorf("%w: %w", ErrUnknown, failed(err))
	}
	return err
}
