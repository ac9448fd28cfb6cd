package mover

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// siteBinding is a command that knows where it is evaluated.
type siteBinding struct{ site *ownership.Site }

// Bind sets the site at which the command is evaluated.
func (b *siteBinding) Bind(s *ownership.Site) { b.site = s }

// changeOwnership evaluates a change of the ownership table as a part of a command.
func (b *siteBinding) changeOwnership(e *command.Env, c ownership.ChangeOwnership) command.Reply {
	c.Bind(b.site)
	return c.Eval(e)
}

// findIncoming returns the range of a span if it is one that this job copies.
func (b *siteBinding) findIncoming(job ownership.JobID, s partition.Span) (ownership.Range, bool) {
	r, ok := b.site.Table.FindContaining(s)
	return r, ok && isSameSpan(r.Span, s) && r.State == ownership.Incoming && r.Job == job
}

func failedReply(err error) command.Reply { return command.Reply{Kind: command.Failed, Err: err} }

// Ingest writes rows into a range that is being copied. If After is Upto, they are a piece of
// the copy that began there; if not, they are what the source's log has between the two. The
// reply is how far the range has come, which is behind Upto if they were here before.
type Ingest struct {
	siteBinding
	Job     ownership.JobID
	Attempt uint64
	Span    partition.Span
	// After and Upto are places in the log of the source's store.
	After, UpTo uint64
	Rows        effect.Batch
}

// Eval writes them, if they are what comes next.
//
// A piece of the copy may come in any order and again, as long as nothing of the
// log has: each row of it is what the key had at some moment since After, and
// what has become of it later comes with the log.
func (c *Ingest) Eval(e *command.Env) command.Reply {
	r, ok := c.findIncoming(c.Job, c.Span)
	if !ok || r.Attempt != c.Attempt || r.CopiedUpTo == 0 {
		return failedReply(fmt.Errorf("%w: job %d, attempt %d, of %v", ErrNotIncoming, c.Job, c.Attempt, c.Span))
	}
	log := c.After < c.UpTo
	switch {
	case log && c.UpTo <= r.CopiedUpTo:
		return command.Reply{Kind: command.Int, Int: int64(r.CopiedUpTo)}
	case c.After < r.CopiedUpTo:
		return failedReply(fmt.Errorf("%w: from %d to %d, the range is at %d", ErrRangeAhead, c.After, c.UpTo, r.CopiedUpTo))
	case c.After > r.CopiedUpTo || c.UpTo < c.After:
		return failedReply(fmt.Errorf("%w: from %d to %d, the range is at %d", ErrLogGap, c.After, c.UpTo, r.CopiedUpTo))
	}
	for _, op := range c.Rows.All() {
		if !IsSpanRow(op.Key, c.Span) {
			return failedReply(fmt.Errorf("%w: %v", ErrOutsideRange, c.Span))
		}
		e.ApplyOp(op)
	}
	if log {
		further := r
		further.CopiedUpTo = c.UpTo
		if reply := c.changeOwnership(e, ownership.ChangeOwnership{Expect: []ownership.Range{r}, Become: []ownership.Range{further}}); reply.Err != nil {
			return reply
		}
	}
	return command.Reply{Kind: command.Int, Int: int64(c.UpTo)}
}

// Clear removes rows that are not needed: those of a range whose copy is about to begin, or of
// one that was given away or did not come. The reply is how many; if More, call again. A range
// that was cleared to the end is not cleared again: its positions may be another group's on the
// same store.
type Clear struct {
	siteBinding
	Job ownership.JobID
	// Attempt is the copy that is about to begin, 0 for what is left of a range.
	Attempt uint64
	Span    partition.Span
	Limit   int
	// After is a store key up to which everything was removed, for a caller that knows it.
	After []byte
	// Keys are what Find has found, and More reports that there were others; hasSearched reports
	// whether Find was called.
	Keys        [][]byte
	More        bool
	hasSearched bool
}

// IsUrgent reports that it frees space.
func (c *Clear) IsUrgent() bool { return true }

// Find looks for what is to be removed. A driver calls it before the command is evaluated, so
// that the group need not wait for a search among deleted rows; no rows are added to such a
// range meanwhile.
func (c *Clear) Find(r command.Reader) error {
	c.Keys, c.More = nil, false
	err := visitSpanRows(r, c.Span, c.After, func(key, _ []byte) bool {
		if c.More = len(c.Keys) >= max(c.Limit, 1); c.More {
			return false
		}
		c.Keys = append(c.Keys, append([]byte(nil), key...))
		return true
	})
	c.hasSearched = err == nil
	return err
}

// Eval removes some of them.
func (c *Clear) Eval(e *command.Env) command.Reply {
	r, ok := c.site.Table.FindContaining(c.Span)
	ok = ok && isSameSpan(r.Span, c.Span) && r.Job == c.Job && r.Attempt == c.Attempt && r.CopiedUpTo == 0
	// A Foreign range that was cleared to the end has an attempt, see ownership.AttemptDropped.
	before := ok && r.State == ownership.Incoming && c.Attempt > 0
	after := ok && r.State == ownership.Foreign && c.Attempt == 0
	if !before && !after {
		return failedReply(fmt.Errorf("%w: job %d, attempt %d, of %v", ErrRowsInUse, c.Job, c.Attempt, c.Span))
	}
	now := *c // what it finds is true of this evaluation
	if !now.hasSearched {
		if err := now.Find(e); err != nil {
			return failedReply(err)
		}
	}
	for _, key := range now.Keys {
		e.Delete(key)
	}
	return command.Reply{Kind: command.Int, Int: int64(len(now.Keys)), More: now.More}
}

// ChangeDestination changes what the destination of a job has for its span. It finds out itself
// what that is: how far the log has come, which a lost answer may have reported (from the freeze
// on the log has nothing about the range, so further is as good), and how ranges that were given
// away before lie around it, which jobs on both sides may have changed.
type ChangeDestination struct {
	siteBinding
	Job    ownership.JobID
	Become ownership.Range
	// Attempt is the copy that gives way, and Any that it may be any.
	Attempt    uint64
	AnyAttempt bool
	// AllowMissing means that the group may have nothing there yet but ranges that were given
	// away. Numbers of jobs grow, so a range of a later job than this, or of this one, means
	// that the command comes too late.
	AllowMissing bool
	// VersionFloor, ClockFloorMS and Floor are as in [ownership.ChangeOwnership].
	VersionFloor uint64
	ClockFloorMS int64
	JobFloor     ownership.JobID
}

// Eval changes the range.
func (c *ChangeDestination) Eval(e *command.Env) command.Reply {
	change := ownership.ChangeOwnership{
		Become: []ownership.Range{c.Become}, VersionFloor: c.VersionFloor, ClockFloorMS: c.ClockFloorMS,
		Mixed: c.Become.State == ownership.Serving, JobFloor: c.JobFloor,
	}
	r, ok := c.findIncoming(c.Job, c.Become.Span)
	switch {
	case ok && (c.AnyAttempt || r.Attempt == c.Attempt):
		change.Expect = []ownership.Range{r}
	case c.AllowMissing && !ok && isFromOlderJobs(c.site.Table.ScanOverlapping(c.Become.Span), c.Job):
		change.Expect = slices.Collect(c.site.Table.ScanOverlapping(c.Become.Span))
		change.Become = carveRange(change.Expect, c.Become)
	default: // which is stale, unless it was done before
		change.Expect = []ownership.Range{{Span: c.Become.Span, State: ownership.Incoming, Job: c.Job, Attempt: c.Attempt}}
	}
	return c.changeOwnership(e, change)
}

// IsUrgent reports that a job is not to stand still for want of it, as in [ownership.ChangeOwnership].
func (c *ChangeDestination) IsUrgent() bool { return true }

// SetFloors sets what the group's versions and its time must be above once it
// serves the range.
func (c *ChangeDestination) SetFloors(versions uint64, clockMS int64) {
	c.VersionFloor, c.ClockFloorMS = versions, clockMS
}

// Floors returns what a group must see to before it evaluates the command: its
// time is not below clockMS then. Mixed is as in [ownership.ChangeOwnership].
func (c *ChangeDestination) Floors() (clockMS int64, mixed bool) {
	return c.ClockFloorMS, c.Become.State == ownership.Serving
}

// isFromOlderJobs reports whether all ranges were given away before a job was admitted.
func isFromOlderJobs(ranges iter.Seq[ownership.Range], job ownership.JobID) bool {
	for r := range ranges {
		if r.State != ownership.Foreign || r.Job >= job {
			return false
		}
	}
	return true
}

// Thaw lets a range take writes again, whether its freeze has arrived or is still in flight: the
// freeze will find another range than it expects.
type Thaw struct {
	siteBinding
	// Frozen is the range as the freeze makes it, Before as it was before, and
	// Become what it is to be.
	Frozen, Before, Become ownership.Range
}

// Eval thaws the range.
func (c *Thaw) Eval(e *command.Env) command.Reply {
	expect := c.Frozen
	if r, ok := c.site.Table.FindContaining(c.Before.Span); ok && isSameRange(r, c.Before) {
		expect = c.Before
	}
	return c.changeOwnership(e, ownership.ChangeOwnership{Expect: []ownership.Range{expect}, Become: []ownership.Range{c.Become}})
}

// IsUrgent reports that it lets a range take writes again.
func (c *Thaw) IsUrgent() bool { return true }

func isSameSpan(a, b partition.Span) bool {
	return bytes.Equal(a.Start, b.Start) && bytes.Equal(a.End, b.End)
}

func isSameRange(a, b ownership.Range) bool {
	return isSameSpan(a.Span, b.Span) && a.Version == b.Version && a.State == b.State &&
		a.Job == b.Job && a.Attempt == b.Attempt && a.CopiedUpTo == b.CopiedUpTo
}

// carveRange returns what becomes of ranges that were given away when another takes
// its place in the middle of them: their ends stay.
func carveRange(found []ownership.Range, r ownership.Range) []ownership.Range {
	var made []ownership.Range
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
