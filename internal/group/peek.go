package group

import (
	"context"
	"sync"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
)

// peeker evaluates commands outside of the queue.
type peeker struct {
	env    *command.Env
	reader swapReader
}

// swapReader is a Reader whose source changes from call to call.
type swapReader struct{ command.Reader }

var peekers = sync.Pool{New: func() any {
	p := new(peeker)
	p.env = command.NewEnv(&p.reader)
	return p
}}

// Peek evaluates a command that only reads, on the caller's goroutine, past the
// queue, against a snapshot or, if from is nil, the newest committed state. The
// latter is linearizable for commands that read a key's row and at most one of
// its elements: the row comes first, and elements of its generation are never
// written after the row is gone.
func (g *Group) Peek(ctx context.Context, c command.Command, from command.Reader) (command.Reply, error) {
	if g.closed.Load() {
		return command.Reply{}, ErrClosed
	}
	if err := g.log.ReadBarrier(ctx); err != nil {
		return command.Reply{}, err
	}
	if from == nil {
		from = g.state
	}
	p := peekers.Get().(*peeker)
	p.reader.Reader = from
	p.env.Begin(effect.Header{ClockMS: g.NowMS()}, 1)
	reply := p.env.Do(c).Clone()
	p.reader.Reader = nil
	peekers.Put(p)
	return reply, nil
}
