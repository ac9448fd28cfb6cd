package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
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
	if err := lock(ctx, &n.changing); err != nil {
		return err
	}
	defer n.changing.Unlock()
	k, err := n.Keyspace(name)
	if err != nil {
		return err
	}
	if k.of != "" {
		return fmt.Errorf("%w: keyspace %q is that of an index: drop %s", ErrIndexSpace, name, k.of)
	}
	indexes := n.indexesOf(name)
	commands := dropCommands(k)
	for _, x := range indexes {
		commands = append(commands, x.dropCommands()...)
	}
	if err := n.enter(ctx, &leaving{command.Batch{Commands: commands}}); err != nil {
		return fmt.Errorf("drop keyspace %q: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(k)
	n.pins.more.ring() // those of its keys end
	n.dropping.ring()
	for _, x := range indexes {
		n.forgetIndex(x)
	}
	return nil
}

// NextDrop returns a channel that is closed when a keyspace is dropped after the call. One that
// is emptied stays.
func (n *Node) NextDrop() <-chan struct{} { return n.dropping.listen() }

// dropCommands are those that remove a keyspace from the catalog, and note that it has
// to be cleared.
func dropCommands(k *Space) []command.Command {
	return []command.Command{
		&command.Delete{Keys: []partition.Position{spaceRow(k.Name)}},
		&command.Set{Key: droppedRow(k.ID), Value: nil},
	}
}

// forget closes a keyspace that is not in the catalog any more. mu is held.
func (n *Node) forget(k *Space) {
	k.dropped.Store(true)
	close(k.gone)
	delete(n.byName, k.Name)
	delete(n.byID, k.ID)
	n.drops.Store(true)
}

// leaving is what the catalog notes of a keyspace or an index that goes.
type leaving struct{ command.Batch }

// Urgent tells that it makes room: who drops one on a full disk does it for that.
func (c *leaving) Urgent() bool { return true }

// clearLimit is how many rows of a dropped keyspace one command removes.
const clearLimit = 1000

// clearDropped removes the rows of dropped keyspaces, and then the notes that
// they were dropped. One that cannot be cleared now, as a shard of it changes hands,
// keeps no other from it.
func (n *Node) clearDropped(ctx context.Context) error {
	if !n.drops.Swap(false) {
		return nil
	}
	ids, err := n.droppedIDs(ctx)
	for _, id := range ids {
		if ended := ctx.Err(); ended != nil {
			err = errors.Join(err, ended)
			break
		}
		err = errors.Join(err, n.clearKeyspace(ctx, id))
	}
	if err != nil {
		n.drops.Store(true) // again next time
	}
	return err
}

// droppedIDs returns the keyspaces that were dropped and may have rows. Whoever
// drops one notes that first and closes it second, and is not looked at in
// between: a keyspace that is open must not be cleared.
func (n *Node) droppedIDs(ctx context.Context) (ids []partition.KeyspaceID, err error) {
	if err := lock(ctx, &n.changing); err != nil {
		return nil, err
	}
	defer n.changing.Unlock()
	return n.notedIDs()
}

// notedIDs is droppedIDs while changing is held.
func (n *Node) notedIDs() (ids []partition.KeyspaceID, err error) {
	start := effect.Rows.AppendKey(nil, system.AppendPosition(nil, []byte(droppedPrefix)))
	err = n.PartOf(start[1:]).Store.ScanBriefly(start, effect.Rows.AppendKey(nil, system.Span().End), false, func(key, _ []byte) bool {
		name, _, err := system.Split(nil, key[1:])
		if err == nil && len(name) == len(droppedPrefix)+4 && string(name[:len(droppedPrefix)]) == droppedPrefix {
			ids = append(ids, partition.KeyspaceID(binary.BigEndian.Uint32(name[len(droppedPrefix):])))
		}
		return true
	})
	return ids, err
}

// clearKeyspace removes every row of a keyspace from all tables of all parts.
//
// The keyspace is closed as a gate (see [group.Gate]). Behind a command of our
// own nothing more is written to it but by housekeeping, which removes things
// and notes where it goes on, for as long as there is something to note.
func (n *Node) clearKeyspace(ctx context.Context, id partition.KeyspaceID) error {
	span := (&partition.Keyspace{ID: id}).Span()
	for _, p := range n.Parts() {
		if err := p.do(ctx, &clearRows{}); err != nil {
			return err
		}
	}
	// A transaction that is on its way may still write what it has locked. Locks change hands
	// with their ranges: so who has them is looked at before, and only that group is asked to
	// clear them, which it refuses if it has them no more.
	version, pieces := n.Map().Version(), n.Pieces(span)
	if err := n.settleSpan(ctx, span); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := piece.Part.clearSpan(ctx, piece.Span); err != nil {
			return err
		}
	}
	for s := range n.Map().Shards(span) {
		if s.Changed > version { // where nothing was found, it was perhaps moved away
			return fmt.Errorf("%w: %v has changed hands while it was cleared", own.ErrWrongGroup, s.ID)
		}
	}
	// The note is synced, so what it stands for must be before it goes: otherwise
	// a crash could bring back rows that nobody knows of.
	for _, h := range n.hosts {
		if err := h.Store.Sync(); err != nil {
			return err
		}
	}
	return n.enter(ctx, &leaving{command.Batch{Commands: []command.Command{&command.Delete{Keys: []partition.Position{droppedRow(id)}}}}})
}

// clearSpan removes every row of a span that the group owns from all tables.
func (p *Part) clearSpan(ctx context.Context, s partition.Span) error {
	for _, table := range effect.ByPosition {
		if err := p.clear(ctx, table.AppendKey(nil, s.Start), table.AppendKey(nil, s.End)); err != nil {
			return err
		}
	}
	return nil
}

// clear removes the rows from one key to another, a piece at a time. Each piece
// goes on where the last one ended: from the start on it would pass by all that
// the pieces before it have deleted.
func (p *Part) clear(ctx context.Context, from, end []byte) error {
	for {
		found := &clearRows{}
		if err := p.Store.Scan(from, end, false, found.add); err != nil || len(found.keys) == 0 {
			return err
		}
		if err := p.do(ctx, found); err != nil {
			return err
		}
		from = found.keys[len(found.keys)-1]
	}
}

// do executes a command of the node's own.
func (p *Part) do(ctx context.Context, c command.Command) error {
	reply, err := p.Group.Do(ctx, group.Request{Command: c})
	return errors.Join(err, reply.Err)
}

// clearRows is the command that removes rows nobody can reach. The group must serve
// their ranges: what is removed from one that is frozen, or being copied, would come
// back, and what another group has is that one's to remove.
type clearRows struct {
	keys [][]byte
	site *own.Site
}

// Bind says where the command is evaluated.
func (c *clearRows) Bind(s *own.Site) { c.site = s }

func (c *clearRows) add(key, _ []byte) bool {
	c.keys = append(c.keys, append([]byte(nil), key...))
	return len(c.keys) < clearLimit
}

// Urgent tells that it gives room back.
func (c *clearRows) Urgent() bool { return true }

// Eval deletes the rows.
func (c *clearRows) Eval(e *command.Env) command.Reply {
	for _, key := range c.keys {
		if err := c.site.Check(key[1:], true); err != nil {
			return command.Reply{Kind: command.Failed, Err: err}
		}
		e.Effects().Delete(key)
	}
	return command.Reply{Kind: command.OK}
}
