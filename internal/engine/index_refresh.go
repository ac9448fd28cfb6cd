package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// rowRefresh is what an asynchronous index has to do about a row.
type rowRefresh struct {
	key       []byte
	change    index.Change
	record    index.Record
	hadRecord bool // there was one
	isCurrent bool // it is as it should be
}

// refreshRows gives rows the entries that they should have now, and writes how far the index
// has come. It does not matter what has happened to the rows, or how often it is done.
func (f *indexFollower) refreshRows(keys [][]byte) error { return f.refreshOrSplit(keys, true) }

func (f *indexFollower) refreshOrSplit(keys [][]byte, last bool) error {
	err := f.tryRefreshRows(keys, last)
	if !errors.Is(err, command.ErrTooLarge) || len(keys) < 2 {
		return err
	}
	half := len(keys) / 2
	if err := f.refreshOrSplit(keys[:half], false); err != nil {
		return err
	}
	return f.refreshOrSplit(keys[half:], last)
}

// tryRefreshRows is refresh in one batch.
func (f *indexFollower) tryRefreshRows(keys [][]byte, last bool) error {
	db, entries := f.ix.db, f.ix.entries
	var rows []rowRefresh
	refused := 0
	err := db.View(f.ctx, func(tx *Txn) error {
		for _, key := range keys {
			r, ok, err := f.compareRow(tx, key)
			if err != nil {
				return err
			}
			if !ok {
				refused++
			}
			rows = append(rows, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.ctx.Err(); err != nil {
		return err // Close waits
	}
	if err := db.node.SyncStores(); err != nil {
		return err
	}
	var b Batch
	for i := range rows {
		if err := f.appendRefresh(&b, &rows[i]); err != nil {
			return f.ix.AsDroppedError(err)
		}
	}
	if last {
		text, err := json.Marshal(f.state)
		if err == nil {
			err = appendEntry(&b, entries, followerStateKey, text, command.Expiry{})
		}
		if err != nil {
			return f.ix.AsDroppedError(err)
		}
	}
	if b.Len() > 0 {
		if err := db.Write(f.ctx, &b); err != nil {
			return f.ix.AsDroppedError(err)
		}
	}
	if refused > 0 {
		f.updateStatus(func(s *indexWorkerStatus) { s.refusedRows += uint64(refused) })
	}
	return nil
}

// appendRefresh adds what is to be done about a row to a batch.
func (f *indexFollower) appendRefresh(b *Batch, r *rowRefresh) error {
	entries := f.ix.entries
	if r.isCurrent {
		return nil
	}
	for _, key := range r.change.Delete {
		if err := appendEntryDelete(b, entries, key); err != nil {
			return err
		}
	}
	for _, e := range r.change.Put {
		if err := appendEntry(b, entries, e.Key, e.Value, entryExpiry(f.x, r.record.ExpiryMS)); err != nil {
			return err
		}
	}
	if len(r.record.Entries) > 0 {
		return appendEntry(b, entries, index.RecordKey(r.key), r.record.Append(nil), command.Expiry{})
	}
	return appendEntryDelete(b, entries, index.RecordKey(r.key))
}

// appendEntry adds a write of a key of a keyspace of entries to a batch.
func appendEntry(b *Batch, entries *node.Keyspace, key, value []byte, expiry command.Expiry) error {
	p, err := AppendPosition(nil, entries, key)
	if err == nil {
		err = command.CheckValue(value)
	}
	if err == nil {
		err = b.CheckFits(len(p) + len(value))
	}
	if err != nil {
		return err
	}
	b.Add(entries, p, &command.Set{Key: p, Value: value, Expiry: expiry}, len(p)+len(value))
	return nil
}

// appendEntryDelete adds a deletion of a key of a keyspace of entries to a batch.
func appendEntryDelete(b *Batch, entries *node.Keyspace, key []byte) error {
	p, err := AppendPosition(nil, entries, key)
	if err == nil {
		err = b.CheckFits(len(p))
	}
	if err != nil {
		return err
	}
	b.Add(entries, p, &command.Delete{Keys: []partition.Position{p}}, len(p))
	return nil
}

// compareRow finds out what is to be done about a row. ok is false if there is a mistake in
// the row, so that it has no entries.
func (f *indexFollower) compareRow(tx *Txn, key []byte) (r rowRefresh, ok bool, err error) {
	r, ok = rowRefresh{key: key}, true
	at, err := tx.locateKey(f.ix.rows, key)
	if err != nil {
		return r, ok, err
	}
	row, _, err := tx.loadRow(at, key, f.indexes.Needs, f.indexes.Whole)
	if err != nil {
		return r, ok, err
	}
	var now []index.Entry
	expiryMS := int64(0)
	if row != nil {
		if now, err = f.x.Extract.ExtractEntries(row); err != nil {
			if !errors.Is(err, index.ErrEntry) {
				return r, ok, err
			}
			ok = false
		}
		expiryMS = row.ExpiryMS
	}
	if len(now) == 0 {
		expiryMS = 0
	}
	var old index.Record
	record := index.RecordKey(key)
	if len(record) > index.MaxKeyBytes {
		r.isCurrent = true // the keys of its entries would be longer still: it has none
		return r, ok, nil
	}
	text, found, err := tx.getEntry(f.ix.entries, record)
	if err != nil {
		return r, ok, err
	}
	if found {
		if old, err = index.DecodeRecord(text); err != nil {
			return r, ok, fmt.Errorf("%w: index %s: %w", store.ErrCorrupt, f.x.Name, err)
		}
		r.hadRecord = true
	}
	r.change, r.record = old.Diff(now, expiryMS), index.NewRecord(now, expiryMS)
	r.isCurrent = len(r.change.Put) == 0 && len(r.change.Delete) == 0 && (len(now) > 0 || !r.hadRecord)
	return r, ok, nil
}

// getEntry returns what a key of a keyspace of entries holds.
func (tx *Txn) getEntry(entries *node.Keyspace, key []byte) (value []byte, found bool, err error) {
	at, err := tx.locateKey(entries, key)
	if err != nil {
		return nil, false, err
	}
	reply, err := tx.eval(at, &command.Get{Key: at.p}, true)
	return reply.Bytes, err == nil && reply.Kind != command.Nil, err
}

// getEntryItem returns a key of a keyspace of entries, and whether there is one.
func (tx *Txn) getEntryItem(entries *node.Keyspace, key []byte) (ScanItem, bool, error) {
	at, err := tx.locateKey(entries, key)
	if err != nil {
		return ScanItem{}, false, err
	}
	return tx.Item(entries, at.p)
}
