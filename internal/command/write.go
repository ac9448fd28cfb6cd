package command

import "fmt"

// Write evaluates commands that write, one after another, all or nothing. It
// differs from a Batch in what the caller learns: that all of them took effect,
// and nothing else. So a Set whose condition does not hold fails it, with
// ErrNotStored. It keeps nothing between evaluations: the same Write may be
// evaluated again.
type Write struct{ Commands []Command }

// Eval evaluates the commands. The reply is OK, or the [WriteError] of the
// first one that failed.
func (c *Write) Eval(e *Env) Reply {
	start := e.Mark()
	for i, command := range c.Commands {
		reply := command.Eval(e)
		err := reply.Err
		if err == nil && reply.Kind == Nil {
			err = ErrNotStored
		}
		if err == nil {
			err = e.checkTxn(start, 0)
		}
		if err != nil {
			return failed(&WriteError{Index: i, Of: len(c.Commands), Err: err})
		}
	}
	return Reply{Kind: OK}
}

// WriteError says which command of a Write failed. It matches what Err matches.
type WriteError struct {
	Index, Of int
	Err       error
}

// Error names the command.
func (e *WriteError) Error() string { return fmt.Sprintf("write %d of %d: %v", e.Index+1, e.Of, e.Err) }

// Unwrap returns why it failed.
func (e *WriteError) Unwrap() error { return e.Err }
