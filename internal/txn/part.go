package txn

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Part is what a transaction does in one shard, or in several side by side that one
// group owns.
type Part struct {
	// Span has all positions that the part reads and writes: those of the shards
	// when the transaction began, or fewer. Spans of the parts of one transaction
	// do not overlap. A part waits for whatever is frozen in its span: so it is to
	// have no shard that it does not touch.
	Span partition.Span
	// Reads and Ranges are what it has seen, to be validated.
	Reads  []command.Read
	Ranges []command.RangeRead
	// Writes are evaluated in order when the part is prepared.
	Writes []command.Command
}

// Site is the group that evaluates the commands of this package: what they have
// to know besides the state.
type Site struct {
	group partition.GroupID
	locks *Locks
	holds *Holds
	owns  func(partition.Span) error
	trial *command.Env
	notes notes
	// decided are the transactions that may have a decision here. Invariant: all of
	// them, once loaded, which is at the first Decide.
	decided recent
	loaded  bool
}

// NewSite returns the site of a group with its locks and holds. owns tells why the group must not change
// anything in a span now, because it has no part of it, or another owner, or is
// frozen; nil if it may.
func NewSite(group partition.GroupID, locks *Locks, holds *Holds, owns func(partition.Span) error) *Site {
	s := &Site{group: group, locks: locks, holds: holds, owns: owns}
	s.trial = command.NewEnv(&s.notes)
	return s
}

// Participant is a command of this package. A group binds it to its site before
// each evaluation.
type Participant interface {
	command.Command
	Bind(*Site)
}

// bound is the part of a command that knows the site.
type bound struct{ site *Site }

// Bind says where the command is evaluated.
func (b *bound) Bind(s *Site) { b.site = s }

func failed(err error) command.Reply { return command.Reply{Kind: command.Failed, Err: err} }

// say is the reply about a transaction.
func say(o Outcome) command.Reply { return command.Reply{Kind: command.Int, Int: int64(o)} }

// OutcomeOf reads the reply to a Decide or an Inquire.
func OutcomeOf(r command.Reply) Outcome {
	if r.Err != nil || r.Kind != command.Int {
		return Undecided
	}
	return Outcome(r.Int)
}
