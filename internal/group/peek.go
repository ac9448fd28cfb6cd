package group

import (
	"context"
	"sync"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
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
// queue, against the newest committed state. It is linearizable for commands
// that read a key's row and then at most one of its elements, such as HGet.
//
// A transaction may fall in between: an element that is not found may have been
// replaced together with the row, and one that is found may have been written by
// a transaction that has deleted the row as well, so that nobody ever had it. So
// either nothing became visible meanwhile, or the row is the same before and
// after; if not, it is looked at again, and then the command takes its turn.
//
// A group that has anything locked for a transaction across groups, or has given a range
// away meanwhile, is nothing for it: then the command takes its turn. That transaction may
// have seen a key alive, which does not expire for others before it is decided.
func (g *Group) Peek(ctx context.Context, key partition.Position, c command.Command) (command.Reply, error) {
	if err := g.Ready(ctx); err != nil {
		return command.Reply{}, err
	}
	g.Timely(ctx)
	list := g.visible.list.Load()
	locked, before := g.Locking()
	if !list.Reads(key) || locked {
		return g.peekInTurn(ctx, key, c)
	}
	reply, ok := g.peek(key, c)
	_, after := g.Locking()
	if !ok || g.visible.list.Load() != list || after != before && !plant.Bug("group-peek-locked-meanwhile") {
		return g.peekInTurn(ctx, key, c)
	}
	return reply, nil
}

// peekInTurn is Peek through the queue.
func (g *Group) peekInTurn(ctx context.Context, key partition.Position, c command.Command) (command.Reply, error) {
	reply, err := g.do(ctx, Request{Command: c, Key: key})
	return reply, Untouched(ctx, err)
}

// looks is how often Peek looks before it takes its turn.
const looks = 3

// peek is false if all that it has seen may be of two moments.
func (g *Group) peek(key partition.Position, c command.Command) (reply command.Reply, ok bool) {
	p := peekers.Get().(*peeker)
	p.reader.Reader = g.state
	for i := 0; i < looks && !ok; i++ {
		before := g.sequence()
		reply = p.eval(c, g.NowMS())
		// Without a row no element was looked at.
		ok = reply.Version == 0 || before%2 == 0 && g.sequence() == before || plant.Bug("group-peek-of-two-moments")
		if !ok {
			row, _, _ := g.row(key, nil) // if it cannot be read, it is not the same
			ok = row.Version == reply.Version
		}
	}
	reply = reply.Clone()
	p.reader.Reader = nil
	peekers.Put(p)
	return reply, ok
}

// sequence is that of the state, see [Looker], or odd if nobody counts.
func (g *Group) sequence() uint64 {
	if g.looker == nil {
		return 1
	}
	return g.looker.Sequence()
}

// PeekAt is Peek for any command that only reads, on a state of the past and
// its time: see node.View.
func PeekAt(c command.Command, from command.Reader, nowMS int64) command.Reply {
	p := peekers.Get().(*peeker)
	p.reader.Reader = from
	reply := p.eval(c, nowMS).Clone()
	p.reader.Reader = nil
	peekers.Put(p)
	return reply
}

// warmingReader is a Reader that brings what is asked for into memory.
type warmingReader struct {
	State
	looker Looker
}

// Get implements [command.Reader].
func (r warmingReader) Get(key, dst []byte) (value []byte, ok bool, err error) {
	if _, known := r.looker.Knows(key); !known {
		r.looker.Warm(key)
	}
	return r.State.Get(key, dst)
}

// Rehearse evaluates a command outside of the queue, and forgets the reply and the effects: what
// it has read is in memory then, as far as there is room. It waits for the disk.
func (g *Group) Rehearse(c command.Command) {
	if g.looker == nil {
		return
	}
	p := peekers.Get().(*peeker)
	p.reader.Reader = warmingReader{g.state, g.looker}
	p.eval(c, g.NowMS())
	p.reader.Reader = nil
	peekers.Put(p)
}

func (p *peeker) eval(c command.Command, nowMS int64) command.Reply {
	p.env.Begin(effect.Header{ClockMS: nowMS}, 1)
	return p.env.Do(c)
}

// Ready returns when a read that begins now sees all that was acknowledged.
func (g *Group) Ready(ctx context.Context) error {
	if !g.closed.Load() { // a group is retired first
		return g.log.ReadBarrier(ctx)
	}
	if g.retired.Load() {
		return nil // there is nothing that it would miss
	}
	return ErrClosed
}
