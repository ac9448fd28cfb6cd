package drive

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
)

// errBehind means that the clock of a group is behind that of a range that it is
// to serve.
var errBehind = errors.New("drive: the clock is behind that of the range: try again")

// Look answers a mover.Look.
func Look(find Find, x mover.Look) mover.Event {
	from, err := find(x.From)
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	to, err := find(x.To)
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	return mover.Looked{Round: x.Round, Source: over(from.Group.List(), x.Span), Dest: over(to.Group.List(), x.Span)}
}

// Evaluate answers a mover.Evaluate. What it says is synced at durability always;
// at any other, the caller syncs the stores first.
func Evaluate(ctx context.Context, find Find, x mover.Evaluate) mover.Event {
	return EvaluateHanded(ctx, find, x, nil)
}

// EvaluateHanded is Evaluate of what lets a group serve a range that comes from
// elsewhere.
func EvaluateHanded(ctx context.Context, find Find, x mover.Evaluate, from *feed.Handed) mover.Event {
	failed := func(err error) mover.Event { return mover.Failed{Round: x.Round, Err: err} }
	places := make([]Place, len(x.Parts))
	for i, part := range x.Parts {
		var err error
		if places[i], err = find(part.Group); err != nil {
			return failed(err)
		}
	}
	first := places[0]
	pieces := make([]group.Piece, len(x.Parts))
	for i, part := range x.Parts {
		floor := int64(0)
		if x.Carry {
			floor = first.Group.NowMS()
		}
		c, err := ready(ctx, places[i], part.Command, floor, from)
		if err != nil {
			return failed(err)
		}
		pieces[i] = group.Piece{Group: places[i].Group, Request: group.Request{Command: c}}
	}
	var given standing
	if c := &pieces[0].Request.Command; x.Carry {
		*c = &carrying{Bound: x.Parts[0].Command, to: x.Parts[1].Command}
	} else if r, ok := (*c).(*own.Reown); ok {
		*c = group.Steps{r, &given}
	}
	reply, err := together(ctx, pieces)
	if err == nil {
		err = reply.Err
	}
	if err != nil {
		return failed(err)
	}
	return mover.Evaluated{
		Round: x.Round, Rows: uint64(reply.Int), More: reply.More, Position: uint64(first.Store.Position()),
		// Readers go by the clock until they see what the command did.
		NextVersion: given.nextVersion, ClockMS: first.Group.NowMS(),
	}
}

// ready does what a command needs before its group evaluates it, and returns it with
// what goes with it.
func ready(ctx context.Context, p Place, c mover.Bound, floorMS int64, from *feed.Handed) (command.Command, error) {
	switch c := c.(type) {
	case *mover.Clear:
		return &noting{c, feed.CarriedKey(c.Span)}, c.Find(p.Store)
	case *mover.Settle:
		return &settling{Settle: c, from: from}, raise(ctx, p.Group, max(floorMS, c.ClockFloorMS))
	}
	return c, nil
}

// together evaluates one command, or several as one, and returns the first reply,
// or that of the one that failed.
func together(ctx context.Context, pieces []group.Piece) (command.Reply, error) {
	if len(pieces) == 1 {
		return pieces[0].Group.Try(ctx, pieces[0].Request)
	}
	replies, err := group.TryJoint(ctx, pieces)
	if err != nil {
		return command.Reply{}, err
	}
	for _, r := range replies {
		if r.Err != nil {
			return r, nil
		}
	}
	return replies[0], nil
}

// raise moves the clock of a group to a floor: a range of another group comes with
// the time that was told there.
func raise(ctx context.Context, g *group.Group, floorMS int64) error {
	if floorMS <= g.NowMS() {
		return nil
	}
	reply, err := g.Try(ctx, group.Request{Command: &own.Reown{ClockFloorMS: floorMS}})
	if err == nil {
		err = reply.Err
	}
	return err
}

// settling is a Settle that is refused while the clock is behind its floor, and that
// notes where the range comes from.
type settling struct {
	*mover.Settle
	from *feed.Handed
}

// Eval checks the clock.
func (c *settling) Eval(e *command.Env) command.Reply {
	if c.from != nil {
		e.Delete(c.from.Key())
	}
	if e.NowMS() < c.ClockFloorMS {
		return command.Reply{Kind: command.Failed, Err: errBehind}
	}
	return c.Settle.Eval(e)
}

// standing notes the first version that a group has not given out. What it gives out
// later is for other ranges than those that it has given away before.
type standing struct{ nextVersion uint64 }

// Eval notes it.
func (s *standing) Eval(e *command.Env) command.Reply {
	s.nextVersion = e.NextVersion()
	return command.Reply{Kind: command.OK}
}

// Urgent tells that it needs no room.
func (s *standing) Urgent() bool { return true }

// carrying is the first command of two: what its group has given out by then is
// the floor of the other.
type carrying struct {
	mover.Bound
	to mover.Bound
}

// Urgent is that of the command.
func (c *carrying) Urgent() bool {
	u, ok := c.Bound.(group.Urgent)
	return ok && u.Urgent()
}

// Eval evaluates the command and notes the floors. The other one is evaluated
// after it, while the group of this one does nothing else.
func (c *carrying) Eval(e *command.Env) command.Reply {
	reply := c.Bound.Eval(e)
	if s, ok := c.to.(*mover.Settle); ok && reply.Err == nil {
		s.SetFloors(e.NextVersion(), e.NowMS())
	}
	return reply
}
