package group

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/command"
)

// Many is a list of requests that are executed in order, each by itself, with as few
// writes of the log as it takes. It keeps its memory: reset it and use it again. It
// belongs to one goroutine at a time.
type Many struct {
	calls []*call
	errs  []error
}

// Add appends a request.
func (m *Many) Add(r Request) {
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
	*c = call{Request: r}
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

// TryMany executes requests in order: see Try. There is no other request of the
// group between them, unless they are more than fit into a batch. The error is that of
// all of them, if none was executed; see Many.Reply for each. ctx must not end: what
// the list points to is the group's until it returns.
func (g *Group) TryMany(ctx context.Context, m *Many) error {
	m.errs = append(m.errs[:0], make([]error, len(m.calls))...)
	for from := 0; from < len(m.calls); {
		to := min(len(m.calls), from+g.opts.Queue)
		err := g.actor.CallBatch(ctx, m.calls[from:to], m.errs[from:to])
		if err != nil {
			if errors.Is(err, actor.ErrAbandoned) {
				return g.refused(err)
			}
			for i := from; i < len(m.calls); i++ {
				m.errs[i] = g.refused(err)
			}
			return nil
		}
		from = to
	}
	return nil
}
