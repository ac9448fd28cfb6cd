package cleave

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// refreshed is what an asynchronous index has to do about a row.
type refreshed struct {
	key      []byte
	change   index.Change
	record   index.Record
	recorded bool // there was one
	same     bool // it is as it should be
}

// refresh gives rows the entries that they should have now, and writes how far the index
// has come. It does not matter what has happened to the rows, or how often it is done.
func (f *follower) refresh(keys [][]byte) error { return f.refreshPart(keys, true) }

func (f *follower) refreshPart(keys [][]byte, last bool) error {
	err := f.tryRefresh(keys, last)
	if !errors.Is(err, ErrTooLarge) || len(keys) < 2 {
		return err
	}
	half := len(keys) / 2
	if err := f.refreshPart(keys[:half], false); err != nil {
		return err
	}
	return f.refreshPart(keys[half:], last)
}

// tryRefresh is refresh in one batch.
func (f *follower) tryRefresh(keys [][]byte, last bool) error {
	db, entries := f.ix.db, f.ix.entries
	if last && plant.Bug("cleave-index-cursor-apart") {
		if text, err := json.Marshal(f.state); err == nil {
			_ = entries.Set(f.ctx, stateKey, text)
		}
	}
	var rows []refreshed
	refused := 0
	err := db.View(f.ctx, func(tx *Txn) error {
		for _, key := range keys {
			r, ok, err := f.compare(tx, key)
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
		return err // whoever closes the store waits
	}
	if err := db.node.SyncApart(); err != nil {
		return public(err)
	}
	var b Batch
	for i := range rows {
		f.put(&b, &rows[i])
	}
	if last {
		text, err := json.Marshal(f.state)
		if err != nil {
			return err
		}
		b.Set(entries, stateKey, text)
	}
	if err := db.Write(f.ctx, &b); err != nil {
		return f.ix.gone(err)
	}
	if refused > 0 {
		f.note(func(s *keeperStatus) { s.refused += uint64(refused) })
	}
	return nil
}

// put adds what is to be done about a row to a batch.
func (f *follower) put(b *Batch, r *refreshed) {
	entries := f.ix.entries
	if r.same {
		return
	}
	b.Delete(entries, r.change.Delete...)
	for _, e := range r.change.Put {
		b.add(entries, e.Key, 1, len(e.Value), command.CheckValue(e.Value), func(p partition.Position) (command.Command, error) {
			return &command.Set{Key: p, Value: b.keep(e.Value), Expiry: entryExpiry(f.x, r.record.ExpiryMS)}, nil
		})
	}
	if len(r.record.Entries) > 0 {
		b.Set(entries, index.RecordKey(r.key), r.record.Append(nil))
	} else {
		b.Delete(entries, index.RecordKey(r.key))
	}
}

// compare finds out what is to be done about a row. ok is false if there is a mistake in
// the row, so that it has no entries.
func (f *follower) compare(tx *Txn, key []byte) (r refreshed, ok bool, err error) {
	r, ok = refreshed{key: key}, true
	p, err := tx.locate(f.ix.rows, key, false)
	if err != nil {
		return r, ok, err
	}
	row, _, err := tx.loadRow(place{f.ix.rows, p}, key, f.set.Needs, f.set.Whole)
	if err != nil {
		return r, ok, err
	}
	var now []index.Entry
	expiryMS := int64(0)
	if row != nil {
		if now, err = f.x.Extract.Entries(row); err != nil {
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
		r.same = true // the keys of its entries would be longer still: it has none
		return r, ok, nil
	}
	text, err := tx.Get(f.ix.entries, record)
	switch {
	case err == nil:
		if old, err = index.DecodeRecord(text); err != nil {
			return r, ok, fmt.Errorf("%w: index %s: %w", ErrCorrupt, f.x.Name, err)
		}
		r.recorded = true
	case !errors.Is(err, ErrNotFound):
		return r, ok, err
	}
	r.change, r.record = old.Diff(now, expiryMS), index.RecordOf(now, expiryMS)
	r.same = len(r.change.Put) == 0 && len(r.change.Delete) == 0 && (len(now) > 0 || !r.recorded)
	return r, ok, nil
}
