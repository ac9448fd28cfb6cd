package table

import (
	"context"
	"iter"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// defaultPage is how many rows a page has if nothing else is asked for.
const defaultPage = 1000

// Page is a part of the rows of a query.
type Page struct {
	Rows []Row
	// Next is where the next page begins, for Query.After; empty at the end.
	Next Cursor
}

// Get returns the row of the given columns, which are all of the layout's, or
// cleave.ErrNotFound. With a salt that is picked it asks for a key of each salt, at
// one moment, and if Append made several rows of these columns it returns the one of the
// first salt.
func (t *Table) Get(ctx context.Context, columns key.Columns) (row Row, err error) {
	keys, err := t.keys(columns)
	if err != nil {
		return Row{}, err
	}
	if len(keys) == 1 {
		item, err := t.ks.Item(ctx, keys[0])
		if err != nil {
			return Row{}, err
		}
		row, _, err = t.row(item)
		return row, err
	}
	err = t.db.View(ctx, func(tx *cleave.Txn) (err error) {
		row, err = t.In(tx).Get(columns)
		return err
	})
	return row, err
}

// Rows reads rows in order, all of one moment: that of the first step. It keeps that
// moment's data as long as it runs, as [cleave.Keyspace.All] does; for a read that
// rests in between use Page. An error ends it.
func (t *Table) Rows(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return t.viewed(ctx, func(x Txn) iter.Seq2[Row, error] { return x.Rows(q) })
}

// Page reads the next rows in order, at most Limit, all of one moment. Two pages are of
// two.
func (t *Table) Page(ctx context.Context, q Query) (page Page, err error) {
	err = t.db.View(ctx, func(tx *cleave.Txn) (err error) {
		page, err = t.In(tx).Page(q)
		return err
	})
	return page, err
}
