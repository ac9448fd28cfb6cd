package own

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Reown changes the list of a group: ranges that must be there give way to
// others. If what is to become is there already, the reply is OK and nothing
// changes: a step may be repeated. The reply to one that comes too late is
// ErrStale.
type Reown struct {
	Expect, Become []Range
	// VersionFloor and ClockFloorMS are of a range that comes from another
	// group: versions that the group gives out, and its time, are above them
	// from now on, so that neither goes back for any key.
	VersionFloor uint64
	ClockFloorMS int64
	// Mixed tells that the range may have rows that a plain Set must not
	// overwrite blindly.
	Mixed bool
	// Floor tells that all jobs with a lower number have ended, of those that change
	// ranges: some of what they have left in the list is joined. 0 joins nothing.
	Floor Job

	site *Site
}

// Site is the group that evaluates Reowns.
type Site struct {
	Group partition.GroupID
	// List is what the group has, the changes of the batch that is being
	// evaluated included. Whoever evaluates takes them back if they do not
	// become durable.
	List *List
}

// Bind says where the command is evaluated.
func (c *Reown) Bind(s *Site) { c.site = s }

// Floors returns what a group must see to before it evaluates the command, and what
// comes with the range.
func (c *Reown) Floors() (clockMS int64, mixed bool) { return c.ClockFloorMS, c.Mixed }

// Eval changes the list and its records.
func (c *Reown) Eval(e *command.Env) command.Reply {
	next, done, err := c.site.List.change(c.Expect, c.Become)
	if err != nil {
		return command.Reply{Kind: command.Failed, Err: err}
	}
	if done {
		return command.Reply{Kind: command.OK}
	}
	c.site.record(e, c.Expect, c.Become)
	e.UseVersions(c.VersionFloor)
	c.site.List = next
	if c.Floor > 0 && len(c.Become) > 0 {
		c.site.join(e, c.Floor, c.Become)
	}
	return command.Reply{Kind: command.OK}
}

// Urgent tells that it is a step of what frees or ends something: on a full disk no
// range stays frozen, or with two groups, for want of it.
func (c *Reown) Urgent() bool { return true }

// record changes the records of ranges.
func (s *Site) record(e *command.Env, expect, become []Range) {
	for i := range expect {
		e.Delete(recordKey(nil, s.Group, expect[i].Span.Start))
	}
	for i := range become {
		e.Put(recordKey(nil, s.Group, become[i].Span.Start), become[i].append(nil))
	}
}

// Check returns why a group with this list must not read, or write, the key at a
// position.
func (s *Site) Check(p partition.Position, write bool) error {
	if !s.List.Reads(p) {
		return s.wrong()
	}
	if write && s.List.frozen > 0 && s.List.find(p).State == Frozen {
		return ErrFrozen
	}
	return nil
}

// CheckSpan returns why the group must not read a span.
func (s *Site) CheckSpan(span partition.Span) error {
	if !s.List.Covers(span) {
		return s.wrong()
	}
	return nil
}

// CheckPart returns why the group must not change anything in a span, which must be
// its own as a whole, in however many ranges.
func (s *Site) CheckPart(span partition.Span) error {
	if !s.List.Covers(span) {
		return s.wrong()
	}
	if s.List.frozen == 0 {
		return nil
	}
	for r := range s.List.Over(span) {
		if r.State == Frozen {
			return ErrFrozen
		}
	}
	return nil
}

func (s *Site) wrong() error {
	return &WrongGroupError{Group: s.Group, Version: s.List.Version()}
}
