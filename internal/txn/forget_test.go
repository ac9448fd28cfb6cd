package txn

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// forgetMarks removes marks that serve nobody any more, among limit of them, as the
// housekeeping of a group does. The reply is how many; if More, go on with after = Bytes.
type forgetMarks struct {
	bound
	// span is where to look. The group owns it.
	span  partition.Span
	after []byte
	limit int
}

// Eval forgets.
func (c *forgetMarks) Eval(e *command.Env) command.Reply {
	if err := c.site.owns(c.span); err != nil {
		return failed(err)
	}
	from, to := effect.Marks.Between(c.span.Start, c.span.End)
	return forget(e, from, to, c.after, c.limit, func(_, value []byte) (bool, error) {
		m, err := DecodeMark(value)
		return e.NowMS() > m.DeadlineMS, err
	})
}

// forgetDecisions does the same with the decisions of the group: those that all parts
// have confirmed, or that would be the same without a record.
type forgetDecisions struct {
	bound
	after []byte
	limit int
}

// Eval forgets.
func (c *forgetDecisions) Eval(e *command.Env) command.Reply {
	from, to := DecisionSpan(c.site.group)
	return forget(e, from, to, c.after, c.limit, func(key, value []byte) (bool, error) {
		d, err := DecodeDecision(key, value)
		return d.Over(e.NowMS()), err
	})
}

// forget removes rows that are over.
func forget(e *command.Env, from, to, after []byte, limit int, over func(key, value []byte) (bool, error)) command.Reply {
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
