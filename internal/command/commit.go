package command

import (
	"bytes"

	"github.com/cleavekv/cleave/partition"
)

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
	reads := len(c.Reads) + len(c.Ranges)
	if err := checkCount(reads); err != nil {
		return failed(err)
	}
	if err := c.validate(e); err != nil {
		return failed(err)
	}
	start := e.Mark()
	reply := c.Writes.Eval(e)
	if reply.Err == nil {
		if err := e.checkTxn(start, reads); err != nil {
			return failed(err)
		}
	}
	return reply
}

func (c *Commit) validate(e *Env) error {
	for i := range c.Reads {
		row, alive, err := e.load(c.Reads[i].Key)
		if err != nil {
			return err
		}
		if !alive {
			row.Version = 0
		}
		if row.Version != c.Reads[i].Version {
			return conflict(c.Reads[i].Key, false)
		}
	}
	for i := range c.Ranges {
		r := &c.Ranges[i]
		if err := e.mayReadSpan(r.Start, r.End); err != nil {
			return err
		}
		digest, err := digestRange(e.Scan, r.Start, r.End, e.alive)
		if err != nil {
			return err
		}
		if digest != r.Digest {
			return conflict(r.Start, true)
		}
	}
	return nil
}

func conflict(start partition.Position, isRange bool) error {
	return &ConflictError{Start: bytes.Clone(start), Range: isRange}
}
