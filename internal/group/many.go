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
// writes of the log as it takes. Their groups share a log: what the requests of one write
// becomes visible at one moment with what those of the others do, so whoever sees what a
// request has written sees what those before it have. It keeps its memory: reset it and
// use it again. It belongs to one goroutine at a time.
type Many struct {
	calls []*call
	errs  []error
	// groups are those of the calls.
	groups []*Group
	// halted are the chains whose calls are not executed any more.
	halted map[uint64]bool
}

// Add appends a request to a group. Those with the same chain, if that is not 0, are
// executed in order or not at all: if one meets a closed gate, a lock, a range that is given
// away or a disk, those behind it are not executed, and their error is ErrBehind.
func (m *Many) Add(g *Group, r Request, chain uint64) {
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
	*c = call{Request: r, chain: chain, group: m.number(g)}
}

// number is that of a group among those of the list.
func (m *Many) number(g *Group) int {
	for i := range m.groups {
		if m.groups[i] == g {
			return i
		}
	}
	m.groups = append(m.groups, g)
	return len(m.groups) - 1
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
	clear(m.groups)
	m.calls, m.groups = m.calls[:0], m.groups[:0]
}

// Try executes the requests: see [Group.Try]. What the list points to is the groups' until
// it returns, so nothing can make it return early. If they are of one group, and more than
// its queue takes, none is executed.
func (m *Many) Try() {
	m.errs = append(m.errs[:0], make([]error, len(m.calls))...)
	switch len(m.groups) {
	case 0:
	case 1:
		g := m.groups[0]
		if err := g.actor.CallBatch(context.Background(), m.calls, m.errs); err != nil {
			for i := range m.errs {
				m.errs[i] = g.refused(err)
			}
		}
	default:
		m.tryTogether()
	}
}

// Held is for how long a writer of a position is held up: wait so long before it is
// written by [Many.Try], which does not.
func (g *Group) Held(at partition.Position) time.Duration {
	return g.slow.wait(at)
}

// behind tells whether a call must not be executed, because one of its chain was not.
func (x *executor) behind(c *call) bool {
	return c.chain != 0 && len(x.halted) > 0 && x.halted[c.chain]
}

// halt notes that the calls of a chain are not executed any more in this run, if its
// last one was not. For one whose gate was closed execute does it.
func (x *executor) halt(c *call) {
	if err := c.reply.Err; err != nil && (passes(err) || errors.Is(err, own.ErrWrongGroup) || errors.Is(err, ErrCold)) {
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
