package index

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/key"
)

// columns is the extractor of a definition with columns. A column that the layout of
// the rows' keys names is a part of the key; others are fields of the hash.
type columns struct {
	layout *key.Layout
	rows   *key.Layout // of the keys of rows; nil if no column is of it
	from   []source    // one for each column of layout
	stored []string
	needs  []string
}

// source is where a column comes from.
type source struct {
	name string
	key  bool
	typ  key.Type
}

// New returns the extractor of a definition with columns, on rows whose keys have a
// layout, empty for none.
func New(d *Definition, layout string) (Extractor, error) { return newColumns(d, layout) }

func newColumns(d *Definition, layout string) (*columns, error) {
	l, err := key.ParseLayout(d.Columns)
	if err != nil {
		return nil, fmt.Errorf("%w: columns %q: %w", ErrDefinition, d.Columns, err)
	}
	c := &columns{layout: l, stored: d.Stored, needs: slices.Clone(d.Stored)}
	var rows *key.Layout
	if layout != "" {
		if rows, err = key.ParseLayout(layout); err != nil {
			return nil, fmt.Errorf("%w: layout of the rows %q: %w", ErrDefinition, layout, err)
		}
	}
	types := map[string]key.Type{}
	for _, f := range l.Fields() {
		if f.Salts > 0 && f.Column == "" {
			return nil, fmt.Errorf("%w: columns %q: a salt that is drawn is another one each time: name a column, as in salt(%d, id)", ErrDefinition, d.Columns, f.Salts)
		}
		if types[f.Column] == key.TypeAny {
			types[f.Column] = f.Type
		}
	}
	for _, name := range l.Columns() {
		s := source{name: name, typ: types[name], key: slices.Contains(rows.Columns(), name)}
		if c.from = append(c.from, s); s.key {
			c.rows = rows
		} else if !slices.Contains(c.needs, name) {
			c.needs = append(c.needs, name)
		}
	}
	slices.Sort(c.needs)
	return c, nil
}

// Needs implements [Extractor].
func (c *columns) Needs() ([]string, bool) { return c.needs, false }

// Entries implements [Extractor]. A row that lacks a field, is no hash, or whose key
// is not of the layout has none.
func (c *columns) Entries(r *Row) ([]Entry, error) {
	var parts key.Values
	if c.rows != nil {
		var err error
		if parts, err = c.rows.Decode(r.Key); err != nil {
			return nil, nil
		}
	}
	values := make([]any, len(c.from))
	for i, s := range c.from {
		value, there, err := s.value(r, parts)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrEntry, s.name, err)
		}
		if !there {
			return nil, nil
		}
		values[i] = value
	}
	k, err := c.layout.AppendValues([]byte{entriesStart}, values...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	// No element is nil, so that those of a nested tuple are encoded as outside.
	k = key.AppendBytes(append(k, 0), r.Key)
	value, err := c.store(r)
	if err != nil {
		return nil, err
	}
	return tidy([]Entry{{k, value}})
}

// store returns the bytes of the stored fields.
func (c *columns) store(r *Row) ([]byte, error) {
	if len(c.stored) == 0 {
		return nil, nil
	}
	t := make(key.Tuple, len(c.stored))
	for i, name := range c.stored {
		if value, ok := r.Field(name); ok {
			t[i] = value
		}
	}
	return key.Encode(t)
}

// Stored takes the bytes of stored fields apart: a value for each, nil for one that
// the row did not have.
func Stored(names []string, value []byte) ([]Field, error) {
	t, err := key.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("%w: stored fields: %w", ErrEntry, err)
	}
	if len(t) != len(names) {
		return nil, fmt.Errorf("%w: %d stored values for %d fields", ErrEntry, len(t), len(names))
	}
	var fields []Field
	for i, name := range names {
		if b, ok := t[i].([]byte); ok {
			fields = append(fields, Field{Name: []byte(name), Value: b})
		}
	}
	return fields, nil
}

// value returns the value of a column.
func (s *source) value(r *Row, parts key.Values) (value any, there bool, err error) {
	if s.key {
		value, there = parts.Value(s.name)
		there = there && value != nil // nil would end the tuple of the entry: it is none
		if t, isTime := value.(time.Time); isTime && s.typ == key.TypeAny {
			value, err = typed(key.TypeTime, t) // what a column of type time is encoded as, in far years too
		}
		return value, there, err
	}
	b, there := r.Field(s.name)
	if !there || !r.Hash {
		return nil, false, nil
	}
	value, err = parse(s.typ, b)
	return value, true, err
}

// parse reads the bytes of a field as a value of a type.
func parse(t key.Type, b []byte) (any, error) {
	var value any
	var err error
	switch text := string(b); t {
	case key.TypeBytes:
		return b, nil
	case key.TypeInt:
		value, err = strconv.ParseInt(text, 10, 64)
	case key.TypeFloat:
		value, err = strconv.ParseFloat(text, 64)
	case key.TypeBool:
		value, err = strconv.ParseBool(text)
	case key.TypeUUID:
		value, err = key.ParseUUID(text)
	case key.TypeTime:
		value, err = time.Parse(time.RFC3339Nano, text)
	default: // text, also if the type is left out: the layout refuses what is not UTF-8
		return text, nil
	}
	if err != nil {
		// Of what strconv says, the cause alone: values do not belong in logs.
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%d bytes are not of type %v: %w", len(b), t, err)
	}
	return value, nil
}
