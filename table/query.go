package table

import (
	"bytes"
	"fmt"
	"maps"
	"time"

	"github.com/cleavekv/cleave/key"
)

// Query says which rows to read. The zero value reads all, in order.
type Query struct {
	// Where fixes columns: those that the layout begins with, salts aside, or the one
	// that the salt is derived from. A bucket alone is fixed by a time in it, under
	// the name of the field, such as day(ts).
	Where key.Columns
	// From and To bound the first column that Where leaves open: From is included, To
	// is not, and nil is no bound. Nothing lies between bounds that are the wrong way
	// round.
	From, To any
	// Reverse reads the last row first.
	Reverse bool
	// Limit is the most rows. Default: no limit, and 1000 for a page.
	Limit int
	// After continues behind the row that a [Page] ended with.
	After Cursor
	// KeysOnly leaves values out.
	KeysOnly bool
}

// plan is a query as bounds of places.
type plan struct {
	t *Table
	// lo and hi are the places to read from, lo included and hi not.
	lo, hi []byte
	// only is the one salt to read, -1 for all of them.
	only              int
	filters           []filter
	reverse, keysOnly bool
	limit             int // 0 for none
	// after is the key of the row to continue behind, nil for none.
	after []byte
}

// filter tells whether a row that lies between the bounds is one to return.
type filter func(key.Values) bool

// plan checks a query and turns it into bounds.
func (t *Table) plan(q Query) (*plan, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Limit is %d: use a positive one, or 0 for none", ErrQuery, q.Limit)
	}
	p := &plan{t: t, only: -1, reverse: q.Reverse, keysOnly: q.KeysOnly, limit: q.Limit}
	open := t.open(q.Where)
	lo, err := t.bound(q.Where, open, q.From, false)
	if err != nil {
		return nil, t.named(t.bounding("From", open, q.From, err))
	}
	hi, err := t.bound(q.Where, open, q.To, true)
	if err != nil {
		return nil, t.named(t.bounding("To", open, q.To, err))
	}
	p.lo, p.hi = t.unsalt(lo), t.unsalt(hi)
	if noTime(q.From, q.To) {
		p.hi = p.lo
	}
	if t.salt >= 0 && t.given(q.Where, t.salt) {
		if _, rest, whole := t.stem(lo); whole && len(rest) > 0 {
			p.only = t.saltOf(lo)
		}
	}
	if err := p.filter(q, open); err != nil {
		return nil, t.named(err)
	}
	return p, p.resume(q.After)
}

// noTime tells whether no time lies between bounds, which their buckets need not show.
func noTime(from, to any) bool {
	f, ok := from.(time.Time)
	t, also := to.(time.Time)
	return ok && also && !f.Before(t)
}

// given tells whether a field follows from columns.
func (t *Table) given(where key.Columns, i int) bool {
	f := &t.fields[i]
	_, byColumn := where[f.Column]
	_, byName := where[f.Name()]
	return byColumn && f.Column != "" || byName
}

// open returns the index of the first field, salts aside, that columns leave open.
func (t *Table) open(where key.Columns) int {
	for i := range t.fields {
		if t.fields[i].Salts == 0 && !t.given(where, i) {
			return i
		}
	}
	return len(t.fields)
}

// bound returns the key with which the rows that lie on one side of a value begin, or
// before which they end. If the salt is open, it is that of the first salt.
func (t *Table) bound(where key.Columns, open int, value any, upper bool) ([]byte, error) {
	ranges, err := []key.Range(nil), error(nil)
	switch {
	case value == nil:
		ranges, err = t.layout.FanOut(where)
	case upper:
		ranges, err = t.layout.Between(t.within(where, open, value, -1), nil, value)
	default:
		ranges, err = t.layout.Between(t.within(where, open, value, 0), value, nil)
	}
	if err != nil {
		return nil, err
	}
	if upper {
		return ranges[0].End, nil
	}
	return ranges[0].Begin, nil
}

// bounding says which column a bound was taken for: whoever has left one out in Where meant
// another.
func (t *Table) bounding(name string, open int, value any, err error) error {
	if value == nil || open == len(t.fields) {
		return err
	}
	return fmt.Errorf("%s bounds %s, the first that Where leaves open: %w", name, t.fields[open].Name(), err)
}

// within adds to columns the buckets that a time lies in, if the open field is such a
// bucket and the column itself comes right behind it: then the bound is exact. That is
// so because a later time is in no earlier bucket, so places sort by the time alone.
func (t *Table) within(where key.Columns, open int, value any, shift time.Duration) key.Columns {
	at, isTime := value.(time.Time)
	if !isTime || !t.exact(open) || t.fields[open].Bucket == 0 {
		return where
	}
	where = maps.Clone(where)
	if where == nil {
		where = key.Columns{}
	}
	for _, f := range t.fields[open:] {
		if f.Bucket == 0 && f.Salts == 0 {
			return where
		}
		if f.Salts == 0 {
			where[f.Name()] = at.Add(shift)
		}
	}
	return where
}

// exact tells whether rows that agree on all before a field are in the order of its
// column: it is the column, or buckets of it with the column right behind them.
func (t *Table) exact(open int) bool {
	if open >= len(t.fields) {
		return false
	}
	for _, f := range t.fields[open:] {
		switch {
		case f.Salts > 0:
		case f.Column != t.fields[open].Column:
			return false
		case f.Bucket == 0:
			return true
		}
	}
	return false
}

// unsalt takes the salt out of a bound, if it reaches that far.
func (t *Table) unsalt(bound []byte) []byte {
	if t.salt < 0 {
		return bound
	}
	stem, rest, whole := t.stem(bound)
	r := key.NewReader(rest)
	if !whole || !r.Next() {
		return bound
	}
	return append(stem, rest[r.Offset():]...)
}

// filter adds what the bounds alone do not tell: columns that are fixed but stand
// behind an open one, and times that are not compared exactly.
func (p *plan) filter(q Query, open int) error {
	t := p.t
	for i := open; i < len(t.fields); i++ {
		f := &t.fields[i]
		value, fixed := q.Where[f.Column]
		if f.Salts > 0 || !fixed {
			continue
		}
		want, err := t.element(f, value)
		if err != nil {
			return err
		}
		p.filters = append(p.filters, func(v key.Values) bool { return bytes.Equal(v.Element(i).Raw(), want) })
	}
	if open == len(t.fields) || t.exact(open) || t.alone[t.fields[open].Column] == nil {
		return nil
	}
	column := t.fields[open].Column
	from, hasFrom := q.From.(time.Time)
	to, hasTo := q.To.(time.Time)
	if hasFrom || hasTo {
		p.filters = append(p.filters, func(v key.Values) bool {
			value, _ := v.Value(column)
			at, _ := value.(time.Time)
			return !(hasFrom && at.Before(from) || hasTo && !at.Before(to))
		})
	}
	return nil
}

// element returns what a field of a key holds for a value of its column.
func (t *Table) element(f *key.Field, value any) ([]byte, error) {
	if f.Bucket == 0 {
		return t.alone[f.Column].AppendValues(nil, value)
	}
	at, ok := value.(time.Time)
	if !ok {
		return nil, fmt.Errorf("%w: %s: want time, got %T", key.ErrColumn, f.Column, value)
	}
	span, err := f.Bucket.Of(at)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", key.ErrColumn, f.Column, err)
	}
	return key.AppendInt(nil, span.Index()), nil
}

// wanted tells whether a row passes the filters.
func (p *plan) wanted(v key.Values) bool {
	for _, f := range p.filters {
		if !f(v) {
			return false
		}
	}
	return true
}
