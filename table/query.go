package table

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cleavekv/cleave/key"
)

// Query specifies which rows to read. The zero value reads all, in order.
type Query struct {
	// Where fixes columns: those that the layout begins with, salts aside, or the one
	// that the salt is derived from. A bucket alone is fixed by a time in it, under
	// the name of the field, such as day(ts).
	Where key.Columns
	// From and To bound the first column that Where leaves open: From is included, To
	// is not, and nil is no bound. Nothing lies between bounds that are the wrong way
	// round. Behind an open hash rows are in no order of its column, and bounds are refused.
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

// queryPlan is a query as bounds of places.
type queryPlan struct {
	t *Table
	// lo and hi are the places to read from, lo included and hi not.
	lo, hi []byte
	// onlySalt is the one salt to read, -1 for all of them.
	onlySalt          int
	filters           []rowFilter
	reverse, keysOnly bool
	limit             int // 0 for none
	// after is the key of the row to continue behind, nil for none.
	after []byte
}

// rowFilter reports whether a row that lies between the bounds is one to return.
type rowFilter func(key.Values) bool

// newQueryPlan checks a query and turns it into bounds.
func (t *Table) newQueryPlan(q Query) (*queryPlan, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Limit is %d: use a positive one, or 0 for none", ErrQuery, q.Limit)
	}
	p := &queryPlan{t: t, onlySalt: -1, reverse: q.Reverse, keysOnly: q.KeysOnly, limit: q.Limit}
	open := t.firstOpenField(q.Where)
	lo, err := t.newBoundKey(q.Where, open, q.From, false)
	if err != nil {
		return nil, t.withTableName(t.withBoundName("From", open, q.From, err))
	}
	hi, err := t.newBoundKey(q.Where, open, q.To, true)
	if err != nil {
		return nil, t.withTableName(t.withBoundName("To", open, q.To, err))
	}
	p.lo, p.hi = t.removeSalt(lo), t.removeSalt(hi)
	if isEmptyTimeRange(q.From, q.To) {
		p.hi = p.lo
	}
	if t.salt >= 0 && t.isGiven(q.Where, t.salt) {
		if _, rest, whole := t.splitAtSalt(lo); whole && len(rest) > 0 {
			p.onlySalt = t.saltOf(lo)
		}
	}
	if err := p.addFilters(q, open); err != nil {
		return nil, t.withTableName(err)
	}
	return p, p.resumeAfter(q.After)
}

// isEmptyTimeRange reports whether no time lies between bounds, which their buckets need not show.
func isEmptyTimeRange(from, to any) bool {
	f, ok := from.(time.Time)
	t, also := to.(time.Time)
	return ok && also && !f.Before(t)
}

// isGiven reports whether a field follows from columns.
func (t *Table) isGiven(where key.Columns, i int) bool {
	f := &t.fields[i]
	_, byColumn := where[f.Column]
	_, byName := where[f.Name()]
	return byColumn && f.Column != "" || byName
}

// firstOpenField returns the index of the first field, salts aside, that columns leave open.
func (t *Table) firstOpenField(where key.Columns) int {
	for i := range t.fields {
		if t.fields[i].Salts == 0 && !t.isGiven(where, i) {
			return i
		}
	}
	return len(t.fields)
}

// newBoundKey returns the key with which the rows that lie on one side of a value begin, or
// before which they end. If the salt is open, it is that of the first salt.
func (t *Table) newBoundKey(where key.Columns, open int, value any, upper bool) ([]byte, error) {
	ranges, err := []key.Range(nil), error(nil)
	switch {
	case value == nil:
		ranges, err = t.layout.FanOut(where)
	case upper:
		ranges, err = t.layout.Between(t.withBuckets(where, open, value, -1), nil, value)
	default:
		ranges, err = t.layout.Between(t.withBuckets(where, open, value, 0), value, nil)
	}
	if err != nil {
		return nil, err
	}
	if upper {
		return ranges[0].End, nil
	}
	return ranges[0].Begin, nil
}

// withBoundName adds the name of the column that a bound was taken for: a caller that omits one in
// Where means another.
func (t *Table) withBoundName(name string, open int, value any, err error) error {
	if value == nil || open == len(t.fields) {
		return err
	}
	return fmt.Errorf("%s bounds %s, the first that Where leaves open: %w", name, t.fields[open].Name(), err)
}

// withBuckets adds to columns the buckets that a time lies in, if the open field is such a
// bucket and the column itself comes right behind it: then the bound is exact. That is
// so because a later time is in no earlier bucket, so places sort by the time alone.
func (t *Table) withBuckets(where key.Columns, open int, value any, shift time.Duration) key.Columns {
	at, isTime := value.(time.Time)
	if !isTime || !t.isExactOrder(open) || t.fields[open].Bucket == 0 {
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

// isExactOrder reports whether rows that agree on all before a field are in the order of its
// column: it is the column, or buckets of it with the column right behind them.
func (t *Table) isExactOrder(open int) bool {
	if open >= len(t.fields) {
		return false
	}
	for _, f := range t.fields[open:] {
		switch {
		case f.Salts > 0:
		case f.Column != t.fields[open].Column, f.Hash:
			return false
		case f.Bucket == 0:
			return true
		}
	}
	return false
}

// removeSalt takes the salt out of a bound, if it reaches that far.
func (t *Table) removeSalt(bound []byte) []byte {
	if t.salt < 0 {
		return bound
	}
	stem, rest, whole := t.splitAtSalt(bound)
	r := key.NewReader(rest)
	if !whole || !r.Next() {
		return bound
	}
	return append(stem, rest[r.Offset():]...)
}

// addFilters adds what the bounds alone do not cover: columns that are fixed but stand
// behind an open one, and times that are not compared exactly.
func (p *queryPlan) addFilters(q Query, open int) error {
	t := p.t
	for i := open; i < len(t.fields); i++ {
		f := &t.fields[i]
		value, fixed := q.Where[f.Column]
		if f.Salts > 0 || f.Hash || !fixed { // the column of a hash comes behind it
			continue
		}
		want, err := t.encodeElement(f, value)
		if err != nil {
			return err
		}
		p.filters = append(p.filters, func(v key.Values) bool { return bytes.Equal(v.Element(i).Raw(), want) })
	}
	if open == len(t.fields) || t.isExactOrder(open) || t.columnLayouts[t.fields[open].Column] == nil {
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

// encodeElement returns what a field of a key holds for a value of its column.
func (t *Table) encodeElement(f *key.Field, value any) ([]byte, error) {
	if f.Bucket == 0 {
		return t.columnLayouts[f.Column].AppendValues(nil, value)
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

// matchesFilters reports whether a row passes the filters.
func (p *queryPlan) matchesFilters(v key.Values) bool {
	for _, f := range p.filters {
		if !f(v) {
			return false
		}
	}
	return true
}

// ErrCursor means that a Cursor is not from a page of this query: begin anew.
var ErrCursor = errors.New("table: bad cursor")

// Cursor is a place behind a row. It may be kept anywhere, and put into a URL as it
// is. Empty is the beginning.
type Cursor string

// cursorVersion is the first byte of what a cursor encodes; the key comes after it.
const cursorVersion = 1

func encodeCursor(k []byte) Cursor {
	return Cursor(base64.RawURLEncoding.EncodeToString(append([]byte{cursorVersion}, k...)))
}

// resumeAfter lets the plan continue behind a cursor.
func (p *queryPlan) resumeAfter(c Cursor) error {
	if c == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(c))
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return fmt.Errorf("%w: %q is none of this version", ErrCursor, c)
	}
	k := b[1:]
	if _, err := p.t.layout.Decode(k); err != nil {
		return fmt.Errorf("%w: it is of another table: %w", ErrCursor, err)
	}
	place := p.t.removeSalt(k)
	outside := bytes.Compare(place, p.lo) < 0 || bytes.Compare(place, p.hi) >= 0
	if outside || p.onlySalt >= 0 && p.onlySalt != p.t.saltOf(k) {
		return fmt.Errorf("%w: its row is not one of this query: keep Where, From and To from page to page", ErrCursor)
	}
	p.after = k
	return nil
}
