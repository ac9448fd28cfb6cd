package txn

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Prepare validates a part, locks what it reads and writes, and keeps what it
// is going to do until it is resolved. The reply is OK, also if it was prepared
// before. [ErrLocked] and [command.ErrConflict] are for a new attempt with a new
// ID; so are ErrDeadline and ErrFinished, if anybody waits for the answer.
type Prepare struct {
	bound
	ID         ID
	Part       Part
	Decider    partition.GroupID
	DeadlineMS int64
}

// Eval prepares the part.
func (c *Prepare) Eval(e *command.Env) command.Reply {
	done, err := c.admit(e)
	if err != nil {
		return failed(err)
	}
	if done {
		return command.Reply{Kind: command.OK}
	}
	t, err := c.site.try(e, c.ID, &c.Part)
	if err != nil {
		return failed(err)
	}
	for i := range t.locks {
		if at := t.locks[i].lock.Start; !bytes.Equal(at, c.Part.Span.Start) { // that was checked
			if err := c.checkMark(e, at); err != nil {
				return failed(err)
			}
		}
	}
	for i := range t.locks {
		lock, effects := t.locks[i].lock, &t.locks[i].effects
		if !lock.Write && plant.Bug("txn-read-locks-not-taken") {
			continue
		}
		lock.Txn, lock.Part = c.ID, clonePosition(c.Part.Span.Start)
		lock.Decider, lock.DeadlineMS, lock.PrepareMS = c.Decider, c.DeadlineMS, e.NowMS()
		var ops []byte
		if lock.Write {
			ops = effects.Bytes()
		}
		e.Put(lock.key(nil), lock.append(nil, ops))
		c.site.locks.Add(lock)
	}
	return command.Reply{Kind: command.OK}
}

// admit tells whether the part is prepared already, or why it must not be.
func (c *Prepare) admit(e *command.Env) (done bool, err error) {
	if c.ID == (ID{}) || c.Decider == 0 || c.DeadlineMS < 0 || c.Part.Span.Empty() {
		return false, fmt.Errorf("%w: it needs an ID, a decider, a deadline and a span", ErrPart)
	}
	if err := c.site.owns(c.Part.Span); err != nil {
		return false, err
	}
	if err := c.checkMark(e, c.Part.Span.Start); err != nil {
		return false, err
	}
	for _, lock := range c.site.locks.txns[c.ID] {
		if bytes.Equal(lock.Part, c.Part.Span.Start) {
			return true, nil
		}
	}
	if e.NowMS() > c.DeadlineMS && !plant.Bug("txn-prepare-past-deadline") {
		return false, ErrDeadline
	}
	return false, nil
}

// checkMark refuses it if the transaction is finished at a position.
func (c *Prepare) checkMark(e *command.Env, at partition.Position) error {
	if c.site.locks.marked.unknown(c.ID, c.DeadlineMS, e.NowMS()) {
		return nil
	}
	mark, finished, err := loadMark(e, at, c.ID)
	if err == nil && finished {
		err = fmt.Errorf("%w: it was %v", ErrFinished, mark.Outcome)
	}
	return err
}
