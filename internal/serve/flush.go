package serve

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	handleSlow(map[string]func(*turn){
		"flushdb":  func(t *turn) { flush(t, func() []*node.Space { return []*node.Space{t.c.space} }) },
		"flushall": func(t *turn) { flush(t, t.s.node.Keyspaces) },
		"save":     save, "bgsave": save,
	})
}

// flush removes all keys of keyspaces. Each is empty at one moment.
func flush(t *turn, which func() []*node.Space) {
	if len(t.Args) > 2 || len(t.Args) == 2 && !redis.Is(t.Args[1], "ASYNC") && !redis.Is(t.Args[1], "SYNC") {
		t.out.Fail(redis.ErrSyntax)
		return
	}
	for _, k := range which() {
		if k.OfIndex() != "" {
			continue // its entries follow from the rows
		}
		if err := t.s.empty(t.ctx, k); err != nil && !errors.Is(err, node.ErrNoKeyspace) {
			t.out.Fail(err)
			return
		}
	}
	t.s.follow(t.ctx, t.c)
	t.out.OK()
}

// follow lets a client use the keyspace that has taken the place of its own, if that was
// emptied.
func (s *Server) follow(ctx context.Context, c *client) {
	if c.space.Check() == nil {
		return
	}
	if k, err := s.node.Successor(ctx, c.space); err == nil && k != c.space {
		c.use(k)
	}
}

// fewKeys is how many keys are removed one by one, in one transaction.
const fewKeys = 2000

// empty removes all keys of a keyspace: few of them as any others, and many by giving it
// another id, so that nothing has to wait until they are gone. If it has indexes, many go in
// several steps, and those that are left at one moment.
func (s *Server) empty(ctx context.Context, k *node.Space) error {
	for {
		emptied, err := inside.Clear(ctx, s.db, k, fewKeys)
		if err != nil || emptied {
			return err
		}
		if k.Indexes() == nil {
			err := s.node.EmptyKeyspace(ctx, k)
			s.tracker.flushed() // the feed does not tell the keys of what is gone as a whole
			return err
		}
		var names [][]byte
		err = s.walk(ctx, k, k.Span(), fewKeys, func(found key) bool {
			names = append(names, found.name)
			return true
		})
		if err == nil {
			err = s.deleteAll(ctx, k, names)
		}
		if err != nil {
			return err
		}
	}
}

// deleteAll deletes keys at once.
func (s *Server) deleteAll(ctx context.Context, k *node.Space, names [][]byte) error {
	var failed error
	err := inside.Update(ctx, s.db, func(tx inside.Txn) {
		failed = nil
		for _, name := range names {
			p := k.AppendPosition(nil, name)
			if reply := tx.Do(k, p, &command.Delete{Keys: []partition.Position{p}}, true); reply.Err != nil {
				failed = reply.Err
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// save waits until all that was acknowledged is on disk.
func save(t *turn) {
	for _, h := range t.s.node.Hosts() {
		if err := h.Store.Sync(); err != nil {
			t.out.Fail(err)
			return
		}
	}
	if t.Spec.Name == "bgsave" {
		t.out.Simple("Background saving started")
		return
	}
	t.out.OK()
}
