package group

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
)

// parts returns where a command has the replies of its parts, nil if it has
// none.
func parts(c command.Command) *[]command.Reply {
	switch c := c.(type) {
	case *command.Batch:
		return &c.Replies
	case *command.Commit:
		return &c.Writes.Replies
	}
	return nil
}

// keepReply moves what the reply points to out of the batch's memory, which the
// next batch overwrites.
func keepReply(c *call) {
	c.reply = c.reply.Clone()
	if p := parts(c.Command); p != nil {
		for i := range *p {
			(*p)[i] = (*p)[i].Clone()
		}
	}
}

// remember writes the record of an executed request into the batch, where others of the
// same request find it, transactions included.
func (x *executor) remember(c *call) {
	if plant.Bug("dedup-lost") {
		return
	}
	x.scratch = c.dedupKey(x.scratch[:0])
	key := len(x.scratch)
	x.scratch = appendRecord(x.scratch, &c.reply)
	if p := parts(c.Command); p != nil {
		for i := range *p {
			x.scratch = appendBytes(x.scratch, appendRecord(nil, &(*p)[i]))
		}
	}
	x.env.Put(x.scratch[:key], x.scratch[key:])
}

// recallReply answers a call from the record of its request.
func recallReply(c *call, record []byte) (err error) {
	d := recordReader{rest: record}
	if c.reply, err = d.reply(); err != nil {
		return err
	}
	p := parts(c.Command)
	if p == nil {
		if len(d.rest) != 0 {
			return fmt.Errorf("%w: the id was used for another command", errRecord)
		}
		return nil
	}
	*p = (*p)[:0]
	for len(d.rest) > 0 {
		part := recordReader{rest: d.bytes()}
		r, err := part.reply()
		if err != nil || d.bad {
			return errRecord
		}
		*p = append(*p, r)
	}
	return nil
}
