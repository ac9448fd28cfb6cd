package group

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/txn"
)

// looking is how far a table was looked through for rows that are over.
type looking struct {
	from []byte // store key to go on at
	atMS int64  // not before that time
	some bool   // since the beginning there were rows
	idle int    // how often there were none
}

// mostIdleMS is up to when it looks half as often each time that there is nothing: a look
// sorts what was written since the last one.
const mostIdleMS = 60_000

// forget removes a few rows that nobody asks for any more: records of requests that
// are refused by now anyway, marks of transactions past their deadline, and
// decisions that all have heard of.
func (g *Group) forget(ctx context.Context) (more bool, err error) {
	now, remember := g.clock.now(), g.opts.Remember.Milliseconds()
	requests, err1 := g.lookThrough(ctx, &g.tend.requests, remember/10, effect.Dedup.Span, func(key, _ []byte) (bool, error) {
		id, ok := dedupID(key)
		return ok && id.TimeMS() < now-remember && g.serves(key[1:]), nil
	})
	marks, err2 := g.lookThrough(ctx, &g.tend.marks, forgetEveryMS, effect.Marks.Span, func(key, value []byte) (bool, error) {
		m, err := txn.DecodeMark(value)
		return now > m.DeadlineMS && g.serves(key[1:]), err
	})
	decided := func() (from, to []byte) { return txn.DecisionSpan(g.opts.ID) }
	decisions, err3 := g.lookThrough(ctx, &g.tend.decisions, forgetEveryMS, decided, func(key, value []byte) (bool, error) {
		d, err := txn.DecodeDecision(key, value)
		return err == nil && d.Over(now), err
	})
	return requests || marks || decisions, errors.Join(err1, err2, err3)
}

// forgetEveryMS is how often what transactions have left is looked through: seldom against
// how long it is kept, for a look passes all that is too young, and the gaps of what is gone.
const forgetEveryMS = txn.KeepMS / 2

// lookThrough looks at the next rows of a span of store keys and removes those that
// are over. When it has seen all, it waits before it begins again.
func (g *Group) lookThrough(
	ctx context.Context, l *looking, everyMS int64,
	span func() (from, to []byte), over func(key, value []byte) (bool, error),
) (more bool, err error) {
	now := g.clock.now()
	if now < l.atMS {
		return false, nil
	}
	old := &forgetRows{}
	var bad error
	from, to := span()
	next, err := g.walk(from, to, l.from, tendLimit, func(key, value []byte) {
		l.some = true
		dead, err := over(key, value)
		if err != nil {
			bad = err
		} else if dead {
			old.keys = append(old.keys, bytes.Clone(key))
		}
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return false, err
	}
	if l.from = next; next == nil {
		if l.idle++; l.some {
			l.idle = 0
		}
		idle := min(everyMS<<min(l.idle, 10), mostIdleMS)
		l.atMS, l.some = now+max(everyMS, idle), false
	}
	if len(old.keys) > 0 {
		batch := []*call{{Request: Request{Command: old}}}
		if err = g.post(ctx, batch); err == nil {
			err = failure(batch)
		}
	}
	return next != nil, err
}

// forgetRows is the command that removes rows that are over.
type forgetRows struct{ keys [][]byte }

// Eval deletes the rows. Those that are locked, or on their way elsewhere, are left to a later look.
func (c *forgetRows) Eval(e *command.Env) command.Reply {
	for _, key := range c.keys {
		// The state is the group's own.
		if effect.Table(key[0]) == effect.State || e.MayWrite(key[1:]) == nil {
			e.Delete(key)
		}
	}
	return command.Reply{Kind: command.OK}
}

// Urgent implements [Urgent]: it makes room.
func (c *forgetRows) Urgent() bool { return true }
