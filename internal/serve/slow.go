package serve

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

// kept is a request that outlives its round.
func kept(r redis.Request) redis.Request {
	args := make([][]byte, len(r.Args))
	for i, a := range r.Args {
		args[i] = bytes.Clone(a)
	}
	return redis.Request{Spec: r.Spec, Args: args}
}

// position is where the key of a request about one key is.
func (t *task) position() partition.Position {
	return t.space.AppendPosition(nil, t.request.Args[t.request.Spec.Keys.First])
}

// compose returns the command that a request about one key is.
func (t *task) compose(p partition.Position) (command.Command, error) {
	return t.request.Spec.Build(&redis.Builder{Request: &t.request, Key: p, Room: new(redis.Room)})
}

// single executes a request about one key by itself, and waits as long as it takes. Its group, and all who
// wait for that, need not wait for the disk: one that only reads does so from a snapshot, and what another needs is
// brought into memory first.
func (s *Server) single(ctx context.Context, c *client, t *task) {
	r, p := &t.request, t.position()
	cmd, err := t.compose(p)
	var reply command.Reply
	switch {
	case err != nil:
	case r.Spec.Flags&redis.Write == 0 && !plant.Bug("serve-reads-in-turn"):
		reply, err = s.peek(ctx, t.space, p, cmd)
	default:
		s.node.PartOf(p).Group.Rehearse(cmd)
		reply, err = s.do(ctx, p, group.Request{Command: cmd, Key: p, Gate: gate(t.space, r.Spec)})
	}
	if errors.Is(err, node.ErrIndexes) || errors.Is(err, node.ErrNoKeyspace) {
		s.run(ctx, &unit{c: c, items: []item{{*r, t.space}}})
		return
	}
	reply.Err = err
	c.reply(r.Spec, func(out *redis.Writer) { r.Spec.Answer(out, r, cmd, reply) })
}

// peek executes a command that only reads on a snapshot of the store that has a position, wherever it goes
// meanwhile.
func (s *Server) peek(ctx context.Context, k *node.Space, p partition.Position, c command.Command) (reply command.Reply, err error) {
	err = s.routed(ctx, p, func(part *node.Part) error {
		v, err := s.node.View(ctx, part.Host)
		if err != nil {
			return err
		}
		defer v.Close()
		if err := k.Check(); err != nil { // not before: it must be there at that moment
			return err
		}
		nowMS, err := v.NowMS(p)
		if err == nil {
			reply = group.PeekAt(c, v, nowMS)
			err = reply.Err
		}
		return err
	})
	return reply, err
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
