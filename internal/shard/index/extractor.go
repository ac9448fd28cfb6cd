package index

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/key"
)

// Row is a row as an extractor sees it.
type Row struct {
	Key []byte
	// IsHash reports whether the row holds fields, and Value is what it holds if not.
	IsHash bool
	Value  []byte
	// Fields are those that the extractor needs, by name.
	Fields []Field
	// ExpiryMS is when the row expires, in Unix milliseconds; 0 means never.
	ExpiryMS int64
}

// Field is a field of a hash.
type Field struct{ Name, Value []byte }

// Field returns the value of a field.
func (r *Row) Field(name string) (value []byte, ok bool) {
	i, ok := slices.BinarySearchFunc(r.Fields, name, func(f Field, name string) int { return bytes.Compare(f.Name, []byte(name)) })
	if !ok {
		return nil, false
	}
	return r.Fields[i].Value, true
}

// Extractor makes the entries of rows. It may be used by any goroutine.
type Extractor interface {
	// NeededFields returns which fields of a hash it reads, sorted; all of them if whole.
	NeededFields() (fields []string, whole bool)
	// ExtractEntries returns the entries of a row by their keys, none if it has none. The
	// error matches ErrEntry: then there is a mistake in the row.
	ExtractEntries(r *Row) ([]Entry, error)
}

// ExtractFunc is an extractor that a program hands in.
type ExtractFunc func(r *Row) ([]FuncEntry, error)

// FuncEntry is an entry as a function makes it.
type FuncEntry struct {
	Tuple key.Tuple
	Value []byte
}

// NeededFields implements [Extractor].
func (f ExtractFunc) NeededFields() ([]string, bool) { return nil, true }

// ExtractEntries implements [Extractor].
func (f ExtractFunc) ExtractEntries(r *Row) ([]Entry, error) {
	made, err := f.callSafely(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	entries := make([]Entry, len(made))
	for i, m := range made {
		k, err := AppendKey(nil, m.Tuple, r.Key)
		if err != nil {
			return nil, err
		}
		entries[i] = Entry{k, m.Value}
	}
	if entries, err = sortAndCheck(entries); err != nil {
		return nil, err
	}
	for i := range entries { // the function may keep what it has handed out
		entries[i].Value = bytes.Clone(entries[i].Value)
	}
	return entries, nil
}

// callSafely calls the function. A panic is an error like others: it must not take down a
// program that builds the index, now and after each restart.
func (f ExtractFunc) callSafely(r *Row) (made []FuncEntry, err error) {
	defer func() {
		if p := recover(); p != nil {
			made, err = nil, fmt.Errorf("the function has panicked: %v", p)
		}
	}()
	return f(r)
}

// columnExtractor is the extractor of a definition with columns. A column that the layout of
// the rows' keys names is a part of the key; others are fields of the hash.
type columnExtractor struct {
	layout       *key.Layout
	rowLayout    *key.Layout    // of the keys of rows; nil if no column is of it
	sources      []columnSource // one for each column of layout
	storedFields []string
	neededFields []string
}

// columnSource is where a column comes from.
type columnSource struct {
	name    string
	fromKey bool
	typ     key.Type
}

// NewExtractor returns the extractor of a definition with columns, on rows whose keys have a
// layout, empty for none.
func NewExtractor(d *Definition, layout string) (Extractor, error) {
	return newColumnExtractor(d, layout)
}

func newColumnExtractor(d *Definition, layout string) (*columnExtractor, error) {
	l, err := key.ParseLayout(d.Columns)
	if err != nil {
		return nil, fmt.Errorf("%w: columns %q: %w", ErrDefinition, d.Columns, err)
	}
	c := &columnExtractor{layout: l, storedFields: d.Stored, neededFields: slices.Clone(d.Stored)}
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
		s := columnSource{name: name, typ: types[name], fromKey: slices.Contains(rows.Columns(), name)}
		if c.sources = append(c.sources, s); s.fromKey {
			c.rowLayout = rows
		} else if !slices.Contains(c.neededFields, name) {
			c.neededFields = append(c.neededFields, name)
		}
	}
	slices.Sort(c.neededFields)
	return c, nil
}

// NeededFields implements [Extractor].
func (c *columnExtractor) NeededFields() ([]string, bool) { return c.neededFields, false }

// ExtractEntries implements [Extractor]. A row that lacks a field, is no hash, or whose key
// is not of the layout has none.
func (c *columnExtractor) ExtractEntries(r *Row) ([]Entry, error) {
	var parts key.Values
	if c.rowLayout != nil {
		var err error
		if parts, err = c.rowLayout.Decode(r.Key); err != nil {
			return nil, nil
		}
	}
	values := make([]any, len(c.sources))
	for i, s := range c.sources {
		value, there, err := s.readValue(r, parts)
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
	value, err := c.encodeStored(r)
	if err != nil {
		return nil, err
	}
	return sortAndCheck([]Entry{{k, value}})
}

// encodeStored returns the bytes of the stored fields.
func (c *columnExtractor) encodeStored(r *Row) ([]byte, error) {
	if len(c.storedFields) == 0 {
		return nil, nil
	}
	t := make(key.Tuple, len(c.storedFields))
	for i, name := range c.storedFields {
		if value, ok := r.Field(name); ok {
			t[i] = value
		}
	}
	return key.Encode(t)
}

// DecodeStored takes the bytes of stored fields apart: a value for each, nil for one that
// the row did not have.
func DecodeStored(names []string, value []byte) ([]Field, error) {
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

// readValue returns the value of a column.
func (s *columnSource) readValue(r *Row, parts key.Values) (value any, there bool, err error) {
	if s.fromKey {
		value, there = parts.Value(s.name)
		there = there && value != nil // nil would end the tuple of the entry: it is none
		if t, isTime := value.(time.Time); isTime && s.typ == key.TypeAny {
			value, err = convertToType(key.TypeTime, t) // what a column of type time is encoded as, in far years too
		}
		return value, there, err
	}
	b, there := r.Field(s.name)
	if !there || !r.IsHash {
		return nil, false, nil
	}
	value, err = parseValue(s.typ, b)
	return value, true, err
}

// parseValue reads the bytes of a field as a value of a type.
func parseValue(t key.Type, b []byte) (any, error) {
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
		// Of the error of strconv, the cause alone: values do not belong in logs.
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%d bytes are not of type %v: %w", len(b), t, err)
	}
	return value, nil
}
