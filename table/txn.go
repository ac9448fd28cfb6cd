package table

import (
	"errors"
	"iter"
	"slices"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Txn is a table in a transaction: what it reads is of the transaction's state, and
// what it writes commits with the rest of it. It belongs to the function of the
// transaction, as [cleave.Txn] does.
type Txn struct {
	t  *Table
	tx *cleave.Txn
}

// In returns the table in a transaction of its store, of DB.Update or DB.View.
func (t *Table) In(tx *cleave.Txn) Txn { return Txn{t, tx} }

// Get is [Table.Get].
func (x Txn) Get(columns key.Columns) (Row, error) {
	rows, err := x.findRows(columns)
	if err != nil {
		return Row{}, err
	}
	if len(rows) == 0 {
		return Row{}, cleave.ErrNotFound
	}
	return rows[0], nil
}

// findRows returns the rows of columns: several only if Append made them.
func (x Txn) findRows(columns key.Columns) (rows []Row, err error) {
	keys, err := x.t.candidateKeys(columns)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		item, err := x.tx.Item(x.t.ks, k)
		if errors.Is(err, cleave.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		row, _, err := x.t.decodeRow(item)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Put is [Table.Put].
func (x Txn) Put(columns key.Columns, value []byte) error {
	return x.PutWith(columns, value, cleave.SetOptions{})
}

// PutWith is [Table.PutWith]. A Request is refused, as by [cleave.Txn.SetWith].
func (x Txn) PutWith(columns key.Columns, value []byte, o cleave.SetOptions) error {
	if !x.t.saltPicked {
		return x.AppendWith(columns, value, o)
	}
	rows, err := x.findRows(columns)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return x.AppendWith(columns, value, o)
	}
	// First what may be refused: a caller that goes on after that has all rows as they were.
	if err := x.tx.SetWith(x.t.ks, rows[0].Key, value, o); err != nil {
		return err
	}
	for _, twin := range rows[1:] { // columns name one row again
		if _, err := x.tx.Delete(x.t.ks, twin.Key); err != nil {
			return err
		}
	}
	return nil
}

// Append is [Table.Append].
func (x Txn) Append(columns key.Columns, value []byte) error {
	return x.AppendWith(columns, value, cleave.SetOptions{})
}

// AppendWith is [Table.AppendWith].
func (x Txn) AppendWith(columns key.Columns, value []byte, o cleave.SetOptions) error {
	k, err := x.t.Key(columns)
	if err != nil {
		return err
	}
	return x.tx.SetWith(x.t.ks, k, value, o)
}

// Delete is [Table.Delete].
func (x Txn) Delete(columns key.Columns) (bool, error) {
	keys, err := x.t.candidateKeys(columns)
	if err != nil {
		return false, err
	}
	n, err := x.tx.Delete(x.t.ks, keys...)
	return n > 0, err
}

// Scan is [Table.Scan], of the state of the transaction. What was read of each salt,
// up to a page behind the last row that was returned, counts as read: a row that comes
// or goes there before the commit is a conflict.
func (x Txn) Scan(q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		p, err := x.t.newQueryPlan(q)
		if err != nil {
			yield(Row{}, err)
			return
		}
		p.scanRows(x.readPages)(yield)
	}
}

// readPages is the source of the transaction's state.
func (x Txn) readPages(scans ...cleave.ScanOptions) ([]cleave.Page, error) {
	return x.tx.ScanPages(x.t.ks, scans...)
}

// ScanPage is [Table.ScanPage].
func (x Txn) ScanPage(q Query) (Page, error) {
	limit := q.Limit
	if limit == 0 {
		limit = defaultPageRows
	}
	q.Limit = limit + 1
	if limit < 0 {
		q.Limit = limit // to be refused
	}
	var page Page
	for row, err := range x.Scan(q) {
		if err != nil {
			return Page{}, err
		}
		if len(page.Rows) == limit {
			page.Next = encodeCursor(page.Rows[limit-1].Key)
			break
		}
		page.Rows = append(page.Rows, row)
	}
	page.Rows = slices.Clip(page.Rows)
	return page, nil
}
