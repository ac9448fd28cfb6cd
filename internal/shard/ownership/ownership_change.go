package ownership

import (
	"cmp"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// ChangeOwnership changes the table of a group: ranges that must be there give way to others. If
// what is to become is there already, the reply is OK and nothing changes: a step may be
// repeated. The reply to one that comes too late is ErrStale.
type ChangeOwnership struct {
	Expect, Become []Range
	// VersionFloor and ClockFloorMS are of a range that comes from another
	// group: versions that the group gives out, and its time, are above them
	// from now on, so that neither goes back for any key.
	VersionFloor uint64
	ClockFloorMS int64
	// Mixed means that the range may have rows that a plain Set must not
	// overwrite blindly.
	Mixed bool
	// JobFloor means that all jobs with a lower number have ended, of those that change ranges:
	// some of what they have left in the table is joined. 0 joins nothing.
	JobFloor JobID

	site *Site
}

// Site is the group that evaluates ChangeOwnership commands.
type Site struct {
	Group partition.GroupID
	// Table is what the group has, the changes of the batch that is being evaluated included.
	// The evaluating group takes them back if they do not become durable.
	Table *Table
}

// Bind sets the site at which the command is evaluated.
func (c *ChangeOwnership) Bind(s *Site) { c.site = s }

// Floors returns what a group must see to before it evaluates the command, and what
// comes with the range.
func (c *ChangeOwnership) Floors() (clockMS int64, mixed bool) { return c.ClockFloorMS, c.Mixed }

// Eval changes the table and its records.
func (c *ChangeOwnership) Eval(e *command.Env) command.Reply {
	next, done, err := c.site.Table.changeRanges(c.Expect, c.Become)
	if err != nil {
		return command.Reply{Kind: command.Failed, Err: err}
	}
	if done {
		return command.Reply{Kind: command.OK}
	}
	c.site.recordRanges(e, c.Expect, c.Become)
	e.RaiseNextVersion(c.VersionFloor)
	c.site.Table = next
	if c.JobFloor > 0 && len(c.Become) > 0 {
		c.site.mergeForeign(e, c.JobFloor, c.Become)
	}
	return command.Reply{Kind: command.OK}
}

// IsUrgent reports that it is a step of what frees or ends something: on a full disk no
// range stays frozen, or with two groups, for want of it.
func (c *ChangeOwnership) IsUrgent() bool { return true }

// recordRanges changes the records of ranges.
func (s *Site) recordRanges(e *command.Env, expect, become []Range) {
	for i := range expect {
		e.Delete(recordKey(nil, s.Group, expect[i].Span.Start))
	}
	for i := range become {
		e.Put(recordKey(nil, s.Group, become[i].Span.Start), become[i].appendRecord(nil))
	}
}

// CheckPosition returns why a group with this list must not read, or write, the key at a
// position.
func (s *Site) CheckPosition(p partition.Position, write bool) error {
	if !s.Table.CanRead(p) {
		return s.newWrongGroupError()
	}
	if write && s.Table.frozenCount > 0 && s.Table.findRange(p).State == Frozen {
		return ErrFrozen
	}
	return nil
}

// CheckReadSpan returns why the group must not read a span.
func (s *Site) CheckReadSpan(span partition.Span) error {
	if !s.Table.CanReadSpan(span) {
		return s.newWrongGroupError()
	}
	return nil
}

// CheckWriteSpan returns why the group must not change anything in a span, which must be
// its own as a whole, in however many ranges.
func (s *Site) CheckWriteSpan(span partition.Span) error {
	if !s.Table.CanReadSpan(span) {
		return s.newWrongGroupError()
	}
	if s.Table.frozenCount == 0 {
		return nil
	}
	for r := range s.Table.ScanOverlapping(span) {
		if r.State == Frozen {
			return ErrFrozen
		}
	}
	return nil
}

func (s *Site) newWrongGroupError() error {
	return &WrongGroupError{Group: s.Group, Version: s.Table.Version()}
}

// AttemptDropped in the attempt of a Foreign range means that nothing is left of its rows.
const AttemptDropped = 1

// Ranges that were given away stay, so that what comes late finds that it is late. As
// pieces come and go they would become ever more, so those that follow one another are
// joined when the jobs that made them have ended, with what lies between them.
//
// What is asked of such a range is whether it is exactly one that a job expects or has
// made, which only that job asks, and whether its job is before that of a command: a
// range may be taken anew by a later job only, and nothing at all by any. The first is
// not asked any more, or by commands that come late and that change nothing if the
// answer is no. To the second the answer for a position goes from yes to no for jobs up
// to the newer of the two that are joined. All of these have ended, so none of their
// commands matters; and for those of open jobs, and of jobs to come, which have higher
// numbers, it stays yes.

// isMergeable reports whether a range is needed for nothing but to know that it exists: no rows
// are left, and its job, like all before floor, has ended. A range that no job has made has no
// rows of a job.
func (r *Range) isMergeable(floor JobID) bool {
	return r.State == Foreign && (r.Attempt == AttemptDropped || r.Job == 0) &&
		r.Job < floor
}

// planMerges returns what is to become of the ranges of a chunk that can be joined.
func (c *chunk) planMerges(floor JobID) (expect, become []Range) {
	for i := 0; i < len(c.ranges); {
		whole, n := *c.ranges[i], 1
		for ; i+n < len(c.ranges) && whole.isMergeable(floor) && c.ranges[i+n].isMergeable(floor); n++ {
			next := c.ranges[i+n]
			whole.Span.End = next.Span.End
			whole.Version = max(whole.Version, next.Version)
			whole.Job = max(whole.Job, next.Job)
			whole.Attempt = AttemptDropped
		}
		if n > 1 {
			for _, r := range c.ranges[i : i+n] {
				expect = append(expect, *r)
			}
			become = append(become, whole)
		}
		i += n
	}
	return expect, become
}

// mergeForeign joins ranges of jobs before floor in two chunks: that of a range that has just
// changed, and another one, which its job chooses. A command adds a few ranges to a table at
// most, so to check some hundred each time keeps up with them wherever they are.
func (s *Site) mergeForeign(e *command.Env, floor JobID, changed []Range) {
	for i := range 2 {
		where, _ := s.Table.locateRange(changed[0].Span.Start)
		if i > 0 {
			job := slices.MaxFunc(changed, func(a, b Range) int { return cmp.Compare(a.Job, b.Job) }).Job
			// Numbers that follow one another choose chunks that lie far apart.
			where.chunk = int((uint64(job) * 0x9E3779B97F4A7C15 >> 33) % uint64(len(s.Table.chunks)))
		}
		if where.chunk >= len(s.Table.chunks) {
			continue
		}
		expect, become := s.Table.chunks[where.chunk].planMerges(floor)
		if len(become) == 0 {
			continue
		}
		if next, _, err := s.Table.changeRanges(expect, become); err == nil { // they were just there
			s.recordRanges(e, expect, become)
			s.Table = next
		}
	}
}
