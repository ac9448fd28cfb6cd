package server

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// cloneRequest is a request that outlives its round.
func cloneRequest(r redis.Request) redis.Request {
	args := make([][]byte, len(r.Args))
	for i, a := range r.Args {
		args[i] = bytes.Clone(a)
	}
	return redis.Request{Spec: r.Spec, Args: args}
}

// keyPosition is where the key of a request about one key is.
func (t *task) keyPosition() partition.Position {
	return t.keyspace.AppendPosition(nil, t.request.Args[t.request.Spec.Keys.First])
}

// buildCommand returns the command that a request about one key is.
func (t *task) buildCommand(p partition.Position) (command.Command, error) {
	return t.request.Spec.Build(&redis.Builder{Request: &t.request, Key: p, Pool: new(redis.CommandPool)})
}

// runExclusive executes a request about one key by itself, and waits as long as it takes. Its group, and all clients that
// wait for that, need not wait for the disk: one that only reads does so from a snapshot, and what another needs is
// brought into memory first.
func (s *Server) runExclusive(ctx context.Context, c *client, t *task) {
	r, p, began := &t.request, t.keyPosition(), time.Now()
	cmd, err := t.buildCommand(p)
	var reply command.Reply
	switch {
	case err != nil:
	case r.Spec.Flags&redis.Write == 0:
		reply, err = s.readSnapshot(ctx, t.keyspace, p, cmd)
	default:
		s.node.GroupHostAt(p).Group.PrefetchCommand(cmd)
		reply, err = s.executeOnGroup(ctx, p, group.Request{Command: cmd, Key: p, Gate: newGate(t.keyspace, r.Spec)})
	}
	if errors.Is(err, node.ErrIndexesChanged) || errors.Is(err, node.ErrNoKeyspace) {
		s.runUnitInTxn(ctx, &unit{c: c, items: []unitRequest{{*r, t.keyspace}}})
		return
	}
	reply.Err = err
	start := len(c.Out.Bytes)
	r.Spec.WriteReply(&c.Out, r, cmd, reply)
	c.recordTask(t, p, c.finishOp(r.Spec, start), began)
	c.NotifyOutput()
}

// readSnapshot executes a command that only reads on a snapshot of the store that has a position, wherever it goes
// meanwhile.
func (s *Server) readSnapshot(ctx context.Context, k *node.Keyspace, p partition.Position, c command.Command) (reply command.Reply, err error) {
	err = s.withGroup(ctx, p, func(part *node.GroupHost) error {
		v, err := s.node.Snapshot(ctx, part.Host)
		if err != nil {
			return err
		}
		defer v.Close()
		if err := k.CheckOpen(); err != nil { // not before: it must be there at that moment
			return err
		}
		nowMS, err := v.NowMS(p)
		if err == nil {
			reply = group.EvalReadOnlyAt(c, v, nowMS)
			err = reply.Err
		}
		return err
	})
	return reply, err
}

// prefetchRow brings the row at a position into memory.
func (s *Server) prefetchRow(ctx context.Context, part *node.GroupHost, p partition.Position) {
	row := append(group.AppendRowKeyPrefix(nil), p...)
	if _, known := part.Group.LookupSize(row); !known {
		prefetchRows(ctx, part.Store, [][]byte{row})
	}
}

// executeOnGroup executes a request at the group that has a position, wherever it goes meanwhile.
func (s *Server) executeOnGroup(ctx context.Context, p partition.Position, r group.Request) (reply command.Reply, err error) {
	err = s.withGroup(ctx, p, func(part *node.GroupHost) (err error) {
		if reply, err = part.Group.Execute(ctx, r); err == nil {
			err = reply.Err
		}
		return err
	})
	return reply, err
}

// readVersion returns the version of a key, 0 if there is none.
func (s *Server) readVersion(ctx context.Context, k *node.Keyspace, key []byte) (version uint64, err error) {
	p := k.AppendPosition(nil, key)
	err = s.withGroup(ctx, p, func(part *node.GroupHost) error {
		s.prefetchRow(ctx, part, p)
		row, ok, err := part.Group.Read(ctx, p, nil)
		if version = 0; ok {
			version = row.Version
		}
		return err
	})
	return version, err
}

// withGroup calls f with the part that has a position, again if it turns out that another
// has it.
func (s *Server) withGroup(ctx context.Context, p partition.Position, f func(*node.GroupHost) error) error {
	for attempt := 0; ; attempt++ {
		version := s.node.Map().Version()
		err := f(s.node.GroupHostAt(p))
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err := s.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return err
		}
	}
}

// isRetryable reports whether a request that was refused has to be tried again.
func isRetryable(err error) bool {
	return err != nil && (errors.Is(err, group.ErrSkipped) || errors.Is(err, group.ErrWouldBlock) || errors.Is(err, ownership.ErrWrongGroup) || group.IsRetryable(err) ||
		errors.Is(err, node.ErrIndexesChanged) || errors.Is(err, node.ErrNoKeyspace))
}

// foundKey is a key that a walk has found.
type foundKey struct {
	name []byte
	kind command.Kind
	// expiryMS is when it expires, 0 for never.
	expiryMS int64
}

// scanKeys visits live keys of a span in order, so many if limit is positive. Each is a read of its shard.
func (s *Server) scanKeys(ctx context.Context, k *node.Keyspace, span partition.Span, limit int, visit func(foundKey) bool) error {
	return s.scanKeysWith(ctx, k, engine.ScanOptions{Span: span, Limit: limit}, visit)
}

// surveyKeys is scanKeys for requests that ask for no keys, such as DBSIZE and INFO: what watches a server must not make
// its shards look hot.
func (s *Server) surveyKeys(ctx context.Context, k *node.Keyspace, span partition.Span, limit int, visit func(foundKey) bool) error {
	return s.scanKeysWith(ctx, k, engine.ScanOptions{Span: span, Limit: limit, Uncounted: true}, visit)
}

func (s *Server) scanKeysWith(ctx context.Context, k *node.Keyspace, o engine.ScanOptions, visit func(foundKey) bool) error {
	return s.withKeyspace(ctx, k, func() error {
		return cleave.PublicError(s.engine.ScanKeys(ctx, k, o, func(item engine.ScanItem) bool {
			return visit(foundKey{item.Key, item.Kind, item.ExpiryMS})
		}))
	})
}

// withKeyspace calls look, which reads a keyspace, or returns node.ErrNoKeyspace before it has read anything.
// The keyspace was there when the request came: if it was emptied since, there is nothing in it, and that
// is no error.
func (s *Server) withKeyspace(ctx context.Context, k *node.Keyspace, look func() error) error {
	for {
		err := look()
		if !errors.Is(err, node.ErrNoKeyspace) {
			return err
		}
		if now, gone := s.node.Successor(ctx, k); gone != nil {
			return err
		} else if now != k {
			return nil
		} // it was to be emptied, and has stayed
	}
}

// followKeyspace lets a client use the keyspace that has taken the place of its own, if that was
// emptied.
func (s *Server) followKeyspace(ctx context.Context, c *client) {
	if c.keyspace.CheckOpen() == nil {
		return
	}
	if k, err := s.node.Successor(ctx, c.keyspace); err == nil && k != c.keyspace {
		c.setKeyspace(k)
	}
}

// maxClearedKeys is how many keys are removed one by one, in one transaction.
const maxClearedKeys = 2000

// emptyKeyspace removes all keys of a keyspace: few of them as any others, and many by giving it
// another id, so that nothing has to wait until they are gone. If it has indexes, many go in
// several steps, and those that are left at one moment.
func (s *Server) emptyKeyspace(ctx context.Context, k *node.Keyspace) error {
	for {
		emptied, err := s.engine.DeleteAllKeys(ctx, k, maxClearedKeys)
		if err != nil || emptied {
			return cleave.PublicError(err)
		}
		if k.Indexes() == nil {
			err := s.node.EmptyKeyspace(ctx, k)
			s.tracker.InvalidateAll() // the feed does not have the keys of what is gone as a whole
			return err
		}
		var names [][]byte
		err = s.scanKeys(ctx, k, k.Span(), maxClearedKeys, func(found foundKey) bool {
			names = append(names, found.name)
			return true
		})
		if err == nil {
			err = s.deleteKeys(ctx, k, names)
		}
		if err != nil {
			return err
		}
	}
}

// deleteKeys deletes keys at once.
func (s *Server) deleteKeys(ctx context.Context, k *node.Keyspace, names [][]byte) error {
	var failed error
	err := s.engine.UpdateCommands(ctx, func(tx *engine.CommandTxn) {
		failed = nil
		for _, name := range names {
			p := k.AppendPosition(nil, name)
			if reply := tx.Eval(k, p, &command.WithoutEvents{Command: &command.Delete{Keys: []partition.Position{p}}}, true); reply.Err != nil {
				failed = reply.Err
				return
			}
		}
	})
	return cleave.PublicError(errors.Join(err, failed))
}

// findKeyspace returns the keyspace that a client names.
func (s *Server) findKeyspace(name string) (*node.Keyspace, error) {
	if name == "0" {
		name = node.DefaultKeyspace
	}
	space, err := s.node.Keyspace(name)
	switch {
	case err == nil && space.OwningIndex() != "":
		return nil, redis.Error("ERR the keyspace has the entries of an index: see CLEAVE.INDEX SCAN")
	case err == nil:
		return space, nil
	}
	if strings.Trim(name, "+-0123456789") == "" {
		return nil, redis.CheckDatabase([]byte(name))
	}
	return nil, redis.Error("ERR no such keyspace: create it, or SELECT 0 for the default one")
}
