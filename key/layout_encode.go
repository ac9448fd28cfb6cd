package key

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
	"unicode/utf8"
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

// absentValue stands for the value of a column that a row does not have.
type absentValue struct{}

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
			v = absentValue{}
		}
		values = append(values, v)
	}
	var salt any = absentValue{}
	if f := l.saltField(); f != nil && !l.isSaltDerived(f) {
		if v, ok := row.Value(f.name); ok {
			salt = v
		}
	}
	return l.appendFieldValues(dst, values, salt)
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
	return l.appendFieldValues(dst, values, absentValue{})
}

// appendFieldValues encodes the columns' values, and the salt if it is given.
func (l *Layout) appendFieldValues(dst []byte, values []any, salt any) ([]byte, error) {
	out := dst
	var errs []error
	for i := range l.fields {
		f := &l.fields[i]
		var v any = absentValue{}
		if f.column >= 0 {
			v = values[f.column]
		}
		var next []byte
		var err error
		if f.Salts > 0 {
			next, err = l.appendSalt(out, f, v, salt)
		} else {
			next, err = f.appendValue(out, v)
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

// appendValue appends a column, or the bucket or hash of it.
func (f *Field) appendValue(dst []byte, v any) ([]byte, error) {
	switch {
	case f.Hash:
		return f.appendHash(dst, v)
	case f.Bucket == 0:
		return f.appendColumn(dst, v)
	}
	if v == (absentValue{}) {
		return nil, f.newMisfitError(errMissing)
	}
	t, ok := v.(time.Time)
	if !ok {
		return nil, f.newMisfitError(fmt.Errorf("want time, got %T", v))
	}
	span, err := spanOf(f.Bucket, t)
	if err != nil {
		return nil, f.newMisfitError(err)
	}
	return AppendInt(dst, span.Index()), nil
}

// appendColumn appends the field's column itself.
func (f *Field) appendColumn(dst []byte, v any) ([]byte, error) {
	if v == (absentValue{}) {
		return nil, f.newMisfitError(errMissing)
	}
	dst, err := appendTyped(dst, f.Type, v)
	if err != nil {
		return nil, f.newMisfitError(err)
	}
	return dst, nil
}

// appendHash appends the hash of the column, whose encoding is needed for a moment only.
func (f *Field) appendHash(dst []byte, v any) ([]byte, error) {
	encoded, err := f.appendColumn(dst, v)
	if err != nil {
		return nil, err
	}
	h := ColumnHash(encoded[len(dst):])
	return AppendUint(encoded[:len(dst)], uint64(h)), nil
}

var errMissing = errors.New("missing")

// newMisfitError names the column that does not fit, and its field.
func (f *Field) newMisfitError(cause error) error {
	if f.IsColumn() {
		return fmt.Errorf("%w: %s: %w", ErrColumn, f.Column, cause)
	}
	return fmt.Errorf("%w: %s in %s: %w", ErrColumn, f.Column, f.name, cause)
}

// isSaltDerived reports whether f is a salt that follows from the rest of the key.
func (l *Layout) isSaltDerived(f *Field) bool {
	return f.column >= 0 && l.columns[f.column].field >= 0
}

// appendSalt appends the salt: the given one, or the one derived from the
// column's value, or one that the Salter picks.
func (l *Layout) appendSalt(dst []byte, f *Field, v, given any) ([]byte, error) {
	var salt int
	switch {
	case given != absentValue{}:
		i, u, ok := toInteger(given)
		if !ok || i < 0 || u >= uint64(f.Salts) {
			return nil, fmt.Errorf("%w: %s: %v given; want 0 to %d", ErrSalt, f.name, given, f.Salts-1)
		}
		salt = int(u)
	case f.Column != "":
		// Encoded past the end of the key so far, then cut off again: as in
		// appendHash.
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

// appendTyped appends v as a column of type typ.
func appendTyped(dst []byte, typ Type, v any) ([]byte, error) {
	switch typ {
	case TypeAny:
		return appendUntyped(dst, v)
	case TypeString:
		if s, ok := v.(string); ok {
			return appendUTF8(dst, s)
		}
	case TypeBytes:
		if b, ok := v.([]byte); ok {
			return AppendBytes(dst, b), nil
		}
	case TypeInt:
		if i, u, ok := toInteger(v); ok && i < 0 {
			return AppendInt(dst, i), nil
		} else if ok {
			return AppendUint(dst, u), nil
		}
		if b, ok := v.(*big.Int); ok {
			return AppendBigInt(dst, b)
		}
	case TypeFloat:
		switch f := v.(type) {
		case float64:
			return AppendFloat64(dst, f), nil
		case float32:
			return AppendFloat64(dst, float64(f)), nil
		}
	case TypeBool:
		if b, ok := v.(bool); ok {
			return AppendBool(dst, b), nil
		}
	case TypeUUID:
		switch u := v.(type) {
		case UUID:
			return AppendUUID(dst, u), nil
		case [16]byte:
			return AppendUUID(dst, u), nil
		}
	case TypeTime:
		if t, ok := v.(time.Time); ok {
			return appendTime(dst, t)
		}
	}
	return nil, fmt.Errorf("want %v, got %T", typ, v)
}

func appendUntyped(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return appendUTF8(dst, v)
	case Tuple:
		return nil, errors.New("a tuple; make its elements columns")
	case time.Time:
		// It would come back as a number.
		return nil, errors.New("a time.Time in a column without a type; declare it with :time")
	default:
		return AppendElement(dst, v)
	}
}

// appendUTF8 appends s if it is text that decoders of every language take.
func appendUTF8(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string that is not UTF-8; use bytes")
	}
	return AppendString(dst, s), nil
}

// typeKinds are the kinds that the typed columns decode from.
var typeKinds = [...]Kind{
	TypeString: KindString, TypeBytes: KindBytes, TypeInt: KindInt, TypeFloat: KindFloat64,
	TypeBool: KindBool, TypeUUID: KindUUID, TypeTime: KindInt,
}

// checkTyped reports whether appendTyped could have written e.
func checkTyped(typ Type, e Element) error {
	kind := e.Kind()
	if typ != TypeAny && kind != typeKinds[typ] {
		return fmt.Errorf("want %v, found %v", typ, kind)
	}
	switch {
	case kind == KindTuple:
		return errors.New("a nested tuple")
	case kind == KindString && !validUTF8(e):
		return errors.New("a string that is not UTF-8")
	case typ == TypeTime:
		_, err := elementTime(e)
		return err
	}
	return nil
}

// validUTF8 checks a string between its zero bytes, without unescaping it: a
// zero byte is a character of its own, so none spans the cut.
func validUTF8(e Element) bool {
	b := e.escapedPayload()
	if e.escapes == 0 {
		return utf8.Valid(b)
	}
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return utf8.Valid(b)
		}
		if !utf8.Valid(b[:i]) {
			return false
		}
		b = b[i+2:]
	}
}

const nanosPerSecond = 1_000_000_000

// Between these seconds a time's nanoseconds fit an int64 (1677 to 2262).
const (
	minNanoUnix = math.MinInt64/nanosPerSecond + 1
	maxNanoUnix = math.MaxInt64/nanosPerSecond - 1
)

// checkTime reports whether t can be in a key.
func checkTime(t time.Time) error {
	if t.IsZero() {
		return errors.New("the zero time; set it")
	}
	if sec := t.Unix(); sec < minUnix || sec > maxUnix {
		return fmt.Errorf("time %v is outside the years 1 to 9999", t)
	}
	return nil
}

// appendTime appends t as its nanoseconds since 1970. Those of far years take
// nine bytes: an integer of any size is still one element, and in order.
func appendTime(dst []byte, t time.Time) ([]byte, error) {
	if err := checkTime(t); err != nil {
		return nil, err
	}
	sec, nanos := t.Unix(), int64(t.Nanosecond())
	if sec >= minNanoUnix && sec <= maxNanoUnix {
		return AppendInt(dst, sec*nanosPerSecond+nanos), nil
	}
	i := big.NewInt(sec)
	i.Mul(i, big.NewInt(nanosPerSecond)).Add(i, big.NewInt(nanos))
	return AppendBigInt(dst, i)
}

// elementTime reads what appendTime wrote, from an integer.
func elementTime(e Element) (time.Time, error) {
	var t time.Time
	if i, ok := e.Int(); ok {
		t = time.Unix(0, i).UTC()
	} else {
		sec, _ := e.BigInt()
		var nanos big.Int
		sec.DivMod(sec, big.NewInt(nanosPerSecond), &nanos)
		if !sec.IsInt64() {
			return time.Time{}, errors.New("time is outside the years 1 to 9999")
		}
		t = time.Unix(sec.Int64(), nanos.Int64()).UTC()
	}
	return t, checkTime(t)
}

// spanOf returns the span that t is in. The start of the span stands for t
// when the key is decoded, so it has to be a time that can be in a key.
func spanOf(b Bucket, t time.Time) (Span, error) {
	if err := checkTime(t); err != nil {
		return Span{}, err
	}
	span, err := b.Of(t)
	if err != nil {
		return Span{}, err
	}
	return span, checkTime(span.Start())
}

// elementSpan reads a span's number.
func elementSpan(b Bucket, e Element) (Span, error) {
	i, ok := e.Int()
	switch {
	case e.Kind() != KindInt:
		return Span{}, fmt.Errorf("want the number of a bucket, found %v", e.Kind())
	case !ok:
		return Span{}, errors.New("the number of the bucket is beyond 64 bits")
	}
	span, err := b.At(i)
	if err != nil {
		return Span{}, err
	}
	return span, checkTime(span.Start())
}
