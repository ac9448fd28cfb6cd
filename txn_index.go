package cleave

import (
	"bytes"
	"fmt"
	"math"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// entryGraceMS is for how long the entry of a row that expires outlives it. Groups have
// clocks of their own, a few seconds apart after a crash: the row's decides, so its
// entries must still be there when it says that the row is alive. See [Txn.counts].
const entryGraceMS = 3_600_000

// indexedRow is a row of a keyspace with indexes that a transaction writes.
type indexedRow struct {
	at   place
	key  []byte
	with *node.Indexes
	// entries has, for each index, the entries of the row as the transaction has left
	// them so far, and expiryMS when they expire.
	entries  [][]index.Entry
	expiryMS int64
	// changed tells that the row was written since.
	changed bool
}

// uniqueEntry is an entry of a unique index that was put.
type uniqueEntry struct {
	row   *indexedRow
	index *node.Index
	key   []byte
}

// touch is called before a row is written. If its keyspace has indexes it counts as
// read: the entries that it has now are those to be taken away.
func (tx *Txn) touch(at place) error {
	with := tx.maintained(at.k)
	if with == nil {
		return nil
	}
	if r := tx.rows[string(at.p)]; r != nil {
		r.changed = true
		return nil
	}
	key, _, err := at.k.space.Split(nil, at.p)
	if err != nil {
		return err
	}
	r := &indexedRow{at: at, key: key, with: with, entries: make([][]index.Entry, len(with.All)), changed: true}
	row, err := tx.rowAt(r)
	if err != nil {
		return err
	}
	if row != nil {
		r.expiryMS = row.ExpiryMS
		for i, x := range with.All {
			if x.Extract == nil {
				return undeclared(x)
			}
			// One that it refuses was there before the index, and has none.
			r.entries[i], _ = x.Extract.Entries(row)
		}
	}
	if tx.rows == nil {
		tx.rows = map[string]*indexedRow{}
	}
	tx.rows[string(at.p)], tx.touched = r, append(tx.touched, r)
	return nil
}

// maintain writes what has changed in the entries of the rows that were written. It may
// be called any number of times; the commit does, and whoever reads an index.
func (tx *Txn) maintain() error {
	for _, r := range tx.touched {
		if !r.changed {
			continue
		}
		row, err := tx.rowAt(r)
		if err != nil {
			return err
		}
		expiryMS := int64(0)
		if row != nil {
			expiryMS = row.ExpiryMS
		}
		// All are made before the first is written: whoever repairs a row that one index
		// refuses finds the entries of the others as they were, with their expiry.
		now := make([][]index.Entry, len(r.with.All))
		for i, x := range r.with.All {
			if now[i], err = entriesOf(x, row); err != nil {
				return indexRefuses(x, r.at, err)
			}
		}
		for i, x := range r.with.All {
			if err := tx.apply(r, x, index.Diff(r.entries[i], now[i], expiryMS != r.expiryMS), expiryMS); err != nil {
				return err
			}
		}
		r.entries, r.expiryMS, r.changed = now, expiryMS, false
	}
	return nil
}

// entriesOf returns the entries of a row, none of one that is not there.
func entriesOf(x *node.Index, row *index.Row) ([]index.Entry, error) {
	switch {
	case x.Extract == nil:
		return nil, undeclared(x)
	case row == nil:
		return nil, nil
	}
	return x.Extract.Entries(row)
}

// apply writes entries of a row.
func (tx *Txn) apply(r *indexedRow, x *node.Index, c index.Change, expiryMS int64) error {
	if plant.Bug("cleave-index-entry-not-in-commit") {
		return nil
	}
	entries := &Keyspace{db: tx.db, space: x.Entries, inner: true}
	for _, key := range c.Delete {
		_, err := tx.do(entries, key, true, false, func(p partition.Position) (command.Command, error) {
			return &command.Delete{Keys: []partition.Position{p}}, nil
		})
		if err != nil {
			return tx.without(x, err)
		}
	}
	for _, e := range c.Put {
		_, err := tx.do(entries, e.Key, true, false, func(p partition.Position) (command.Command, error) {
			return &command.Set{Key: p, Value: e.Value, Expiry: entryExpiry(x, expiryMS)}, nil
		})
		if err != nil {
			return tx.without(x, err)
		}
		if x.Unique {
			tx.uniques = append(tx.uniques, uniqueEntry{r, x, e.Key})
		}
	}
	return nil
}

// without is why an entry could not be written. If its index was dropped meanwhile, at
// any moment up to now, that is none: the transaction is tried again without it.
func (tx *Txn) without(x *node.Index, err error) error {
	if x.Entries.Check() == nil {
		return err
	}
	tx.err = errRetry
	return tx.err
}

// entryExpiry is when an entry of a row expires.
func entryExpiry(x *node.Index, rowMS int64) command.Expiry {
	if rowMS == 0 {
		return command.Expiry{}
	}
	return command.At(entryMS(x, rowMS))
}

// entryMS is when an entry of a row expires that does so at a time, 0 for never.
func entryMS(x *node.Index, rowMS int64) int64 {
	if rowMS == 0 || x.Mode != index.Transactional {
		return rowMS
	}
	return min(rowMS, math.MaxInt64-entryGraceMS) + entryGraceMS // there is an end of time
}

// rowAt returns a row as the transaction sees it, with the fields that the indexes need;
// nil if there is none. It counts as read.
func (tx *Txn) rowAt(r *indexedRow) (*index.Row, error) {
	row, _, err := tx.loadRow(r.at, r.key, r.with.Needs, r.with.Whole)
	return row, err
}

// loadRow returns a row as the transaction sees it, and its version; nil if there is
// none. It counts as read.
func (tx *Txn) loadRow(at place, key []byte, needs [][]byte, whole bool) (*index.Row, uint64, error) {
	// A command that reads notes what it has read, and whom it must not ask.
	if _, err := tx.eval(at, &command.Exists{Keys: []partition.Position{at.p}}, true); err != nil {
		return nil, 0, err
	}
	value, ok, err := tx.env.Get(effect.Rows.AppendKey(nil, at.p), nil)
	if err != nil || !ok {
		return nil, 0, public(err)
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		return nil, 0, public(err)
	}
	if !row.Alive((*txnGuard)(tx).JudgeMS(at.p, tx.env.NowMS())) {
		return nil, 0, nil
	}
	out := &index.Row{Key: key, Hash: row.Kind == command.Hash, ExpiryMS: row.ExpiryMS}
	if !out.Hash {
		out.Value = bytes.Clone(row.Payload)
		return out, row.Version, nil
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

// indexRefuses says which index refuses a row, and why.
func indexRefuses(x *node.Index, at place, err error) error {
	return public(fmt.Errorf("%v in index %s: %w", at, x.Name, err))
}
