package engine

import (
	"bytes"
	"fmt"
	"math"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/partition"
)

// entryGraceMS is for how long the entry of a row that expires outlives it. Groups have
// clocks of their own, a few seconds apart after a crash: the row's decides, so its
// entries must still be there when it says that the row is alive. See [Txn.isLiveEntry].
const entryGraceMS = 3_600_000

// indexedRow is a row of a keyspace with indexes that a transaction writes.
type indexedRow struct {
	at      keyRef
	key     []byte
	indexes *node.IndexSet
	// entries has, for each index, the entries of the row as the transaction has left
	// them so far, and expiryMS when they expire.
	entries  [][]index.Entry
	expiryMS int64
	// changed reports whether the row was written since.
	changed bool
}

// trackIndexedRow is called before a row is written. If its keyspace has indexes it counts as
// read: the entries that it has now are those to be taken away.
func (tx *Txn) trackIndexedRow(at keyRef) error {
	with := tx.findIndexes(at.k)
	if with == nil {
		return nil
	}
	if r := tx.indexedRows[string(at.p)]; r != nil {
		r.changed = true
		return nil
	}
	key, _, err := at.k.Split(nil, at.p)
	if err != nil {
		return err
	}
	r := &indexedRow{at: at, key: key, indexes: with, entries: make([][]index.Entry, len(with.All)), changed: true}
	row, err := tx.loadIndexedRow(r)
	if err != nil {
		return err
	}
	if row != nil {
		r.expiryMS = row.ExpiryMS
		for i, x := range with.All {
			if x.Extract == nil {
				return newUndeclaredError(x)
			}
			// One that it refuses was there before the index, and has none.
			r.entries[i], _ = x.Extract.ExtractEntries(row)
		}
	}
	if tx.indexedRows == nil {
		tx.indexedRows = map[string]*indexedRow{}
	}
	tx.indexedRows[string(at.p)], tx.touchedRows = r, append(tx.touchedRows, r)
	return nil
}

// maintainIndexes writes what has changed in the entries of the rows that were written. It may
// be called any number of times; the commit does, and so does a read of an index.
func (tx *Txn) maintainIndexes() error {
	for _, r := range tx.touchedRows {
		if !r.changed {
			continue
		}
		row, err := tx.loadIndexedRow(r)
		if err != nil {
			return err
		}
		expiryMS := int64(0)
		if row != nil {
			expiryMS = row.ExpiryMS
		}
		// All are made before the first is written: a caller that repairs a row that one index
		// refuses finds the entries of the others as they were, with their expiry.
		now := make([][]index.Entry, len(r.indexes.All))
		for i, x := range r.indexes.All {
			if now[i], err = extractEntries(x, row); err != nil {
				return indexRowError(x, r.at, err)
			}
		}
		for i, x := range r.indexes.All {
			if err := tx.writeEntries(r, x, index.Diff(r.entries[i], now[i], expiryMS != r.expiryMS), expiryMS); err != nil {
				return err
			}
		}
		r.entries, r.expiryMS, r.changed = now, expiryMS, false
	}
	return nil
}

// extractEntries returns the entries of a row, none of one that is not there.
func extractEntries(x *node.IndexInfo, row *index.Row) ([]index.Entry, error) {
	switch {
	case x.Extract == nil:
		return nil, newUndeclaredError(x)
	case row == nil:
		return nil, nil
	}
	return x.Extract.ExtractEntries(row)
}

// writeEntries writes entries of a row.
func (tx *Txn) writeEntries(r *indexedRow, x *node.IndexInfo, c index.Change, expiryMS int64) error {
	for _, key := range c.Delete {
		err := tx.writeEntryKey(x.Entries, key, func(p partition.Position) command.Command {
			return &command.Delete{Keys: []partition.Position{p}}
		})
		if err != nil {
			return tx.retryIfDropped(x, err)
		}
	}
	for _, e := range c.Put {
		err := tx.writeEntryKey(x.Entries, e.Key, func(p partition.Position) command.Command {
			return &command.Set{Key: p, Value: e.Value, Expiry: entryExpiry(x, expiryMS)}
		})
		if err != nil {
			return tx.retryIfDropped(x, err)
		}
		if x.Unique {
			tx.uniqueEntries = append(tx.uniqueEntries, uniqueEntry{r, x, e.Key})
		}
	}
	return nil
}

// writeEntryKey writes a key of the keyspace of the entries of an index.
func (tx *Txn) writeEntryKey(entries *node.Keyspace, key []byte, c func(partition.Position) command.Command) error {
	if tx.err != nil {
		return tx.err
	}
	p, err := AppendPosition(nil, entries, key)
	if err != nil {
		return err
	}
	if err := tx.locate(entries, p, writeEntry); err != nil {
		return err
	}
	_, err = tx.evalWrite(keyRef{entries, p}, c(p), false, nil)
	return err
}

// retryIfDropped is why an entry could not be written. If its index was dropped meanwhile, at
// any moment up to now, that is none: the transaction is tried again without it.
func (tx *Txn) retryIfDropped(x *node.IndexInfo, err error) error {
	if x.Entries.CheckOpen() == nil {
		return err
	}
	tx.err = errRetry
	return tx.err
}

// entryExpiry is when an entry of a row expires.
func entryExpiry(x *node.IndexInfo, rowMS int64) command.Expiry {
	if rowMS == 0 {
		return command.Expiry{}
	}
	return command.ExpireAt(entryExpiryMS(x, rowMS))
}

// entryExpiryMS is when an entry of a row expires that does so at a time, 0 for never.
func entryExpiryMS(x *node.IndexInfo, rowMS int64) int64 {
	if rowMS == 0 || x.Mode != index.Transactional {
		return rowMS
	}
	return min(rowMS, math.MaxInt64-entryGraceMS) + entryGraceMS // there is an end of time
}

// loadIndexedRow returns a row as the transaction sees it, with the fields that the indexes need;
// nil if there is none. It counts as read.
func (tx *Txn) loadIndexedRow(r *indexedRow) (*index.Row, error) {
	row, _, err := tx.loadRow(r.at, r.key, r.indexes.Needs, r.indexes.Whole)
	return row, err
}

// loadRow returns a row as the transaction sees it, and its version; nil if there is
// none. It counts as read.
func (tx *Txn) loadRow(at keyRef, key []byte, needs [][]byte, whole bool) (*index.Row, uint64, error) {
	// A command that reads notes what it has read, and whom it must not ask.
	if _, err := tx.eval(at, &command.Exists{Keys: []partition.Position{at.p}}, true); err != nil {
		return nil, 0, err
	}
	value, ok, err := tx.env.Get(effect.Rows.AppendKey(nil, at.p), nil)
	if err != nil || !ok {
		return nil, 0, err
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		return nil, 0, err
	}
	if !row.IsAlive((*txnGuard)(tx).ExpiryCheckMS(at.p, tx.env.NowMS())) {
		return nil, 0, nil
	}
	out := &index.Row{Key: key, IsHash: row.Kind == command.Hash, ExpiryMS: row.ExpiryMS}
	if !out.IsHash {
		out.Value, err = command.ReadStringValue(tx.env, at.p, &row) // of memory that has no other user
		return out, row.Version, err
	}
	var read command.Command = &command.HGetAll{Key: at.p}
	if !whole {
		if len(needs) == 0 {
			return out, row.Version, nil
		}
		read = &command.HMGet{Key: at.p, Fields: needs}
	}
	reply, err := tx.eval(at, read, true)
	if err != nil {
		return nil, 0, err
	}
	for _, item := range reply.Items {
		if whole || item.Found {
			out.Fields = append(out.Fields, index.Field{Name: item.Field, Value: item.Value})
		}
	}
	return out, row.Version, nil
}

// indexRowError adds which index refuses a row, and why.
func indexRowError(x *node.IndexInfo, at keyRef, err error) error {
	return fmt.Errorf("%v in index %s: %w", at, x.Name, err)
}

// isLiveEntry reports whether an entry is of the row that there is. One without expiry always
// is. One with expiry outlives its row, see entryGraceMS; and when the row is written
// anew after it had expired, it is unknown which entries it had, so they still
// exist. But the expiry of the current row is later than that of the one that
// had expired: an entry counts if the row exists and expires when the entry says.
func (tx *Txn) isLiveEntry(x *node.IndexInfo, rows *node.Keyspace, entry ScanItem, row []byte) (bool, error) {
	if entry.ExpiryMS == 0 || x.Mode != index.Transactional {
		return true, nil
	}
	at, err := tx.locateKey(rows, row)
	if err != nil {
		return false, err
	}
	found, _, err := tx.loadRow(at, row, nil, false)
	return found != nil && found.ExpiryMS != 0 && entryExpiryMS(x, found.ExpiryMS) == entry.ExpiryMS, err
}

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
