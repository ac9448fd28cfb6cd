package key

import (
	"errors"
	"fmt"
	"time"
)

// Row is a record that a key is made from: it returns the value of a column,
// and whether it has it. Columns that the layout does not name are not asked
// for. [Columns] and [Values] are Rows.
//
// A salt that is picked, or derived from a column that is not itself in the
// key, may also be given, under the field's name, such as salt(16). So a
// decoded key encodes to itself.
type Row interface {
	Value(column string) (any, bool)
}

// Columns is a Row by name.
type Columns map[string]any

// Value returns the named column.
func (c Columns) Value(column string) (any, bool) {
	v, ok := c[column]
	return v, ok
}

// absent stands for the value of a column that a row does not have.
type absent struct{}

// inlineColumns is how many columns are encoded without allocating for them.
const inlineColumns = 8

// Encode returns the key of row; see [Layout.Append].
func (l *Layout) Encode(row Row) ([]byte, error) { return l.Append(nil, row) }

// Append appends the key of row to dst. If columns are missing or do not fit
// it returns dst as it was and an error that names all of them, which matches
// [ErrColumn], [ErrUnencodable], [ErrBucket] or [ErrSalt].
func (l *Layout) Append(dst []byte, row Row) ([]byte, error) {
	if l == nil {
		return dst, errNilLayout
	}
	if row == nil {
		return dst, fmt.Errorf("%w: nil Row", ErrColumn)
	}
	var inline [inlineColumns]any
	values := inline[:0]
	for i := range l.columns {
		v, ok := row.Value(l.columns[i].name)
		if !ok {
			v = absent{}
		}
		values = append(values, v)
	}
	var salt any = absent{}
	if f := l.saltField(); f != nil && !l.derivable(f) {
		if v, ok := row.Value(f.name); ok {
			salt = v
		}
	}
	return l.append(dst, values, salt)
}

// AppendValues appends the key of the given columns, one for each of
// [Layout.Columns] and in that order. It fails as [Layout.Append] does.
func (l *Layout) AppendValues(dst []byte, values ...any) ([]byte, error) {
	if l == nil {
		return dst, errNilLayout
	}
	if len(values) != len(l.columns) {
		return dst, fmt.Errorf("%w: %d values for the columns %v", ErrColumn, len(values), l.Columns())
	}
	return l.append(dst, values, absent{})
}

// append encodes the columns' values, and the salt if it is given.
func (l *Layout) append(dst []byte, values []any, salt any) ([]byte, error) {
	out := dst
	var errs []error
	for i := range l.fields {
		f := &l.fields[i]
		var v any = absent{}
		if f.column >= 0 {
			v = values[f.column]
		}
		var next []byte
		var err error
		if f.Salts > 0 {
			next, err = l.appendSalt(out, f, v, salt)
		} else {
			next, err = f.append(out, v)
		}
		if err != nil {
			errs = append(errs, err)
			continue // to report the other columns too
		}
		out = next
	}
	if errs != nil {
		return dst, errors.Join(errs...)
	}
	return out, nil
}

// append appends a column or a bucket of it.
func (f *Field) append(dst []byte, v any) ([]byte, error) {
	if f.Bucket == 0 {
		return f.appendColumn(dst, v)
	}
	if v == (absent{}) {
		return nil, f.misfit(errMissing)
	}
	t, ok := v.(time.Time)
	if !ok {
		return nil, f.misfit(fmt.Errorf("want time, got %T", v))
	}
	span, err := spanOf(f.Bucket, t)
	if err != nil {
		return nil, f.misfit(err)
	}
	return AppendInt(dst, span.Index()), nil
}

// appendColumn appends the field's column itself.
func (f *Field) appendColumn(dst []byte, v any) ([]byte, error) {
	if v == (absent{}) {
		return nil, f.misfit(errMissing)
	}
	dst, err := appendTyped(dst, f.Type, v)
	if err != nil {
		return nil, f.misfit(err)
	}
	return dst, nil
}

var errMissing = errors.New("missing")

// misfit says which column does not fit, and in which field.
func (f *Field) misfit(cause error) error {
	if f.isColumn() {
		return fmt.Errorf("%w: %s: %w", ErrColumn, f.Column, cause)
	}
	return fmt.Errorf("%w: %s in %s: %w", ErrColumn, f.Column, f.name, cause)
}

// derivable reports whether f is a salt that follows from the rest of the key.
func (l *Layout) derivable(f *Field) bool {
	return f.column >= 0 && l.columns[f.column].bare >= 0
}

// appendSalt appends the salt: the given one, or the one derived from the
// column's value, or one that the Salter picks.
func (l *Layout) appendSalt(dst []byte, f *Field, v, given any) ([]byte, error) {
	var salt int
	switch {
	case given != absent{}:
		i, u, ok := integer(given)
		if !ok || i < 0 || u >= uint64(f.Salts) {
			return nil, fmt.Errorf("%w: %s: %v given; want 0 to %d", ErrSalt, f.name, given, f.Salts-1)
		}
		salt = int(u)
	case f.Column != "":
		// Encoded past the end of the key so far, then cut off again: the
		// hash needs the bytes for a moment only.
		encoded, err := f.appendColumn(dst, v)
		if err != nil {
			return nil, err
		}
		salt = l.derived.Salt(encoded[len(dst):])
		dst = encoded[:len(dst)]
	case l.salter == nil:
		return nil, fmt.Errorf("%w: %s: nothing picks it; use WithSalter", ErrSalt, f.name)
	default:
		if salt = l.salter.Salt(nil); salt < 0 || salt >= f.Salts {
			return nil, fmt.Errorf("%w: %s: the Salter picked %d; want 0 to %d", ErrSalt, f.name, salt, f.Salts-1)
		}
	}
	return AppendInt(dst, int64(salt)), nil
}
