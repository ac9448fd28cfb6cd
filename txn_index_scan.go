package cleave

import (
	"iter"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
)

// ScanIndex visits entries of an index in order. Those of a transactional one are
// exactly those of the rows as the transaction sees them, its own writes before the
// loop included. What was visited counts as read: an entry that comes or goes there
// before the commit is a conflict.
//
// Those of an asynchronous one are as of the same state too, which may be behind the
// rows. Fresh is refused, in Update and in View: the state is taken by then, so wait
// before the transaction.
func (tx *Txn) ScanIndex(ix *Index, o IndexScanOptions) iter.Seq2[IndexItem, error] {
	return func(yield func(IndexItem, error) bool) {
		if err := tx.scanIndex(ix, o, func(item IndexItem) bool { return yield(item, nil) }); err != nil {
			yield(IndexItem{}, ix.gone(err))
		}
	}
}

func (tx *Txn) scanIndex(ix *Index, o IndexScanOptions, visit func(IndexItem) bool) error {
	switch {
	case tx.err != nil:
		return tx.err
	case ix.db != tx.db:
		return optionError("index %s is of another DB than the transaction", ix.name)
	case o.Fresh:
		return optionError("a transaction cannot wait for an index: use WaitFresh before it, and leave Fresh out")
	}
	x, err := ix.readable(o.Building)
	if err != nil {
		return public(err)
	}
	s, err := o.scan(x)
	if err != nil {
		return err
	}
	if err := tx.maintain(); err != nil {
		return err
	}
	for left := o.Limit; ; {
		s.Limit = left
		seen, counted, more := 0, 0, true
		for entry, err := range tx.Scan(ix.entries, s) {
			if err != nil {
				return err
			}
			seen++
			s.After = ix.entries.space.AppendPosition(nil, entry.Key)
			item, counts, err := tx.indexItem(ix, x, entry, o.Rows)
			if err != nil {
				return err
			}
			if counts {
				counted++
				if more = visit(item); !more {
					break
				}
			}
		}
		// Entries that did not count have to be made up for.
		if left -= counted; !more || o.Limit == 0 || left == 0 || seen < s.Limit {
			return nil
		}
	}
}

// indexItem takes an entry apart, if it is of the row that there is.
func (tx *Txn) indexItem(ix *Index, x *node.Index, entry Item, rows bool) (item IndexItem, counts bool, err error) {
	if item, err = itemOf(x, entry); err != nil {
		return item, false, err
	}
	if counts, err = tx.counts(x, ix.rows, entry, item.Key); err != nil || !counts || !rows {
		return item, counts, err
	}
	p, err := tx.locate(ix.rows, item.Key, false)
	if err != nil {
		return item, false, err
	}
	row, _, err := tx.loadRow(place{ix.rows, p}, item.Key, nil, true)
	if err == nil && row != nil {
		item.Row = publicRow(row)
	}
	return item, err == nil, err
}

// publicRow is a row as programs see it.
func publicRow(r *index.Row) *IndexRow {
	row := &IndexRow{Key: r.Key, Value: r.Value, Expires: expiryTime(r.ExpiryMS)}
	for _, field := range r.Fields {
		row.Fields = append(row.Fields, Field(field))
	}
	return row
}
