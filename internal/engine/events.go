package engine

import (
	"context"

	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// KeyEvent is what a command did to a key.
type KeyEvent struct {
	Keyspace string
	Key      []byte
	Event    command.Event
}

// FollowEvents visits the events of keys that are committed after a place in the feed, in the order
// of the commits, until ctx ends, whose error it then returns. Those that were committed while the
// node did not record them are missing: see [node.Node.RecordEvents].
func (db *DB) FollowEvents(ctx context.Context, from string, visit func(KeyEvent)) error {
	r, err := db.newLogReader(from)
	if err != nil {
		return err
	}
	r.KeyEvents = true
	for {
		more := db.node.NextCommit() // before it looks, so that nothing slips through
		found := false
		for i, h := range db.node.StoreHosts() {
			batch, err := feed.ReadBatch(&r, i, h.Store, ctx.Err, db.appendEvent)
			found = found || len(batch) > 0
			feed.Deliver(&r, i, batch, func(events *[]KeyEvent) bool {
				for _, e := range *events {
					visit(e)
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

// appendEvent adds the event of a key of a user's keyspace.
func (db *DB) appendEvent(events *[]KeyEvent, op effect.Op) error {
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := db.node.KeyspaceByID(id)
	if space == nil || space.OwningIndex() != "" || len(op.Value) != 1 {
		return nil // of the system, or dropped since, or what others follow, or of a newer version
	}
	key, _, err := space.Split(nil, p)
	if err != nil {
		return err
	}
	*events = append(*events, KeyEvent{Keyspace: space.Name, Key: key, Event: command.Event(op.Value[0])})
	return nil
}
