package table

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Put stores a row in the place of the one with these columns, if there is one, and
// makes it live for ever. With a salt that is picked it is a transaction that looks for
// the row under each salt: see [Table.Append].
func (t *Table) Put(ctx context.Context, columns key.Columns, value []byte) error {
	return t.PutWith(ctx, columns, value, cleave.SetOptions{})
}

// PutWith is Put with an expiry, or under conditions that the row must meet: see
// [cleave.SetOptions]. A Request goes with salts that follow from columns only.
func (t *Table) PutWith(ctx context.Context, columns key.Columns, value []byte, o cleave.SetOptions) error {
	if !t.picked {
		return t.AppendWith(ctx, columns, value, o)
	}
	return t.db.Update(ctx, func(tx *cleave.Txn) error { return t.In(tx).PutWith(columns, value, o) })
}

// Append stores a row whose columns were never used, in one write, whatever salt it
// gets. It does not look: if there is a row with these columns and its salt is picked,
// there may be two of them then, and both are read; otherwise it is Put.
func (t *Table) Append(ctx context.Context, columns key.Columns, value []byte) error {
	k, err := t.Key(columns)
	if err != nil {
		return err
	}
	return t.ks.Set(ctx, k, value)
}

// AppendWith is Append with an expiry, or under conditions, which with a salt that is
// picked are about that salt alone. A Request does not go with such a salt: a retry would
// pick another, and make a second row.
func (t *Table) AppendWith(ctx context.Context, columns key.Columns, value []byte, o cleave.SetOptions) error {
	if o.Request != (cleave.RequestID{}) && t.picks(columns) {
		return t.named(fmt.Errorf("%w: Request with a salt that is picked: a retry would pick another: give the salt", cleave.ErrOptions))
	}
	k, err := t.Key(columns)
	if err != nil {
		return err
	}
	_, err = t.ks.SetWith(ctx, k, value, o)
	return err
}

// Delete deletes the row of the given columns, all of them if Append made several, and
// tells whether there was one.
func (t *Table) Delete(ctx context.Context, columns key.Columns) (bool, error) {
	keys, err := t.keys(columns)
	if err != nil {
		return false, err
	}
	n, err := t.ks.Delete(ctx, keys...)
	return n > 0, err
}
