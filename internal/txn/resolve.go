package txn

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Resolve ends a transaction in a span: what it was to do there is done, or
// forgotten, and its locks are gone. The reply is how many. Once it is durable
// nothing of the transaction is left in the span, or ever comes back to it, so
// the reply confirms that to the decider. It may come before the Prepare, and
// any number of times.
type Resolve struct {
	bound
	ID ID
	// Span is that of a part, or as much of it as the group owns.
	Span       partition.Span
	Commit     bool
	DeadlineMS int64
}

// Eval resolves.
func (c *Resolve) Eval(e *command.Env) command.Reply {
	if err := c.site.owns(c.Span); err != nil {
		if plant.Bug("txn-old-owner-confirms") {
			return command.Reply{Kind: command.Int}
		}
		return failed(err)
	}
	n := int64(0)
	for _, lock := range c.site.locks.ofIn(c.ID, c.Span) {
		if err := c.end(e, lock); err != nil {
			return failed(err)
		}
		if !plant.Bug("txn-mark-at-start-only") {
			c.mark(e, lock.Start)
		}
		n++
	}
	if n == 0 {
		c.mark(e, c.Span.Start)
	}
	return command.Reply{Kind: command.Int, Int: n}
}

// Urgent tells that it ends what found room before.
func (c *Resolve) Urgent() bool { return true }

// end removes a lock, after doing what it was kept for.
func (c *Resolve) end(e *command.Env, lock *Lock) error {
	key := lock.key(nil)
	if c.Commit && lock.Write {
		value, ok, err := e.Get(key, nil)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: the lock of %v on %v is not there", ErrRecord, c.ID, lock.Span())
		}
		x, err := DecodeIntent(key, value)
		if err != nil {
			return err
		}
		for _, op := range x.Effects.All() {
			e.Redo(op)
		}
	}
	e.Delete(key)
	c.site.locks.Remove(lock.Txn, lock.Start, lock.Range)
	return nil
}

// mark keeps a Prepare away that is still on its way. After the deadline the
// clock does. There is one where each lock was, as the piece that is resolved
// need not be the whole part; if there was none, the Prepare may not have come
// yet, and finds one at the start of its span. If there is one already, it is the same:
// so nobody looks.
func (c *Resolve) mark(e *command.Env, at partition.Position) {
	if e.NowMS() > c.DeadlineMS || plant.Bug("txn-mark-forgotten") {
		return
	}
	m := Mark{Outcome: Aborted, DeadlineMS: c.DeadlineMS}
	if c.Commit {
		m.Outcome = Committed
	}
	c.site.locks.marked.add(c.ID, c.DeadlineMS, e.NowMS())
	e.Put(markKey(nil, at, c.ID), m.append(nil))
}

// redo does what a part writes.
func (c *claim) redo(e *command.Env) error {
	if !c.lock.Write {
		return nil
	}
	return redoAll(e, c.effects.Bytes())
}

// Cut makes two of each range lock that a boundary lies in, so that each side
// has its own when a range is given away or taken over. A group calls it for
// both ends of the range in the step that changes the owner.
func Cut(e *command.Env, l *Locks, at partition.Position) {
	var over []*Lock
	l.tree.each(at, func(lock *Lock) {
		if lock.Range && bytes.Compare(lock.At(), at) < 0 && !plant.Bug("txn-range-lock-not-cut") {
			over = append(over, lock)
		}
	})
	for _, lock := range over {
		left, right := *lock, *lock
		left.End, right.Start = clonePosition(at), clonePosition(at)
		for _, half := range []Lock{left, right} {
			e.Put(half.key(nil), half.append(nil, nil))
			l.Add(half)
		}
	}
}

// redoAll does what effects say.
func redoAll(e *command.Env, effects []byte) error {
	batch, err := effect.Parse(effects)
	if err != nil {
		return err
	}
	for _, op := range batch.All() {
		e.Redo(op)
	}
	return nil
}
