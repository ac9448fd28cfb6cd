package group

import (
	"errors"
	"slices"

	"github.com/cleavekv/cleave/actor"
)

// together is a batch of several groups that share a log: one entry of it for each, all in
// one frame, so that all of it is visible at one moment or never.
type together struct {
	groups []*Group
	states []*executor
	// refused is why a group cannot take part, by group. Those that can have begun a
	// batch, and hold their clocks until all of it is visible.
	refused []error
	late    [][]*call // those of each group that ride along
}

func actorsOf(groups []*Group) []*actor.Actor[executor, *call, error] {
	actors := make([]*actor.Actor[executor, *call, error], len(groups))
	for i, g := range groups {
		actors[i] = g.actor
	}
	return actors
}

func (b *together) use(states []*executor) {
	b.states, b.refused, b.late = states, make([]error, len(states)), make([][]*call, len(states))
}

// reserve sees to it that the groups have time and versions left. That may be a batch of
// its own.
func (b *together) reserve() {
	for i, x := range b.states {
		if b.refused[i] = x.dead; x.dead == nil {
			b.refused[i] = x.reserve()
		}
	}
}

// begin begins the batch of each group, with what rides along: that is requests without an
// id which take no range over, so nobody has to admit them, or to know them again.
func (b *together) begin() {
	for i, x := range b.states {
		if b.refused[i] == nil {
			b.refused[i] = x.dead // since another was admitted
		}
		if b.refused[i] == nil {
			x.begin()
			b.late[i] = x.late.take()
			for _, c := range b.late[i] {
				x.execute(c)
			}
		}
	}
}

// commit commits what every group writes in one frame. It is urgent if what rides along is, too.
func (b *together) commit(urgently bool) error {
	for _, late := range b.late {
		urgently = urgently && !slices.ContainsFunc(late, func(c *call) bool { return !urgent(c.Command) })
	}
	var parts []JointPart
	for i, x := range b.states {
		if b.refused[i] == nil && x.env.Effects().Len() > 0 {
			parts = append(parts, JointPart{x.log, x.seal()})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	log, ok := parts[0].Log.(JointLog)
	if !ok {
		return ErrNotJoint
	}
	err := log.CommitJoint(urgently, parts)
	if errors.Is(err, ErrUncertain) {
		for _, x := range b.states {
			x.dead = failed(err)
		}
	}
	return err
}

// finish shows what the batch has changed. A range that one group gives another is
// nobody's, or both have it, until both have shown their lists: until then readers of
// several groups are told so.
func (b *together) finish(err error) {
	reowned := err == nil && slices.ContainsFunc(b.states, func(x *executor) bool { return x.guard.reowned() })
	if reowned {
		for _, x := range b.states {
			x.visible.reowning.Add(1)
		}
	}
	for i, x := range b.states {
		if b.refused[i] == nil {
			x.finish(err == nil)
		}
	}
	if reowned {
		for _, x := range b.states {
			x.visible.reowning.Add(-1)
		}
	}
	for i, x := range b.states {
		b.answer(x, b.late[i], err)
		b.late[i] = nil
	}
}

// answer answers those who ride along. Who is refused with others has another try by
// himself, if he is urgent.
func (b *together) answer(x *executor, late []*call, err error) {
	errs := make([]error, len(late))
	for i, c := range late {
		keepReply(c)
		errs[i] = x.outcomeOfAll(err)
	}
	if err != nil && x.dead == nil {
		x.urge(late, errs, true)
	}
	for i, c := range late {
		c.answer(errs[i])
	}
}

// abandon answers those who ride along with a batch that panicked.
func (b *together) abandon(err error) {
	for i, g := range b.groups {
		if i < len(b.late) {
			answerLate(b.late[i], g.refused(err))
		}
	}
}
