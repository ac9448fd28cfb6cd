package txn

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Participant is what a transaction does in one shard, or in several side by side that one
// group owns.
type Participant struct {
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
	group        partition.GroupID
	locks        *Locks
	reservations *ReservationQueue
	checkOwned   func(partition.Span) error
	trialEnv     *command.Env
	recorder     recordingReader
	// decidedTxns are the transactions that may have a decision here. Invariant: all of
	// them, once loaded, which is at the first Decide.
	decidedTxns     recentTxns
	decisionsLoaded bool
}

// NewSite returns the site of a group with its locks and reservations. owns returns why the
// group must not change anything in a span, because it has no part of it, or another owner, or
// is frozen; nil if it may.
func NewSite(group partition.GroupID, locks *Locks, holds *ReservationQueue, owns func(partition.Span) error) *Site {
	s := &Site{group: group, locks: locks, reservations: holds, checkOwned: owns}
	s.trialEnv = command.NewEnv(&s.recorder)
	return s
}

// SiteCommand is a command of this package. A group binds it to its site before
// each evaluation.
type SiteCommand interface {
	command.Command
	Bind(*Site)
}

// siteBinding is the part of a command that knows the site.
type siteBinding struct{ site *Site }

// Bind sets the site at which the command is evaluated.
func (b *siteBinding) Bind(s *Site) { b.site = s }

func failedReply(err error) command.Reply { return command.Reply{Kind: command.Failed, Err: err} }

// outcomeReply is the reply about a transaction.
func outcomeReply(o Outcome) command.Reply { return command.Reply{Kind: command.Int, Int: int64(o)} }

// ParseOutcome reads the reply to a Decide or an Inquire.
func ParseOutcome(r command.Reply) Outcome {
	if r.Err != nil || r.Kind != command.Int {
		return Undecided
	}
	return Outcome(r.Int)
}

// Prepare validates a part, locks what it reads and writes, and keeps what it is going to do
// until it is resolved. The reply is OK, also if it was prepared before. [ErrLocked] and
// [command.ErrConflict] are for a new attempt with a new ID; so are ErrDeadline and ErrFinished,
// if a caller waits for the answer.
type Prepare struct {
	siteBinding
	ID               ID
	Participant      Participant
	CoordinatorGroup partition.GroupID
	DeadlineMS       int64
}

// Eval prepares the part.
func (c *Prepare) Eval(e *command.Env) command.Reply {
	done, err := c.checkAdmission(e)
	if err != nil {
		return failedReply(err)
	}
	if done {
		return command.Reply{Kind: command.OK}
	}
	t, err := c.site.tryParticipant(e, c.ID, &c.Participant)
	if err != nil {
		return failedReply(err)
	}
	for i := range t.entries {
		if at := t.entries[i].lock.Start; !bytes.Equal(at, c.Participant.Span.Start) { // that was checked
			if err := c.checkMark(e, at); err != nil {
				return failedReply(err)
			}
		}
	}
	for i := range t.entries {
		lock, effects := t.entries[i].lock, &t.entries[i].effects
		lock.Txn, lock.ParticipantStart = c.ID, clonePosition(c.Participant.Span.Start)
		lock.CoordinatorGroup, lock.DeadlineMS, lock.PrepareMS = c.CoordinatorGroup, c.DeadlineMS, e.NowMS()
		var ops []byte
		if lock.Write {
			ops = effects.Bytes()
		}
		e.Put(lock.recordKey(nil), lock.appendRecord(nil, ops))
		c.site.locks.Add(lock)
	}
	return command.Reply{Kind: command.OK}
}

// checkAdmission reports whether the part is prepared already, or why it must not be.
func (c *Prepare) checkAdmission(e *command.Env) (done bool, err error) {
	if c.ID == (ID{}) || c.CoordinatorGroup == 0 || c.DeadlineMS < 0 || c.Participant.Span.Empty() {
		return false, fmt.Errorf("%w: it needs an ID, a coordinator group, a deadline and a span", ErrBadParticipant)
	}
	if err := c.site.checkOwned(c.Participant.Span); err != nil {
		return false, err
	}
	if err := c.checkMark(e, c.Participant.Span.Start); err != nil {
		return false, err
	}
	for _, lock := range c.site.locks.txns[c.ID] {
		if bytes.Equal(lock.ParticipantStart, c.Participant.Span.Start) {
			return true, nil
		}
	}
	if e.NowMS() > c.DeadlineMS {
		return false, ErrDeadline
	}
	return false, nil
}

// checkMark refuses it if the transaction is finished at a position.
func (c *Prepare) checkMark(e *command.Env, at partition.Position) error {
	if c.site.locks.markedTxns.hasNoRecord(c.ID, c.DeadlineMS, e.NowMS()) {
		return nil
	}
	mark, finished, err := loadMark(e, at, c.ID)
	if err == nil && finished {
		err = fmt.Errorf("%w: it was %v", ErrFinished, mark.Outcome)
	}
	return err
}

// Resolve ends a transaction in a span: what it was to do there is applied, or forgotten, and
// its locks are gone. The reply is how many. Once it is durable nothing of the transaction is
// left in the span, or ever comes back to it, so the reply confirms that to the coordinator group. It may
// come before the Prepare, and any number of times.
type Resolve struct {
	siteBinding
	ID ID
	// Span is that of a part, or as much of it as the group owns.
	Span       partition.Span
	Commit     bool
	DeadlineMS int64
}

// Eval resolves.
func (c *Resolve) Eval(e *command.Env) command.Reply {
	if err := c.site.checkOwned(c.Span); err != nil {
		return failedReply(err)
	}
	n := int64(0)
	for _, lock := range c.site.locks.listTxnIn(c.ID, c.Span) {
		if err := c.endLock(e, lock); err != nil {
			return failedReply(err)
		}
		c.writeMark(e, lock.Start)
		n++
	}
	if n == 0 {
		c.writeMark(e, c.Span.Start)
	}
	return command.Reply{Kind: command.Int, Int: n}
}

// IsUrgent reports that it ends what found space before.
func (c *Resolve) IsUrgent() bool { return true }

// endLock removes a lock, after doing what it was kept for.
func (c *Resolve) endLock(e *command.Env, lock *Lock) error {
	key := lock.recordKey(nil)
	if c.Commit && lock.Write {
		value, ok, err := e.Get(key, nil)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: the lock of %v on %v is not there", ErrBadRecord, c.ID, lock.Span())
		}
		x, err := DecodeIntent(key, value)
		if err != nil {
			return err
		}
		for _, op := range x.Effects.All() {
			e.ApplyOp(op)
		}
	}
	e.Delete(key)
	c.site.locks.Remove(lock.Txn, lock.Start, lock.Range)
	return nil
}

// writeMark keeps away a Prepare that is still in flight. After the deadline the clock does.
// There is one mark where each lock was, as the span that is resolved need not be the whole
// part. If there was no lock, the Prepare may not have arrived yet, and finds a mark at the
// start of its span. A mark that exists already is the same, so there is no check for one.
func (c *Resolve) writeMark(e *command.Env, at partition.Position) {
	if e.NowMS() > c.DeadlineMS {
		return
	}
	m := Mark{Outcome: Aborted, DeadlineMS: c.DeadlineMS}
	if c.Commit {
		m.Outcome = Committed
	}
	c.site.locks.markedTxns.add(c.ID, c.DeadlineMS, e.NowMS())
	e.Put(markKey(nil, at, c.ID), m.appendRecord(nil))
}

// applyEffects does what a part writes.
func (c *lockEntry) applyEffects(e *command.Env) error {
	if !c.lock.Write {
		return nil
	}
	return redoEffects(e, c.effects.Bytes())
}

// CutRangeLocks makes two of each range lock that a boundary lies in, so that each side
// has its own when a range is given away or taken over. A group calls it for
// both ends of the range in the step that changes the owner.
func CutRangeLocks(e *command.Env, l *Locks, at partition.Position) {
	var over []*Lock
	l.tree.visitAt(at, func(lock *Lock) {
		if lock.Range && bytes.Compare(lock.RecordPosition(), at) < 0 {
			over = append(over, lock)
		}
	})
	for _, lock := range over {
		left, right := *lock, *lock
		left.End, right.Start = clonePosition(at), clonePosition(at)
		for _, half := range []Lock{left, right} {
			e.Put(half.recordKey(nil), half.appendRecord(nil, nil))
			l.Add(half)
		}
	}
}

// redoEffects applies effects.
func redoEffects(e *command.Env, effects []byte) error {
	batch, err := effect.Parse(effects)
	if err != nil {
		return err
	}
	for _, op := range batch.All() {
		e.ApplyOp(op)
	}
	return nil
}
