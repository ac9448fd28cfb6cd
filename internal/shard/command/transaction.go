package command

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Batch evaluates commands one after another, all or nothing: the first one
// that fails fails the batch, and none has changed anything.
type Batch struct {
	Commands []Command
	// Replies gets the reply of each command. It is set by Eval, in the memory
	// that it has.
	Replies []Reply
}

// Eval evaluates the commands. The reply is OK or the first error.
func (c *Batch) Eval(e *Env) Reply {
	c.Replies = c.Replies[:0]
	start := e.Savepoint()
	for i, command := range c.Commands {
		reply := e.evalCommand(command)
		if reply.Err != nil {
			return failedReply(fmt.Errorf("command %d of %d: %w", i+1, len(c.Commands), reply.Err))
		}
		if err := e.CheckTxn(start); err != nil {
			return failedReply(err)
		}
		c.Replies = append(c.Replies, reply)
	}
	return Reply{Kind: OK}
}

// CheckTxn refuses a transaction that has written more than it may since start.
func (e *Env) CheckTxn(start Savepoint) error {
	return CheckTxn(e.writtenKeys-start.writtenKeys, e.effects.Size()-start.effectBytes)
}

// Write evaluates commands that write, one after another, all or nothing. It
// differs from a Batch in what the caller learns: that all of them took effect,
// and nothing else. So a Set whose condition does not hold fails it, with
// ErrNotStored. It keeps nothing between evaluations: the same Write may be
// evaluated again.
type Write struct{ Commands []Command }

// Eval evaluates the commands. The reply is OK, or the [WriteError] of the
// first one that failed.
func (c *Write) Eval(e *Env) Reply {
	start := e.Savepoint()
	for i, command := range c.Commands {
		reply := e.evalCommand(command)
		err := reply.Err
		if err == nil && reply.Kind == Nil {
			err = ErrNotStored
		}
		if err == nil {
			err = e.CheckTxn(start)
		}
		if err != nil {
			return failedReply(&WriteError{Index: i, Of: len(c.Commands), Err: err})
		}
	}
	return Reply{Kind: OK}
}

// WriteError names the command of a Write that failed. It matches what Err matches.
type WriteError struct {
	Index, Of int
	Err       error
}

// Error names the command.
func (e *WriteError) Error() string { return fmt.Sprintf("write %d of %d: %v", e.Index+1, e.Of, e.Err) }

// Unwrap returns why it failed.
func (e *WriteError) Unwrap() error { return e.Err }

// Read is what a transaction has seen of a key.
type Read struct {
	Key partition.Position
	// Version is that of the key when it was read, 0 if it was absent or had
	// expired.
	Version uint64
}

// RangeRead is what a transaction has seen of a range of keys.
type RangeRead struct {
	// Start and End bound the positions that were read. An empty End is the end
	// of the space.
	Start, End partition.Position
	Digest     Digest
}

// Commit is a transaction: if everything that it has read is still so, its
// writes are evaluated as one. If not, the reply is ErrConflict.
type Commit struct {
	Reads  []Read
	Ranges []RangeRead
	// Writes is the batch of what the transaction does, with room for replies.
	Writes Batch
}

// Eval validates and writes. The reply is OK or an error.
func (c *Commit) Eval(e *Env) Reply {
	if err := checkKeyCount(len(c.Reads) + len(c.Ranges)); err != nil {
		return failedReply(err)
	}
	if err := c.validateReads(e); err != nil {
		return failedReply(err)
	}
	return c.Writes.Eval(e)
}

func (c *Commit) validateReads(e *Env) error {
	for i := range c.Reads {
		row, alive, err := e.loadRow(c.Reads[i].Key)
		if err != nil {
			return err
		}
		if !alive {
			row.Version = 0
		}
		if row.Version != c.Reads[i].Version {
			return newConflict(c.Reads[i].Key, false)
		}
	}
	for i := range c.Ranges {
		r := &c.Ranges[i]
		if err := e.checkReadSpan(r.Start, r.End); err != nil {
			return err
		}
		digest, err := digestRange(e.Scan, r.Start, r.End, e.isAlive)
		if err != nil {
			return err
		}
		if digest != r.Digest {
			return newConflict(r.Start, true)
		}
	}
	return nil
}

func newConflict(start partition.Position, isRange bool) error {
	return &ConflictError{Start: bytes.Clone(start), IsRange: isRange}
}

// Digest stands for a set of live keys with their versions. Two equal ones are
// taken for the same set. It does not depend on the order in which the keys
// were added, so a scan in either direction makes it as it goes. The zero value
// is that of no keys.
type Digest struct {
	hi, lo   uint64 // sum of the keys' 128-bit hashes
	keyCount uint64
}

// Add adds a key that is alive. A version is never used twice, so its hash is
// seeded with it.
func (d *Digest) Add(p partition.Position, version uint64) {
	h := xxh3.Hash128Seed(p, version)
	var carry uint64
	d.lo, carry = bits.Add64(d.lo, h.Lo, 0)
	d.hi, _ = bits.Add64(d.hi, h.Hi, carry)
	d.keyCount++
}

// KeyCount returns how many keys were added.
func (d Digest) KeyCount() uint64 { return d.keyCount }

// DigestRange returns the digest of the keys with start <= position < end that
// are alive. An empty end is the end of the space.
func DigestRange(r Reader, start, end partition.Position, alive func(partition.Position, *Row) bool) (Digest, error) {
	return digestRange(r.Scan, start, end, alive)
}

// AliveAt checks the expiry of all keys at one time.
func AliveAt(nowMS int64) func(partition.Position, *Row) bool {
	return func(_ partition.Position, row *Row) bool { return row.IsAlive(nowMS) }
}

type scanFunc func(start, end []byte, reverse bool, visit func(key, value []byte) bool) error

func digestRange(scan scanFunc, start, end partition.Position, alive func(partition.Position, *Row) bool) (d Digest, err error) {
	var bad error
	from, to := effect.Rows.SpanBetween(start, end)
	err = scan(from, to, false, func(key, value []byte) bool {
		var row Row
		if row, bad = DecodeRow(value); bad != nil {
			return false
		}
		if row.Kind != Element && alive(key[1:], &row) {
			d.Add(key[1:], row.Version)
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return d, err
}

// Commands that free space, or lead to that, may use what is kept for them when the disk is
// full: see group.UrgentCommand.

// IsUrgent reports that it frees space.
func (c *Delete) IsUrgent() bool { return true }

// IsUrgent reports that it frees space.
func (c *HDel) IsUrgent() bool { return true }

// IsUrgent reports that it frees space, sooner or later.
func (c *Expire) IsUrgent() bool { return true }

// IsUrgent reports that it frees space.
func (c *Reap) IsUrgent() bool { return true }

// IsUrgent reports that it frees space.
func (c *Sweep) IsUrgent() bool { return true }

// IsUrgent reports whether all of its commands are.
func (c *Batch) IsUrgent() bool { return allUrgent(c.Commands) }

// IsUrgent reports whether all of its commands are.
func (c *Write) IsUrgent() bool { return allUrgent(c.Commands) }

// IsUrgent reports whether all that it writes is.
func (c *Commit) IsUrgent() bool { return c.Writes.IsUrgent() }

func allUrgent(cs []Command) bool {
	for _, c := range cs {
		if u, ok := c.(interface{ IsUrgent() bool }); !ok || !u.IsUrgent() {
			return false
		}
	}
	return len(cs) > 0
}
