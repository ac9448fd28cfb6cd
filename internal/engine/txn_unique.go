package engine

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/index"
)

// uniqueEntry is an entry of a unique index that was put.
type uniqueEntry struct {
	row   *indexedRow
	index *node.IndexInfo
	key   []byte
}

// checkUnique refuses entries of unique indexes that two rows would have. What it looks
// at counts as read: of two transactions that bring the same one meets a conflict.
func (tx *Txn) checkUnique() error {
	var dead []uniqueEntry
	for _, u := range tx.uniqueEntries {
		entries := u.index.Entries
		_, stands, err := tx.env.Get(effect.Rows.AppendKey(nil, entries.AppendPosition(nil, u.key)), nil)
		if err != nil {
			return err
		}
		if !stands {
			continue // the row was written again and has given it up: another may have it
		}
		t, _, err := index.SplitKey(u.key)
		if err != nil {
			return err
		}
		prefix, err := index.TuplePrefix(t)
		if err != nil {
			return err
		}
		for item, err := range tx.Scan(entries, ScanOptions{Span: entries.PrefixSpan(prefix)}) {
			if err != nil {
				return tx.retryIfDropped(u.index, err)
			}
			if bytes.Equal(item.Key, u.key) {
				continue
			}
			_, other, err := index.SplitKey(item.Key)
			if err != nil {
				return err
			}
			counts, err := tx.isLiveEntry(u.index, u.row.at.k, item, other)
			if err != nil {
				return err
			}
			if counts {
				return &UniqueError{Keyspace: u.index.Keyspace, Index: u.index.Name, Entry: t, Key: other, Row: bytes.Clone(u.row.key)}
			}
			dead = append(dead, uniqueEntry{u.row, u.index, item.Key})
		}
	}
	return tx.deleteStaleEntries(dead)
}

const (
	// maxSweepTxnKeys and maxSweepTxnBytes are up to what size of a transaction entries are swept: none
	// may become too large by it, nor much slower.
	maxSweepTxnKeys  = 9_000
	maxSweepTxnBytes = command.MaxTxnBytes / 2
)

// deleteStaleEntries deletes entries that were found not to count, as far as there is room. If they stayed
// for their hour, a tuple that one row has after the other would cost each of them a read
// more. Their rows count as read: none of them is there at the commit with that expiry, nor
// ever again.
func (tx *Txn) deleteStaleEntries(dead []uniqueEntry) error {
	for _, e := range dead {
		effects := tx.env.Effects()
		if len(tx.reads)+len(tx.rangeReads)+max(len(tx.writes), effects.Len()) >= maxSweepTxnKeys || effects.Size() >= maxSweepTxnBytes {
			return nil
		}
		if err := tx.writeEntries(e.row, e.index, index.Change{Delete: [][]byte{e.key}}, 0); err != nil {
			return err
		}
	}
	return nil
}
