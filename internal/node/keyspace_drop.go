package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// ErrDefaultKeyspace means that the default keyspace cannot be dropped: delete
// its keys instead.
var ErrDefaultKeyspace = errors.New("node: the default keyspace cannot be dropped")

const droppedPrefix = "dropped/"

func droppedKey(id partition.KeyspaceID) partition.Position {
	return systemKeyspace.AppendPosition(nil, binary.BigEndian.AppendUint32([]byte(droppedPrefix), uint32(id)))
}

// DropKeyspace removes a keyspace. When it returns, no caller finds its keys any more; their
// space is reclaimed in the background, also over a restart.
func (n *Node) DropKeyspace(ctx context.Context, name string) error {
	if name == DefaultKeyspace {
		return ErrDefaultKeyspace
	}
	if err := lockContext(ctx, &n.changeMu); err != nil {
		return err
	}
	defer n.changeMu.Unlock()
	k, err := n.Keyspace(name)
	if err != nil {
		return err
	}
	if k.owningIndex != "" {
		return fmt.Errorf("%w: keyspace %q is that of an index: drop %s", ErrIndexKeyspace, name, k.owningIndex)
	}
	indexes := n.indexesOf(name)
	commands := dropKeyspaceCommands(k)
	for _, x := range indexes {
		commands = append(commands, x.dropCommands()...)
	}
	if err := n.writeCatalog(ctx, &dropBatch{command.Batch{Commands: commands}}); err != nil {
		return fmt.Errorf("drop keyspace %q: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeKeyspace(k)
	n.pins.changed.notify() // those of its keys end
	n.dropped.notify()
	for _, x := range indexes {
		n.removeIndex(x)
	}
	return nil
}

// NextDrop returns a channel that is closed when a keyspace is dropped after the call. One that
// is emptied stays.
func (n *Node) NextDrop() <-chan struct{} { return n.dropped.subscribe() }

// dropKeyspaceCommands are those that remove a keyspace from the catalog, and note that it has
// to be cleared.
func dropKeyspaceCommands(k *Keyspace) []command.Command {
	return []command.Command{
		&command.Delete{Keys: []partition.Position{keyspaceKey(k.Name)}},
		&command.Set{Key: droppedKey(k.ID), Value: nil},
	}
}

// removeKeyspace closes a keyspace that is not in the catalog any more. mu is held.
func (n *Node) removeKeyspace(k *Keyspace) {
	k.isDropped.Store(true)
	close(k.droppedCh)
	delete(n.byName, k.Name)
	delete(n.byID, k.ID)
	n.hasDropped.Store(true)
}

// dropBatch is what the catalog notes of a keyspace or an index that goes.
type dropBatch struct{ command.Batch }

// IsUrgent reports that it frees space: on a full disk, a keyspace is dropped for that.
func (c *dropBatch) IsUrgent() bool { return true }

// maxClearedRows is how many rows of a dropped keyspace one command removes.
const maxClearedRows = 1000

// clearDropped removes the rows of dropped keyspaces, and then the notes that
// they were dropped. One that cannot be cleared now, as a shard of it changes hands,
// keeps no other from it.
func (n *Node) clearDropped(ctx context.Context) error {
	if !n.hasDropped.Swap(false) {
		return nil
	}
	ids, err := n.loadDroppedIDs(ctx)
	for _, id := range ids {
		if ended := ctx.Err(); ended != nil {
			err = errors.Join(err, ended)
			break
		}
		err = errors.Join(err, n.clearKeyspace(ctx, id))
	}
	if err != nil {
		n.hasDropped.Store(true) // again next time
	}
	return err
}

// loadDroppedIDs returns the keyspaces that were dropped and may have rows. A drop notes that
// first and closes the keyspace second, and changeMu is held in between: a keyspace that is open
// must not be cleared.
func (n *Node) loadDroppedIDs(ctx context.Context) (ids []partition.KeyspaceID, err error) {
	if err := lockContext(ctx, &n.changeMu); err != nil {
		return nil, err
	}
	defer n.changeMu.Unlock()
	return n.loadDroppedIDsLocked()
}

// loadDroppedIDsLocked is loadDroppedIDs while changeMu is held.
func (n *Node) loadDroppedIDsLocked() (ids []partition.KeyspaceID, err error) {
	start := effect.Rows.AppendKey(nil, systemKeyspace.AppendPosition(nil, []byte(droppedPrefix)))
	err = n.GroupHostAt(start[1:]).Store.ScanBriefly(start, effect.Rows.AppendKey(nil, systemKeyspace.Span().End), false, func(key, _ []byte) bool {
		name, _, err := systemKeyspace.Split(nil, key[1:])
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
	for _, p := range n.GroupHosts() {
		if err := p.doCommand(ctx, &clearCommand{}); err != nil {
			return err
		}
	}
	// A transaction in flight may still write what it has locked. Locks change hands with their
	// ranges: so the group that has them is determined before, and only that group is asked to
	// clear them, which it refuses if it no longer has them.
	version, pieces := n.Map().Version(), n.SplitByGroup(span)
	if err := n.waitForUnlockedSpan(ctx, span); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := piece.Owner.maybeDropRange(ctx, piece.Span); err != nil {
			return err
		}
		if err := piece.Owner.clearSpan(ctx, piece.Span); err != nil {
			return err
		}
	}
	for s := range n.Map().Shards(span) {
		if s.Changed > version { // where nothing was found, it was perhaps moved away
			return fmt.Errorf("%w: %v has changed hands while it was cleared", ownership.ErrWrongGroup, s.ID)
		}
	}
	// The note is synced, so what it stands for must be before it goes: otherwise a crash could
	// bring back rows that are in no record.
	for _, h := range n.storeHosts {
		if err := h.Store.Sync(); err != nil {
			return err
		}
	}
	return n.writeCatalog(ctx, &dropBatch{command.Batch{Commands: []command.Command{&command.Delete{Keys: []partition.Position{droppedKey(id)}}}}})
}

// minRowsToDropRange is from how many rows on a span is worth being removed as a whole, before what is left
// is looked for: that costs a flush.
const minRowsToDropRange = 10 * maxClearedRows

// maybeDropRange removes most rows of a span that the group owns, if there are many: with each of them
// logged, a full disk would get fuller, and their memory would stay taken.
func (p *GroupHost) maybeDropRange(ctx context.Context, s partition.Span) error {
	n := 0
	if err := p.Store.Scan(effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End), false, func(_, value []byte) bool {
		n += 1 + len(value)>>10
		return n < minRowsToDropRange
	}); err != nil || n < minRowsToDropRange {
		return err
	}
	for _, table := range effect.ByPosition {
		if err := p.Store.DropRange(ctx, table.AppendKey(nil, s.Start), table.AppendKey(nil, s.End)); err != nil {
			return err
		}
	}
	return nil
}

// clearSpan removes every row of a span that the group owns from all tables.
func (p *GroupHost) clearSpan(ctx context.Context, s partition.Span) error {
	for _, table := range effect.ByPosition {
		if err := p.clearRange(ctx, table.AppendKey(nil, s.Start), table.AppendKey(nil, s.End)); err != nil {
			return err
		}
	}
	return nil
}

// clearRange removes the rows from one key to another, a piece at a time. Each piece
// goes on where the last one ended: from the start on it would pass by all that
// the pieces before it have deleted.
func (p *GroupHost) clearRange(ctx context.Context, from, end []byte) error {
	for {
		found := &clearCommand{}
		if err := p.Store.Scan(from, end, false, found.addKey); err != nil || len(found.keys) == 0 {
			return err
		}
		if err := p.doCommand(ctx, found); err != nil {
			return err
		}
		from = found.keys[len(found.keys)-1]
	}
}

// doCommand executes a command of the node's own.
func (p *GroupHost) doCommand(ctx context.Context, c command.Command) error {
	reply, err := p.Group.Execute(ctx, group.Request{Command: c})
	return errors.Join(err, reply.Err)
}

// clearCommand is the command that removes rows that no request can reach. The group must serve
// their ranges: what is removed from one that is frozen, or being copied, would come back, and
// what another group has is that group's to remove.
type clearCommand struct {
	keys [][]byte
	site *ownership.Site
}

// Bind sets the site at which the command is evaluated.
func (c *clearCommand) Bind(s *ownership.Site) { c.site = s }

func (c *clearCommand) addKey(key, _ []byte) bool {
	c.keys = append(c.keys, append([]byte(nil), key...))
	return len(c.keys) < maxClearedRows
}

// IsUrgent reports that it frees space.
func (c *clearCommand) IsUrgent() bool { return true }

// Eval deletes the rows.
func (c *clearCommand) Eval(e *command.Env) command.Reply {
	for _, key := range c.keys {
		if err := c.site.CheckPosition(key[1:], true); err != nil {
			return command.Reply{Kind: command.Failed, Err: err}
		}
		e.Effects().Delete(key)
	}
	return command.Reply{Kind: command.OK}
}

// EmptyKeyspace removes all keys of a keyspace at one moment. It is the same as before, under
// another id: a caller with the old Keyspace gets the error that it was dropped, and finds the
// new one by its name. The space of the keys is reclaimed in the background. A keyspace with
// indexes is refused with ErrIndexesChanged: their entries would be left.
func (n *Node) EmptyKeyspace(ctx context.Context, k *Keyspace) error {
	err := n.changeKeyspaces(ctx, func() error { return n.emptyKeyspace(ctx, k) })
	if err != nil {
		return fmt.Errorf("empty keyspace %q: %w", k.Name, err)
	}
	n.reapplyCaps(k.Name)
	return nil
}

// emptyKeyspace is EmptyKeyspace while changeMu is held.
func (n *Node) emptyKeyspace(ctx context.Context, k *Keyspace) error {
	if err := k.CheckOpen(); err != nil {
		return err
	}
	if k.owningIndex != "" || len(n.indexesOf(k.Name)) > 0 {
		return ErrIndexesChanged
	}
	// Before the catalog knows: what is written to the old one from now on would be
	// lost, though it came after.
	k.isDropped.Store(true)
	same := partition.Keyspace{Name: k.Name, Kind: k.Kind, Slots: k.Slots, Layout: k.Layout}
	err := n.createKeyspace(ctx, same, k, &command.Set{Key: droppedKey(k.ID), Value: nil}, func(*Keyspace) { n.removeKeyspace(k) })
	if err != nil {
		k.isDropped.Store(false) // before another call may drop it, which stays so
	}
	return err
}

// Successor returns the keyspace that has taken the place of one that was emptied. It
// waits while that is being done.
func (n *Node) Successor(ctx context.Context, k *Keyspace) (*Keyspace, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		now, err := n.Keyspace(k.Name)
		if err != nil || now != k || k.CheckOpen() == nil {
			return now, err
		}
		select {
		case <-k.droppedCh:
		case <-time.After(pause): // it may stay
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
