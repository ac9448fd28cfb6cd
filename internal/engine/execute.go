package engine

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Execute executes a command that writes on the group of its first key. An id that is not zero makes
// a retry harmless.
func (db *DB) Execute(ctx context.Context, k *node.Keyspace, p partition.Position, id group.RequestID, c command.Command) (command.Reply, error) {
	if err := CheckWritable(k); err != nil {
		return command.Reply{}, err
	}
	if k.Indexes() != nil {
		return db.executeIndexed(ctx, k, p, id, c)
	}
	r := group.Request{Command: c, Key: p, ID: id, Gate: node.UnindexedGate{Keyspace: k}}
	reply, err := db.node.GroupHostAt(p).Group.Execute(ctx, r)
	if err == nil {
		err = reply.Err
	}
	if errors.Is(err, ownership.ErrWrongGroup) {
		err = db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
			if reply, err = part.Group.Execute(ctx, r); err == nil {
				err = reply.Err
			}
			return err
		})
	}
	if errors.Is(err, node.ErrIndexesChanged) { // it has got one meanwhile
		return db.executeIndexed(ctx, k, p, id, c)
	}
	return reply, withKeyName(keyRef{k, p}, err)
}
