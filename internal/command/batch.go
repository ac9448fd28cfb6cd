package command

import "fmt"

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
	start := e.Mark()
	for i, command := range c.Commands {
		reply := command.Eval(e)
		if reply.Err != nil {
			return failed(fmt.Errorf("command %d of %d: %w", i+1, len(c.Commands), reply.Err))
		}
		if err := e.checkTxn(start, 0); err != nil {
			return failed(err)
		}
		c.Replies = append(c.Replies, reply)
	}
	return Reply{Kind: OK}
}

// checkTxn refuses a transaction that has grown over its limits since start.
func (e *Env) checkTxn(start Point, reads int) error {
	return CheckTxn(e.rows-start.rows+reads, e.out.Size()-start.size)
}
