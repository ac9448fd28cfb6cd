package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/partition"
)

// ErrDefaultKeyspace means that the default keyspace cannot be dropped: delete
// its keys instead.
var ErrDefaultKeyspace = errors.New("node: the default keyspace cannot be dropped")

const droppedPrefix = "dropped/"

func droppedRow(id partition.KeyspaceID) partition.Position {
	return system.AppendPosition(nil, binary.BigEndian.AppendUint32([]byte(droppedPrefix), uint32(id)))
}

// DropKeyspace removes a keyspace. When it returns, nobody finds its keys any
// more; the room that they take is given back in the background, also over a
// restart.
func (n *Node) DropKeyspace(ctx context.Context, name string) error {
	if name == DefaultName {
		return ErrDefaultKeyspace
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	k, err := n.Keyspace(name)
	if err != nil {
		return err
	}
	err = n.change(ctx,
		&command.Delete{Keys: []partition.Position{spaceRow(name)}},
		&command.Set{Key: droppedRow(k.ID), Value: nil})
	if err != nil {
		return fmt.Errorf("drop keyspace %q: %w", name, err)
	}
	k.dropped.Store(true)
	n.mu.Lock()
	delete(n.byName, name)
	delete(n.byID, k.ID)
	n.mu.Unlock()
	n.drops.Store(true)
	return nil
}

// clearLimit is how many rows of a dropped keyspace one command removes.
const clearLimit = 1000

// clearDropped removes the rows of dropped keyspaces, and then the notes that
// they were dropped.
func (n *Node) clearDropped(ctx context.Context) (err error) {
	if !n.drops.Swap(false) {
		return nil
	}
	var ids []partition.KeyspaceID
	start := effect.Rows.AppendKey(nil, system.AppendPosition(nil, []byte(droppedPrefix)))
	err = n.parts[0].Store.Scan(start, effect.Rows.AppendKey(nil, system.Span().End), false, func(key, _ []byte) bool {
		name, _, err := system.Split(nil, key[1:])
		if err == nil && len(name) == len(droppedPrefix)+4 && string(name[:len(droppedPrefix)]) == droppedPrefix {
			ids = append(ids, partition.KeyspaceID(binary.BigEndian.Uint32(name[len(droppedPrefix):])))
		}
		return true
	})
	for _, id := range ids {
		if err != nil {
			break
		}
		err = n.clearKeyspace(ctx, id)
	}
	if err != nil {
		n.drops.Store(true) // again next time
	}
	return err
}

// clearKeyspace removes every row of a keyspace from all tables of all parts.
func (n *Node) clearKeyspace(ctx context.Context, id partition.KeyspaceID) error {
	span := (&partition.Keyspace{ID: id}).Span()
	for _, p := range n.parts {
		for _, table := range []effect.Table{effect.Rows, effect.Dedup, effect.Expiry, effect.Orphans} {
			if err := p.clear(ctx, table.AppendKey(nil, span.Start), table.AppendKey(nil, span.End)); err != nil {
				return err
			}
		}
	}
	return n.change(ctx, &command.Delete{Keys: []partition.Position{droppedRow(id)}})
}

// clear removes the rows from start to end, until it finds none: a command that
// was on its way when the keyspace was dropped may write behind it.
func (p *Part) clear(ctx context.Context, start, end []byte) error {
	for {
		n, err := p.clearOnce(ctx, start, end)
		if err != nil || n == 0 {
			return err
		}
	}
}

// clearOnce removes rows a piece at a time and returns how many. Each piece goes
// on where the last one ended: from the start on it would pass by all that the
// pieces before it have deleted.
func (p *Part) clearOnce(ctx context.Context, from, end []byte) (rows int, err error) {
	for {
		found := &clearRows{}
		if err := p.Store.Scan(from, end, false, found.add); err != nil || len(found.keys) == 0 {
			return rows, err
		}
		if reply, err := p.Group.Do(ctx, group.Request{Command: found}); err != nil || reply.Err != nil {
			return rows, errors.Join(err, reply.Err)
		}
		rows += len(found.keys)
		from = found.keys[len(found.keys)-1]
	}
}

// clearRows is the command that removes rows nobody can reach.
type clearRows struct{ keys [][]byte }

func (c *clearRows) add(key, _ []byte) bool {
	c.keys = append(c.keys, append([]byte(nil), key...))
	return len(c.keys) < clearLimit
}

// Eval deletes the rows.
func (c *clearRows) Eval(e *command.Env) command.Reply {
	for _, key := range c.keys {
		e.Effects().Delete(key)
	}
	return command.Reply{Kind: command.OK}
}
