package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/partition"
)

// ScanKeys visits live keys of a keyspace in order, all of one moment, without their values. Their names are the
// visitor's to keep.
func (db *DB) ScanKeys(ctx context.Context, k *node.Keyspace, o ScanOptions, visit func(ScanItem) bool) (err error) {
	if err := k.CheckOpen(); err != nil {
		return err
	}
	w := itemScanner{db: db, k: k, ctx: ctx, o: &ScanOptions{KeysOnly: true, Uncounted: o.Uncounted}, remaining: o.Limit, isPage: true}
	w.yield = func(item ScanItem, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		return visit(item)
	}
	w.scanSpan(o.Span, scanCommitted)
	return err
}

// DeleteAllKeys deletes all keys of a keyspace at one moment, unless there are more than so many:
// then it deletes none. It is for a client: see UpdateCommands. What is written meanwhile is gone too, or comes after it.
func (db *DB) DeleteAllKeys(ctx context.Context, k *node.Keyspace, most int) (done bool, err error) {
	err = db.update(ctx, writerTurn{maxWait: db.node.WriteLimits().MaxWait()}, func(tx *Txn) error {
		var keys [][]byte
		for item, err := range tx.Scan(k, ScanOptions{Span: KeyspaceSpan(k), Limit: most + 1}) {
			if err != nil {
				return err
			}
			keys = append(keys, item.Key)
		}
		if done = len(keys) <= most; !done {
			return nil
		}
		for _, key := range keys {
			// As in Redis, clients are not notified of each key.
			p := k.AppendPosition(nil, key)
			if _, err := tx.Write(k, p, &command.WithoutEvents{Command: &command.Delete{Keys: []partition.Position{p}}}, true); err != nil {
				return err
			}
		}
		return nil
	})
	return done && err == nil, err
}

// DeleteKeys deletes keys, all at once, and returns how many there were.
func (db *DB) DeleteKeys(ctx context.Context, k *node.Keyspace, at []partition.Position) (int, error) {
	if err := CheckWritable(k); err != nil {
		return 0, err
	}
	if err := command.CheckTxn(len(at), 0); err != nil { // wherever they are
		return 0, err
	}
	began := time.Now()
	deleted, err := db.deleteKeys(ctx, k, at)
	db.recordWrites(len(at), err != nil, began, func(i int) (partition.Position, command.Command) { return at[i], (*command.Delete)(nil) })
	return deleted, err
}

func (db *DB) deleteKeys(ctx context.Context, k *node.Keyspace, at []partition.Position) (int, error) {
	if err := db.waitForTurn(ctx, slices.Values(at)); err != nil {
		return 0, err
	}
	replies, err := db.executeJoint(ctx, func() (pieces []subBatch) {
		for _, p := range at {
			part := db.node.GroupHostAt(p)
			i := slices.IndexFunc(pieces, func(p subBatch) bool { return p.groupHost == part })
			if i < 0 {
				i = len(pieces)
				pieces = append(pieces, subBatch{part, group.Request{Command: &command.Delete{}, Key: p, Gate: node.UnindexedGate{Keyspace: k}}})
			}
			c := pieces[i].request.Command.(*command.Delete)
			c.Keys = append(c.Keys, p)
		}
		return pieces
	}, func(_ int, err error) error { return err })
	deleted := 0
	if errors.Is(err, errCrossStore) || errors.Is(err, node.ErrIndexesChanged) {
		err = db.update(ctx, writerTurn{hasCome: true}, func(tx *Txn) error {
			deleted, err = tx.Delete(k, at)
			return err
		})
		return deleted, err
	}
	for i := range replies {
		deleted += int(replies[i].Int)
	}
	return deleted, err
}

// Delete deletes keys and returns how many there were.
func (tx *Txn) Delete(k *node.Keyspace, at []partition.Position) (n int, err error) {
	for _, p := range at {
		// All of them before the first is deleted: an error leaves nothing.
		if err := tx.Locate(k, p, true); err != nil {
			return 0, err
		}
	}
	for _, p := range at {
		reply, err := tx.Write(k, p, &command.Delete{Keys: []partition.Position{p}}, true)
		if err != nil {
			return 0, err
		}
		n += int(reply.Int)
	}
	return n, nil
}
