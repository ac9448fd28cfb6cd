package table

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// LastOfEach reads the newest rows of every entity: the values of the columns that the
// layout has before the time and that Where leaves open. Entities come in their order, and
// the rows of each newest first. All is of one moment, as with [Table.Rows]. It costs two
// reads for each entity, however many rows it has. MaxEmpty is not for it.
func (t *Table) LastOfEach(ctx context.Context, l Last) iter.Seq2[Row, error] {
	return t.viewed(ctx, func(x Txn) iter.Seq2[Row, error] { return x.LastOfEach(l) })
}

// LastOfEach is [Table.LastOfEach].
func (x Txn) LastOfEach(l Last) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := x.each(l, yield); err != nil {
			yield(Row{}, err)
		}
	}
}

func (x Txn) each(l Last, yield func(Row, error) bool) error {
	t := x.t
	if l.N < 1 || l.MaxEmpty != 0 {
		return fmt.Errorf("%w: N is %d and MaxEmpty %d: ask for at least one row, without MaxEmpty", ErrQuery, l.N, l.MaxEmpty)
	}
	first := t.open(l.Where)
	columns, end, err := t.entity(l.Where, first)
	if err != nil {
		return t.named(err)
	}
	seek, err := t.plan(Query{Where: l.Where, Limit: 1, KeysOnly: true})
	if err != nil {
		return err
	}
	for {
		row, ok, err := one(seek.rows(x.page))
		if err != nil || !ok {
			return err
		}
		of := maps.Clone(l.Where)
		if of == nil {
			of = key.Columns{}
		}
		for _, name := range columns {
			of[name], _ = row.Columns.Value(name)
		}
		q := Query{Where: of, Reverse: true, Limit: l.N, From: bound(l.Since), To: bound(l.Before)}
		for row, err := range x.Rows(q) {
			if err != nil {
				return err
			}
			if !yield(row, nil) {
				return nil
			}
		}
		seek.lo = append(t.prefix(row.Key, end), beyond)
	}
}

// one returns the first row.
func one(rows iter.Seq2[Row, error]) (row Row, ok bool, err error) {
	for row, err := range rows {
		return row, err == nil, err
	}
	return Row{}, false, nil
}

// entity returns the open columns before the time, and the index of its field.
func (t *Table) entity(where key.Columns, open int) (columns []string, end int, err error) {
	for end = open; end < len(t.fields); end++ {
		f := &t.fields[end]
		if f.Salts > 0 {
			continue
		}
		if f.Type == key.TypeTime {
			break
		}
		columns = append(columns, f.Column)
	}
	if len(columns) == 0 || end == len(t.fields) {
		return nil, 0, fmt.Errorf("%w: no columns are left open in front of a time: use Last", ErrQuery)
	}
	fixed := maps.Clone(where)
	if fixed == nil {
		fixed = key.Columns{}
	}
	for _, name := range columns {
		fixed[name] = nil
	}
	apart, err := t.timeAt(fixed, end)
	if err == nil && apart {
		err = fmt.Errorf("%w: a bucket stands before columns of the entity: ask for one entity with Last", ErrQuery)
	}
	return columns, end, err
}

// prefix returns the place of a key, up to a field.
func (t *Table) prefix(k []byte, end int) []byte {
	if t.salt >= 0 && t.salt < end {
		end--
	}
	place := t.unsalt(k)
	r := key.NewReader(place)
	for range end {
		r.Next()
	}
	at := r.Offset()
	return place[:at:at]
}

// viewed runs a read of a transaction on one state of its own.
func (t *Table) viewed(ctx context.Context, read func(Txn) iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		over := false
		err := t.db.View(ctx, func(tx *cleave.Txn) error {
			for row, err := range read(t.In(tx)) {
				if err != nil {
					return err
				}
				if over = !yield(row, nil); over {
					return nil
				}
			}
			return nil
		})
		if err != nil && !over {
			yield(Row{}, err)
		}
	}
}
