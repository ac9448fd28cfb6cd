package serve

import (
	"context"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

// unitCommand runs requests as one command of a group that has all of their keys.
type unitCommand struct {
	c        *client
	requests []redis.Request
	multi    bool
	out      redis.Writer
}

// envUnit is the state of a group's batch as a unit.
type envUnit struct {
	env *command.Env
	c   *client
}

// At implements [redis.Unit].
func (u *envUnit) At(key []byte) partition.Position { return u.c.space.AppendPosition(nil, key) }

// Do implements [redis.Unit].
func (u *envUnit) Do(c command.Command) command.Reply { return u.env.Do(c) }

// NowMS implements [redis.Unit].
func (u *envUnit) NowMS() int64 { return u.env.NowMS() }

// Eval implements [command.Command]. It may be called again: then all of it is new.
func (c *unitCommand) Eval(e *command.Env) command.Reply {
	c.out = redis.Writer{Version: c.c.out.Version, Bytes: c.out.Bytes[:0]}
	if c.multi {
		c.out.Array(len(c.requests))
	}
	u := &envUnit{e, c.c}
	for i := range c.requests {
		c.requests[i].Spec.Run(u, &c.requests[i], &c.out)
	}
	return command.Reply{Kind: command.OK}
}

// unit begins requests that are executed as one.
func (w *worker) unit(c *client, u *unitCommand) {
	p := w.position(c, u.first())
	b := w.stage(c, w.s.node.PartOf(p))
	b.many.Add(group.Request{Command: u, Key: p, Gate: c.space}, c.id)
	b.asks = append(b.asks, ask{c: c, unit: u})
}

// queue is what a client has said between MULTI and EXEC.
type queue struct {
	requests []redis.Request
	failed   bool
}

// enqueue keeps a request for EXEC.
func (w *worker) enqueue(c *client, r redis.Request) {
	c.queue.requests = append(c.queue.requests, kept(r))
	w.say(c, func(out *redis.Writer) { out.Simple("QUEUED") })
}

// runUnit executes requests as one, wherever their keys are.
func (s *Server) runUnit(ctx context.Context, c *client, u *unitCommand) {
	p := c.space.AppendPosition(nil, u.first())
	reply, err := s.do(ctx, p, group.Request{Command: u, Key: p, Gate: c.space})
	if err == nil {
		err = reply.Err
	}
	if err != nil {
		c.out.Fail(err)
		return
	}
	c.out.Bytes = append(c.out.Bytes, u.out.Bytes...)
}

// kept is the same for after the round.
func (u *unitCommand) kept() *unitCommand {
	if u == nil {
		return nil
	}
	k := &unitCommand{c: u.c, multi: u.multi}
	for _, r := range u.requests {
		k.requests = append(k.requests, kept(r))
	}
	return k
}

// first is the first key of the requests, empty if they have none.
func (u *unitCommand) first() []byte {
	for i := range u.requests {
		r := &u.requests[i]
		if at, err := r.Spec.KeysOf(r.Args); err == nil && len(at) > 0 {
			return r.Args[at[0]]
		}
	}
	return nil
}
