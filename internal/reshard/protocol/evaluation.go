package protocol

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
)

// errClockBehind means that the clock of a group is behind that of a range that it is
// to serve.
var errClockBehind = errors.New("protocol: the clock is behind that of the range: try again")

// ReadOwnership answers a mover.ReadOwnership.
func ReadOwnership(find Finder, x mover.ReadOwnership) mover.Event {
	from, err := find(x.From)
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	to, err := find(x.To)
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	return mover.OwnershipRead{Round: x.Round, Source: listOverlappingRanges(from.Group.OwnershipTable(), x.Span), Dest: listOverlappingRanges(to.Group.OwnershipTable(), x.Span)}
}

// EvalCommands answers a mover.EvalCommands. What it reports is synced at durability always; at
// any other, the caller syncs the stores first.
func EvalCommands(ctx context.Context, find Finder, x mover.EvalCommands) mover.Event {
	return EvalHandover(ctx, find, x, nil)
}

// EvalHandover is EvalCommands of what lets a group serve a range that comes from elsewhere.
func EvalHandover(ctx context.Context, find Finder, x mover.EvalCommands, from *feed.Handover) mover.Event {
	failed := func(err error) mover.Event { return mover.Failed{Round: x.Round, Err: err} }
	places := make([]GroupHost, len(x.Commands))
	for i, part := range x.Commands {
		var err error
		if places[i], err = find(part.Group); err != nil {
			return failed(err)
		}
	}
	first := places[0]
	pieces := make([]group.SubRequest, len(x.Commands))
	for i, part := range x.Commands {
		floor := int64(0)
		if x.CarryFloors {
			floor = first.Group.NowMS()
		}
		c, err := prepareCommand(ctx, places[i], part.Command, floor, from)
		if err != nil {
			return failed(err)
		}
		pieces[i] = group.SubRequest{Group: places[i].Group, Request: group.Request{NoWait: true, Command: c}}
	}
	var given nextVersionProbe
	if c := &pieces[0].Request.Command; x.CarryFloors {
		*c = &floorSetter{SiteCommand: x.Commands[0].Command, destination: x.Commands[1].Command}
	} else if r, ok := (*c).(*ownership.ChangeOwnership); ok {
		*c = group.Steps{r, &given}
	}
	reply, err := tryCommands(ctx, pieces)
	if err == nil {
		err = reply.Err
	}
	if err != nil {
		return failed(err)
	}
	return mover.Evaluated{
		Round: x.Round, Rows: uint64(reply.Int), More: reply.More, Position: uint64(first.Store.Position()),
		// Readers use the clock until they see what the command did.
		NextVersion: given.nextVersion, ClockMS: first.Group.NowMS(),
	}
}

// prepareCommand does what a command needs before its group evaluates it, and returns it with
// what goes with it.
func prepareCommand(ctx context.Context, p GroupHost, c mover.SiteCommand, floorMS int64, from *feed.Handover) (command.Command, error) {
	switch c := c.(type) {
	case *mover.Clear:
		return &annotatedCommand{c, feed.CopiedSpanKey(c.Span)}, c.Find(p.Store)
	case *mover.ChangeDestination:
		return &checkedOwnershipChange{ChangeDestination: c, source: from}, raiseClock(ctx, p.Group, max(floorMS, c.ClockFloorMS))
	}
	return c, nil
}

// tryCommands evaluates one command, or several as one, and returns the first reply,
// or that of the one that failed.
func tryCommands(ctx context.Context, pieces []group.SubRequest) (command.Reply, error) {
	if len(pieces) == 1 {
		return pieces[0].Group.Execute(ctx, pieces[0].Request)
	}
	replies, err := group.ExecuteJoint(ctx, pieces)
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

// raiseClock moves the clock of a group to a floor: a range of another group comes with
// the time that was given out there.
func raiseClock(ctx context.Context, g *group.Group, floorMS int64) error {
	if floorMS <= g.NowMS() {
		return nil
	}
	reply, err := g.Execute(ctx, group.Request{NoWait: true, Command: &ownership.ChangeOwnership{ClockFloorMS: floorMS}})
	if err == nil {
		err = reply.Err
	}
	return err
}

// checkedOwnershipChange is a ChangeDestination that is refused while the clock is behind its floor, and
// that notes where the range comes from.
type checkedOwnershipChange struct {
	*mover.ChangeDestination
	source *feed.Handover
}

// Eval checks the clock.
func (c *checkedOwnershipChange) Eval(e *command.Env) command.Reply {
	if c.source != nil {
		e.Delete(c.source.Key())
	}
	if e.NowMS() < c.ClockFloorMS {
		return command.Reply{Kind: command.Failed, Err: errClockBehind}
	}
	return c.ChangeDestination.Eval(e)
}

// nextVersionProbe notes the first version that a group has not given out. What it gives out
// later is for other ranges than those that it has given away before.
type nextVersionProbe struct{ nextVersion uint64 }

// Eval notes it.
func (s *nextVersionProbe) Eval(e *command.Env) command.Reply {
	s.nextVersion = e.NextVersion()
	return command.Reply{Kind: command.OK}
}

// IsUrgent reports that it needs no space.
func (s *nextVersionProbe) IsUrgent() bool { return true }

// floorSetter is the first command of two: what its group has given out by then is
// the floor of the other.
type floorSetter struct {
	mover.SiteCommand
	destination mover.SiteCommand
}

// IsUrgent is that of the command.
func (c *floorSetter) IsUrgent() bool {
	u, ok := c.SiteCommand.(group.UrgentCommand)
	return ok && u.IsUrgent()
}

// Eval evaluates the command and notes the floors. The other one is evaluated
// after it, while the group of this one does nothing else.
func (c *floorSetter) Eval(e *command.Env) command.Reply {
	reply := c.SiteCommand.Eval(e)
	if s, ok := c.destination.(*mover.ChangeDestination); ok && reply.Err == nil {
		s.SetFloors(e.NextVersion(), e.NowMS())
	}
	return reply
}

// Notes are for readers of the feed: what a job does to rows is no change of keys. See package
// feed.

// HandoverSource returns where readers of the feed find what happened to a range before it is
// served by another store, if that is what a job is about to let happen. number
// maps each store.
func HandoverSource(find Finder, j *mover.Job, number func(*store.Store) int) (*feed.Handover, error) {
	if j.Phase != mover.Activating {
		return nil, nil
	}
	p, err := find(j.From)
	if err != nil {
		return nil, err
	}
	return &feed.Handover{Store: number(p.Store), Position: uint64(p.Store.Position())}, nil
}

// annotatedCommand is a command with a note.
type annotatedCommand struct {
	mover.SiteCommand
	noteKey []byte
}

// Eval notes, and evaluates the command.
func (c *annotatedCommand) Eval(e *command.Env) command.Reply {
	e.Delete(c.noteKey)
	return c.SiteCommand.Eval(e)
}

// IsUrgent is that of the command.
func (c *annotatedCommand) IsUrgent() bool {
	u, ok := c.SiteCommand.(group.UrgentCommand)
	return ok && u.IsUrgent()
}
