package mover

import (
	"bytes"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Settle changes what the destination of a job has for its span. It finds out
// itself what that is: how far the log has come, which a lost answer may have
// told (from the freeze on the log has nothing about the range, so further is as
// good), and how ranges that were given away before lie around it, which jobs
// on both sides may have changed.
type Settle struct {
	bound
	Job    own.Job
	Become own.Range
	// Attempt is the copy that gives way, and Any that it may be any.
	Attempt uint64
	Any     bool
	// Fresh tells that the group may have nothing there yet but ranges that were
	// given away. Numbers of jobs grow, so one of a later job than this, or of
	// this one, tells that the command comes too late.
	Fresh bool
	// VersionFloor, ClockFloorMS and Floor are as in [own.Reown].
	VersionFloor uint64
	ClockFloorMS int64
	Floor        own.Job
}

// Eval changes the range.
func (c *Settle) Eval(e *command.Env) command.Reply {
	change := own.Reown{
		Become: []own.Range{c.Become}, VersionFloor: c.VersionFloor, ClockFloorMS: c.ClockFloorMS,
		Mixed: c.Become.State == own.Serving, Floor: c.Floor,
	}
	if plant.Bug("mover-floors-forgotten") {
		change.VersionFloor, change.ClockFloorMS = 0, 0
	}
	r, ok := c.incoming(c.Job, c.Become.Span)
	switch {
	case ok && (c.Any || r.Attempt == c.Attempt):
		change.Expect = []own.Range{r}
	case c.Fresh && !ok && older(c.site.List.Over(c.Become.Span), c.Job):
		change.Expect = slices.Collect(c.site.List.Over(c.Become.Span))
		change.Become = carve(change.Expect, c.Become)
	default: // which is stale, unless it was done before
		change.Expect = []own.Range{{Span: c.Become.Span, State: own.Incoming, Job: c.Job, Attempt: c.Attempt}}
	}
	return c.reown(e, change)
}

// Urgent tells that a job is not to stand still for want of it, as in [own.Reown].
func (c *Settle) Urgent() bool { return true }

// SetFloors says what the group's versions and its time must be above once it
// serves the range.
func (c *Settle) SetFloors(versions uint64, clockMS int64) {
	c.VersionFloor, c.ClockFloorMS = versions, clockMS
}

// Floors returns what a group must see to before it evaluates the command: its
// time is not below clockMS then. Mixed is as in [own.Reown].
func (c *Settle) Floors() (clockMS int64, mixed bool) {
	return c.ClockFloorMS, c.Become.State == own.Serving
}

// older tells whether all ranges were given away before a job was admitted.
func older(ranges iter.Seq[own.Range], job own.Job) bool {
	for r := range ranges {
		if r.State != own.Foreign || r.Job >= job && !plant.Bug("mover-late-prepare") {
			return false
		}
	}
	return true
}

// Thaw gives a range back to those who write, whether its freeze has come or is
// still on its way: that will find another range than it expects.
type Thaw struct {
	bound
	// Frozen is the range as the freeze makes it, Before as it was before, and
	// Become what it is to be.
	Frozen, Before, Become own.Range
}

// Eval thaws the range.
func (c *Thaw) Eval(e *command.Env) command.Reply {
	expect := c.Frozen
	if r, ok := c.site.List.One(c.Before.Span); ok && equal(r, c.Before) {
		expect = c.Before
	}
	return c.reown(e, own.Reown{Expect: []own.Range{expect}, Become: []own.Range{c.Become}})
}

// Urgent tells that it gives a range back to those who write.
func (c *Thaw) Urgent() bool { return true }

func same(a, b partition.Span) bool {
	return bytes.Equal(a.Start, b.Start) && bytes.Equal(a.End, b.End)
}

func equal(a, b own.Range) bool {
	return same(a.Span, b.Span) && a.Version == b.Version && a.State == b.State &&
		a.Job == b.Job && a.Attempt == b.Attempt && a.Upto == b.Upto
}

// carve returns what becomes of ranges that were given away when another takes
// its place in the middle of them: their ends stay.
func carve(found []own.Range, r own.Range) []own.Range {
	var made []own.Range
	for _, f := range found {
		if left := (partition.Span{Start: f.Span.Start, End: r.Span.Start}); len(left.End) > 0 && !left.Empty() {
			rest := f
			rest.Span = left
			made = append(made, rest)
		}
	}
	made = append(made, r)
	for _, f := range found {
		right := partition.Span{Start: r.Span.End, End: f.Span.End}
		if len(right.Start) > 0 && !right.Empty() {
			rest := f
			rest.Span = right
			made = append(made, rest)
		}
	}
	return made
}
