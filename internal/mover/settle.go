package mover

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Settle changes the range that a job copies, however far its log has come: an
// answer that was lost may have told of more than the record knows. From the
// freeze on the log has nothing about the range, so further is as good.
type Settle struct {
	bound
	Job own.Job
	// Attempt is the copy that is meant, 0 for any.
	Attempt uint64
	Become  own.Range
	// VersionFloor and ClockFloorMS are as in [own.Reown].
	VersionFloor uint64
	ClockFloorMS int64
	// Else is done if the range is not being copied, as it is if the command
	// that begins it has not come yet.
	Else *own.Reown
}

// Eval changes the range.
func (c *Settle) Eval(e *command.Env) command.Reply {
	r, ok := c.incoming(c.Job, c.Become.Span)
	if !ok || c.Attempt != 0 && r.Attempt != c.Attempt {
		r = own.Range{Span: c.Become.Span, State: own.Incoming, Version: c.Become.Version, Job: c.Job, Attempt: c.Attempt}
		if c.Else != nil && !c.there() {
			return c.reown(e, *c.Else)
		}
	}
	return c.reown(e, own.Reown{
		Expect: []own.Range{r}, Become: []own.Range{c.Become},
		VersionFloor: c.VersionFloor, ClockFloorMS: c.ClockFloorMS, Mixed: true,
	})
}

// there tells whether the change was made before.
func (c *Settle) there() bool {
	r, ok := c.site.List.One(c.Become.Span)
	return ok && equal(r, c.Become)
}

// Floors returns the floors that the group's clock and versions go above when
// the command has been evaluated.
func (c *Settle) Floors() (versions uint64, clockMS int64) { return c.VersionFloor, c.ClockFloorMS }

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
