package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/command"
)

// ErrRepeated means that a request was executed before.
var ErrRepeated = errors.New("group: the request was executed before")

// Once is a command that makes a transaction one that is not executed again: it keeps
// the record of a request that Do would keep, or fails with ErrRepeated if there is
// one. It comes first in the part of the transaction that writes the key.
type Once struct {
	// Request has the Key and ID. If it has a Command, that is evaluated, and its reply
	// is what is recorded.
	Request  Request
	Remember time.Duration // as that of the group, 0 for the default
}

// Eval looks for the record, and leaves it.
func (c *Once) Eval(e *command.Env) command.Reply {
	remember := c.Remember
	setDefault(&remember, defaultRemember)
	err := checkID(c.Request.ID, e.NowMS(), remember)
	key := c.Request.dedupKey(nil)
	if err == nil {
		var found bool
		if _, found, err = e.Get(key, nil); err == nil && found {
			err = ErrRepeated
		}
	}
	if err == nil {
		err = e.MayWrite(c.Request.Key) // also if nothing else is changed: the record is a write
	}
	if err != nil {
		return command.Reply{Kind: command.Failed, Err: err}
	}
	reply := command.Reply{Kind: command.OK}
	if c.Request.Command != nil {
		if reply = e.Do(c.Request.Command); reply.Err != nil {
			return reply
		}
	}
	e.Put(key, appendRecord(nil, &reply))
	return reply
}

// Recall is a command that tells whether there is the record of a request: Int is 1,
// and Bytes are the record, see [Recorded].
type Recall struct{ Request Request }

// Recorded returns the reply that a record is of.
func Recorded(record []byte) (command.Reply, error) {
	d := recordReader{rest: record}
	reply, err := d.reply()
	if err == nil && len(d.rest) != 0 {
		err = fmt.Errorf("%w: the id was used for another command", errRecord)
	}
	return reply, err
}

// Eval looks for the record. One that a transaction is about to write may be there
// already, so a lock is waited for; and what another group has is not here.
func (c *Recall) Eval(e *command.Env) command.Reply {
	err, found := e.MayRead(c.Request.Key), false
	var record []byte
	if err == nil {
		record, found, err = e.Get(c.Request.dedupKey(nil), nil)
	}
	switch {
	case err != nil:
		return command.Reply{Kind: command.Failed, Err: err}
	case found:
		return command.Reply{Kind: command.Int, Int: 1, Bytes: record}
	}
	return command.Reply{Kind: command.Int}
}
