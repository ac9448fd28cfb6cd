package group

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
)

// ErrSkipped means that a request was not executed because one before it on the same
// chain has to wait, has met a closed gate, or is of another group.
var ErrSkipped = errors.New("group: behind a request that was not executed")

// Pipeline is a list of requests that are executed in order, each by itself, with as few writes
// of the log as possible. Their groups share a log: the effects of all requests of one log write
// become visible at one moment, so a reader that sees what a request has written sees what those
// before it have. It keeps its memory: reset it and use it again. It belongs to one goroutine at
// a time.
type Pipeline struct {
	calls []*call
	errs  []error
	// groups are those of the calls.
	groups []*Group
	// run executes the calls if they are of several groups, and counts is how many each has.
	run    batchRun
	counts []uint64
}

// Add appends a request to a group. Those with the same chain, if that is not 0, are
// executed in order or not at all: if one meets a closed gate, a lock, a range that is given
// away or a disk, those behind it are not executed, and their error is ErrSkipped.
func (m *Pipeline) Add(g *Group, r Request, chain uint64) {
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
	*c = call{Request: r, chain: chain, participant: m.groupIndex(g)}
}

// groupIndex is that of a group among those of the list.
func (m *Pipeline) groupIndex(g *Group) int {
	for i := range m.groups {
		if m.groups[i] == g {
			return i
		}
	}
	m.groups = append(m.groups, g)
	return len(m.groups) - 1
}

// Len is how many requests there are.
func (m *Pipeline) Len() int { return len(m.calls) }

// Reply returns what became of a request, as [Group.Execute] would.
func (m *Pipeline) Reply(i int) (command.Reply, error) { return m.calls[i].reply, m.errs[i] }

// Reset empties the list.
func (m *Pipeline) Reset() {
	for _, c := range m.calls {
		*c = call{}
	}
	clear(m.groups)
	m.calls, m.groups = m.calls[:0], m.groups[:0]
}

// Execute executes the requests. None waits for locks or ranges. What the list points to belongs
// to the groups until it returns, so nothing can make it return early. If they are of one group,
// and more than its queue takes, none is executed.
func (m *Pipeline) Execute() {
	m.errs = append(m.errs[:0], make([]error, len(m.calls))...)
	switch len(m.groups) {
	case 0:
	case 1:
		g := m.groups[0]
		if err := g.actor.CallBatch(context.Background(), m.calls, m.errs); err != nil {
			for i := range m.errs {
				m.errs[i] = g.mailboxError(err)
			}
		}
	default:
		m.executeGroups()
	}
}

// executeGroups executes requests of several groups.
func (m *Pipeline) executeGroups() {
	err := m.run.holdGroups(context.Background(), m.groups, func() {
		m.run.execute(m.calls, m.errs)
		m.countCalls()
	})
	if err != nil {
		for i, c := range m.calls {
			m.errs[i] = m.groups[c.participant].mailboxError(err)
		}
	}
}

// countCalls counts the calls for the metrics of their groups, which only their mailboxes do for
// others.
func (m *Pipeline) countCalls() {
	m.counts = slices.Grow(m.counts[:0], len(m.groups))[:len(m.groups)]
	clear(m.counts)
	for _, c := range m.calls {
		m.counts[c.participant]++
	}
	for i, g := range m.groups {
		g.multiGroupCommands.Add(m.counts[i])
		g.multiGroupBatches.Add(1)
	}
}
