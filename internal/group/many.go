package group

import (
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// ErrBehind means that a request was not executed because one before it on the same
// chain has to wait, has met a closed gate, or is of another group.
var ErrBehind = errors.New("group: behind a request that was not executed")

// Many is a list of requests that are executed in order, each by itself, with as few
// writes of the log as it takes. It keeps its memory: reset it and use it again. It
// belongs to one goroutine at a time.
type Many struct {
	calls []*call
	errs  []error
}

// Add appends a request. Those with the same chain, if that is not 0, are executed in
// order or not at all: if one meets a closed gate, a lock or a range that is given away,
// those behind it are not executed, and their error is ErrBehind.
func (m *Many) Add(r Request, chain uint64) {
	if len(m.calls) < cap(m.calls) {
		m.calls = m.calls[:len(m.calls)+1]
	} else {
		m.calls = append(m.calls, nil)
	}
	c := m.calls[len(m.calls)-1]
	if c == nil {
		c = new(call)
		m.calls[len(m.calls)-1] = c
	}
	*c = call{Request: r, chain: chain}
}

// Len is how many requests there are.
func (m *Many) Len() int { return len(m.calls) }

// Reply returns what became of a request, as Try would.
func (m *Many) Reply(i int) (command.Reply, error) { return m.calls[i].reply, m.errs[i] }

// Reset empties the list.
func (m *Many) Reset() {
	for _, c := range m.calls {
		*c = call{}
	}
	m.calls = m.calls[:0]
}

// TryMany executes requests: see Try. What the list points to is the group's until it
// returns, so nothing can make it return early. If they are more than its queue takes,
// none is executed.
func (g *Group) TryMany(m *Many) {
	m.errs = append(m.errs[:0], make([]error, len(m.calls))...)
	if err := g.actor.CallBatch(context.Background(), m.calls, m.errs); err != nil {
		for i := range m.errs {
			m.errs[i] = g.refused(err)
		}
	}
}

// Held is for how long a writer of a position is held up: wait so long before it is
// written by TryMany, which does not.
func (g *Group) Held(at partition.Position) time.Duration {
	list := g.slow.list.Load()
	if list == nil {
		return 0
	}
	for _, s := range *list {
		if s.span.Contains(at) {
			return s.wait
		}
	}
	return 0
}

// behind tells whether a call must not be executed, because one of its chain was not.
func (x *executor) behind(c *call) bool {
	return c.chain != 0 && len(x.halted) > 0 && x.halted[c.chain]
}

// halt notes that the calls of a chain are not executed any more in this run, if its
// last one was not. For one whose gate was closed execute does it.
func (x *executor) halt(c *call) {
	if c.reply.Err != nil && (passes(c.reply.Err) || errors.Is(c.reply.Err, own.ErrWrongGroup)) {
		x.stop(c)
	}
}

// stop notes it for the chain of a call.
func (x *executor) stop(c *call) {
	if c.chain == 0 {
		return
	}
	if x.halted == nil {
		x.halted = map[uint64]bool{}
	}
	x.halted[c.chain] = true
}
