package serve

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

// slow does something for a client on a goroutine of its own, after all that it has
// staged. Until then the client is busy, and its requests wait. f must not point to
// anything of the round: see kept.
func (w *worker) slow(c *client, f func(ctx context.Context)) {
	if c.pending > 0 {
		w.execute()
	}
	w.defers(c, f)
}

// later leaves something to the goroutine that a client is given by release.
func (w *worker) later(c *client, f func(ctx context.Context)) {
	if !c.busy {
		c.busy = true
		w.leaving = append(w.leaving, c)
	}
	c.later = append(c.later, f)
}

// release gives the clients that have something left to do to goroutines.
func (w *worker) release() {
	for _, c := range w.leaving {
		w.s.running.Go(func() {
			c.runLater(w.s.ctx)
			c.conn.resume()
		})
	}
	clear(w.leaving)
	w.leaving = w.leaving[:0]
	w.releaseCold()
}

// runLater does what is left to do for a client, as long as it may leave the answers unread.
func (c *client) runLater(ctx context.Context) { c.later = c.runSome(ctx, c.later) }

// runSome does what comes first for a client, as long as it may leave the answers unread, and
// returns what is left.
func (c *client) runSome(ctx context.Context, list []func(context.Context)) (left []func(context.Context)) {
	for len(list) > 0 && len(c.out.Bytes) <= unread {
		list[0](ctx)
		list = list[1:]
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// waits tells whether a client that is not busy has something left to do, which comes before
// all that it asks for next.
func (c *client) waits() bool { return c.warm != nil || len(c.later) > 0 }

// kept is a request that outlives its round.
func kept(r redis.Request) redis.Request {
	args := make([][]byte, len(r.Args))
	for i, a := range r.Args {
		args[i] = bytes.Clone(a)
	}
	return redis.Request{Spec: r.Spec, Args: args}
}

// again executes a request by itself, and waits as long as it takes.
func (s *Server) again(ctx context.Context, c *client, a *ask) {
	if err := c.revoked(a); err != nil {
		c.reply(nil, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	if a.unit != nil {
		s.runUnit(ctx, a.unit)
		return
	}
	took := c.timed(&a.request, a.space, func() { s.single(ctx, c, a) })
	s.stats.took(a.request.Spec, 1, took, took)
}

// revoked is why a request must not be tried again, nil if it may: it waits as long as the client
// does not read, and its user may have been changed since.
func (c *client) revoked(a *ask) error {
	u := c.account.User()
	if a.user == nil || u == a.user || u.All() {
		return nil
	}
	if a.unit == nil {
		return c.s.permitted(c, u, a.request.Spec, a.request.Args)
	}
	for i := range a.unit.items {
		if err := c.s.permitted(c, u, a.unit.items[i].Spec, a.unit.items[i].Args); err != nil {
			return err
		}
	}
	return nil
}

// single executes a request about one key by itself.
func (s *Server) single(ctx context.Context, c *client, a *ask) {
	r := &a.request
	p := a.space.AppendPosition(nil, r.Args[r.Spec.Keys.First])
	cmd, err := r.Spec.Build(&redis.Builder{Request: r, Key: p, Room: new(redis.Room)})
	var reply command.Reply
	if err == nil {
		s.rehearse(p, cmd)
		reply, err = s.do(ctx, p, group.Request{Command: cmd, Key: p, Gate: gate(a.space, r.Spec)})
	}
	if errors.Is(err, node.ErrIndexes) || errors.Is(err, node.ErrNoKeyspace) {
		s.run(ctx, &unit{c: c, items: []item{{*r, a.space}}})
		return
	}
	reply.Err = err
	c.reply(r.Spec, func(out *redis.Writer) { r.Spec.Answer(out, r, cmd, reply) })
}

// rehearse brings into memory what a command needs, so that its group, and all who wait for that,
// need not wait for the disk.
func (s *Server) rehearse(p partition.Position, c command.Command) {
	s.node.PartOf(p).Group.Rehearse(c)
}

// warmRow brings the row at a position into memory.
func (s *Server) warmRow(ctx context.Context, part *node.Part, p partition.Position) {
	row := append(group.BeginRowKey(nil), p...)
	if _, known := part.Group.Knows(row); !known {
		s.warm(ctx, part, [][]byte{row})
	}
}

// do executes a request at the group that has a position, wherever it goes meanwhile.
func (s *Server) do(ctx context.Context, p partition.Position, r group.Request) (reply command.Reply, err error) {
	err = s.routed(ctx, p, func(part *node.Part) (err error) {
		if reply, err = part.Group.Do(ctx, r); err == nil {
			err = reply.Err
		}
		return err
	})
	return reply, err
}

// version returns the version of a key, 0 if there is none.
func (s *Server) version(ctx context.Context, k *node.Space, key []byte) (version uint64, err error) {
	p := k.AppendPosition(nil, key)
	err = s.routed(ctx, p, func(part *node.Part) error {
		s.warmRow(ctx, part, p)
		row, ok, err := part.Group.Read(ctx, p, nil)
		if version = 0; ok {
			version = row.Version
		}
		return err
	})
	return version, err
}

// routed calls f with the part that has a position, again if it turns out that another
// has it.
func (s *Server) routed(ctx context.Context, p partition.Position, f func(*node.Part) error) error {
	for attempt := 0; ; attempt++ {
		version := s.node.Map().Version()
		err := f(s.node.PartOf(p))
		if !errors.Is(err, own.ErrWrongGroup) {
			return err
		}
		if err := s.node.Reroute(ctx, version, attempt); err != nil {
			return err
		}
	}
}

// postpones tells whether a request that was refused has to be tried again.
func postpones(err error) bool {
	return err != nil && (errors.Is(err, group.ErrBehind) || errors.Is(err, group.ErrCold) || errors.Is(err, own.ErrWrongGroup) || group.Passes(err) ||
		errors.Is(err, node.ErrIndexes) || errors.Is(err, node.ErrNoKeyspace))
}
