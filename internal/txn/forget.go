package txn

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Forget removes marks that serve nobody any more, among Limit of them. The
// reply is how many; if More, go on with After = Bytes.
type Forget struct {
	bound
	// Span is where to look. The group owns it.
	Span  partition.Span
	After []byte
	Limit int
}

// Eval forgets.
func (c *Forget) Eval(e *command.Env) command.Reply {
	if err := c.site.owns(c.Span); err != nil {
		return failed(err)
	}
	from, to := effect.Marks.Between(c.Span.Start, c.Span.End)
	return forget(e, from, to, c.After, c.Limit, func(_, value []byte) (bool, error) {
		m, err := DecodeMark(value)
		return e.NowMS() > m.DeadlineMS, err
	})
}

// ForgetDecisions is Forget for the decisions of the group: those that all parts
// have confirmed, or that would be the same without a record.
type ForgetDecisions struct {
	bound
	After []byte
	Limit int
}

// Eval forgets.
func (c *ForgetDecisions) Eval(e *command.Env) command.Reply {
	from, to := DecisionSpan(c.site.group)
	return forget(e, from, to, c.After, c.Limit, func(key, value []byte) (bool, error) {
		d, err := DecodeDecision(key, value)
		return d.Over(e.NowMS()), err
	})
}

// forget removes rows that are over.
func forget(e *command.Env, from, to, after []byte, limit int, over func(key, value []byte) (bool, error)) command.Reply {
	if limit <= 0 {
		return failed(fmt.Errorf("%w: the limit must be positive", command.ErrSyntax))
	}
	if len(after) > 0 {
		from = append(bytes.Clone(after), 0)
	}
	var old [][]byte
	var last []byte
	var bad error
	seen, more := 0, false
	err := e.Scan(from, to, false, func(key, value []byte) bool {
		if more = seen == limit; more {
			return false
		}
		seen++
		last = bytes.Clone(key)
		var dead bool
		if dead, bad = over(key, value); dead && bad == nil {
			old = append(old, last)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return failed(err)
	}
	for _, key := range old {
		e.Delete(key)
	}
	return command.Reply{Kind: command.Int, Int: int64(len(old)), More: more, Bytes: last}
}
