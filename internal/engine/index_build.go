package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// buildPageRows is how many rows one transaction of a build is about: so few that writers
// whom it meets wait for milliseconds.
const buildPageRows = 64

// buildProgressKey is where a build goes on: the Next of the last page, empty behind all of them.
var buildProgressKey = index.MetaKey("progress")

// buildIndex gives the rows that were there before a transactional index their entries, page
// by page, each in a transaction that reads the rows again. Writes maintain the index
// meanwhile, so a row that was looked at stays right, and one that is written is right
// whether it was looked at or not. It goes on where the last one ended.
func (k *indexWorker) buildIndex(x *node.IndexInfo) error {
	// The caller that made the index has waited for this too, unless its context had ended.
	if err := k.ix.db.node.Barrier(k.ctx); err != nil {
		return err
	}
	after, found, err := k.ix.db.getString(k.ctx, k.ix.entries, buildProgressKey)
	if err != nil {
		return err
	}
	if found && len(after) == 0 { // there was no next page: only the note is missing
		return k.ix.db.node.SetIndexReady(k.ctx, x, true)
	}
	for limit := buildPageRows; ; {
		began := time.Now()
		keys, next, err := k.ix.db.scanKeyPage(k.ctx, k.ix.rows, KeyspaceSpan(k.ix.rows), after, limit)
		if err == nil {
			// What is not in the page because it was deleted must not come back in a crash that
			// leaves the build behind it.
			err = k.ix.db.node.SyncStores()
		}
		if err == nil {
			err = k.ix.db.Update(k.ctx, func(tx *Txn) error { return k.buildPage(tx, keys, next) })
		}
		if errors.Is(err, command.ErrTooLarge) && limit > 1 {
			limit /= 2 // rows with many entries
			continue
		}
		if err != nil {
			return err
		}
		k.updateStatus(func(s *indexWorkerStatus) { s.err, s.builtRows = nil, s.builtRows+uint64(len(keys)) })
		if after = next; after == nil {
			break
		}
		k.yieldFor(time.Since(began))
	}
	return k.ix.db.node.SetIndexReady(k.ctx, x, true)
}

// buildPage gives rows their entries.
func (k *indexWorker) buildPage(tx *Txn, keys [][]byte, next []byte) error {
	x, err := k.ix.Lookup()
	if err != nil {
		return err
	}
	if x.Extract == nil {
		return undeclaredError(x)
	}
	set := node.NewIndexSet(x)
	tx.useKeyspace(k.ix.entries, readRow) // they must still be there at the commit
	for _, key := range keys {
		at, err := tx.locateKey(k.ix.rows, key)
		if err != nil {
			return err
		}
		r := &indexedRow{at: at, key: key, indexes: set}
		row, err := tx.loadIndexedRow(r)
		if err != nil {
			return err
		}
		if row == nil {
			continue // deleted meanwhile
		}
		entries, err := x.Extract.ExtractEntries(row)
		if err != nil {
			return indexRowError(x, r.at, err)
		}
		if err := tx.writeEntries(r, x, index.Change{Put: entries}, row.ExpiryMS); err != nil {
			return err
		}
	}
	return tx.writeEntryKey(k.ix.entries, buildProgressKey, func(p partition.Position) command.Command {
		return &command.Set{Key: p, Value: next}
	})
}

// getString returns the string that a key holds.
func (db *DB) getString(ctx context.Context, k *node.Keyspace, key []byte) (value []byte, found bool, err error) {
	p, err := AppendPosition(nil, k, key)
	if err != nil {
		return nil, false, err
	}
	row, found, err := db.Read(ctx, p)
	if err == nil && found && row.Kind == command.Chunked {
		row, found, err = db.ReadString(ctx, k, p)
	}
	return row.Payload, found, err
}

// scanKeyPage returns the next keys of a span behind a page, and where the next page goes on: nil at
// the end.
func (db *DB) scanKeyPage(ctx context.Context, k *node.Keyspace, span partition.Span, after []byte, limit int) (keys [][]byte, next []byte, err error) {
	if after != nil {
		key, element, err := k.Split(nil, after)
		if err != nil || len(element) > 0 {
			return nil, nil, fmt.Errorf("%w: keyspace %s has no page that ends at position %x", store.ErrCorrupt, k.Name, after)
		}
		span = SpanBehind(k, span, key, false)
	}
	for item, err := range db.Scan(ctx, k, ScanOptions{Span: span, Limit: limit + 1, KeysOnly: true}) {
		if err != nil {
			return nil, nil, err
		}
		if len(keys) == limit {
			return keys, k.AppendPosition(nil, keys[limit-1]), nil
		}
		keys = append(keys, item.Key)
	}
	return keys, nil, nil
}
