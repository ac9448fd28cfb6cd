package key

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Decode returns the columns of key, or a [*FitError] that says where the key
// stopped fitting. A key that is accepted encodes to the same bytes again: a
// bucket or a derived salt that contradicts its own column is refused too.
//
// A time of which the layout has only buckets, such as ts in hour(ts) | id,
// decodes to the start of its bucket, since a key holds no more of it; see
// [Values.Exact].
func (l *Layout) Decode(key []byte) (Values, error) {
	var v Values
	return v, l.DecodeInto(&v, key)
}

// DecodeInto is [Layout.Decode] into v, whose memory it uses again. If it
// fails, v holds the fields that did fit.
func (l *Layout) DecodeInto(v *Values, key []byte) (err error) {
	v.layout = l
	v.fields, err = l.decode(v.fields[:0], key)
	return err
}

// decode appends the fields of key to dst; if it fails, those that fit.
func (l *Layout) decode(dst []Element, key []byte) ([]Element, error) {
	if l == nil {
		return dst, errNilLayout
	}
	r := NewReader(key)
	for i := range l.fields {
		f := &l.fields[i]
		start := r.Offset()
		if !r.Next() {
			return dst, endError(&r, f.name)
		}
		if err := f.checkElement(r.Element()); err != nil {
			return dst, &FitError{Offset: start, Field: f.name, Cause: err}
		}
		dst = append(dst, r.Element())
	}
	if rest := r.Offset(); rest < len(key) {
		return dst, &FitError{Offset: rest, Cause: errors.New("more after the last column")}
	}
	if i, err := l.findContradiction(dst); err != nil {
		offset := 0
		for _, e := range dst[:i] {
			offset += len(e.Raw())
		}
		return dst[:i], &FitError{Offset: offset, Field: l.fields[i].name, Cause: err}
	}
	return dst, nil
}

// Partition returns the part of key that is its partition, as a view of key:
// records with equal partitions are kept together. It looks no further than
// that part, and fails as [Layout.Decode] does.
func (l *Layout) Partition(key []byte) ([]byte, error) {
	if l == nil {
		return nil, errNilLayout
	}
	r := NewReader(key)
	for i := range l.fields[:l.partition] {
		f := &l.fields[i]
		start := r.Offset()
		if !r.Next() {
			return nil, endError(&r, f.name)
		}
		if err := f.checkElement(r.Element()); err != nil {
			return nil, &FitError{Offset: start, Field: f.name, Cause: err}
		}
	}
	return key[:r.Offset():r.Offset()], nil
}

// endError explains why r has no next element.
func endError(r *Reader, field string) error {
	var bad *DecodeError
	if errors.As(r.Err(), &bad) {
		return &FitError{Offset: bad.Offset, Field: field, Cause: bad}
	}
	return &FitError{Offset: r.Offset(), Field: field, Cause: errors.New("the key ends before it")}
}

// checkElement reports whether the field can hold e.
func (f *Field) checkElement(e Element) error {
	switch {
	case f.Salts > 0:
		if u, ok := e.Uint(); !ok || u >= uint64(f.Salts) {
			return fmt.Errorf("want a salt from 0 to %d", f.Salts-1)
		}
		return nil
	case f.Hash:
		if u, ok := e.Uint(); !ok || u > math.MaxUint32 {
			return errors.New("want a hash of 32 bits")
		}
		return nil
	case f.Bucket != 0:
		_, err := elementSpan(f.Bucket, e)
		return err
	default:
		return checkTyped(f.Type, e)
	}
}

// findContradiction finds a field that contradicts the column it comes from, and
// says why.
func (l *Layout) findContradiction(fields []Element) (int, error) {
	for i := range l.columns {
		c := &l.columns[i]
		if len(c.buckets) == 0 || c.field < 0 && len(c.buckets) == 1 {
			continue // nothing to contradict
		}
		t, _ := l.columnTime(fields, c)
		for _, at := range c.buckets {
			b := l.fields[at].Bucket
			if i, _ := fields[at].Int(); i != b.indexOf(t) {
				return at, fmt.Errorf("%v does not hold %v", Span{b, i}, t)
			}
		}
	}
	for i := range l.fields[:l.partition] {
		f := &l.fields[i]
		if !f.Hash {
			continue
		}
		got, _ := fields[i].Uint()
		want := ColumnHash(fields[l.columns[f.column].field].Raw())
		if got != uint64(want) {
			return i, fmt.Errorf("found %d, but the column gives %d", got, want)
		}
	}
	if f := l.saltField(); f != nil && l.isSaltDerived(f) {
		got, _ := fields[l.salt].Uint()
		want := l.derived.Salt(fields[l.columns[f.column].field].Raw())
		if got != uint64(want) {
			return l.salt, fmt.Errorf("found %d, but the column gives %d", got, want)
		}
	}
	return 0, nil
}

// columnTime returns the time that a key's fields give for a time column: the
// column itself if it is there, else the latest start of its buckets, which is
// the one instant that is sure to lie in all of them.
func (l *Layout) columnTime(fields []Element, c *column) (t time.Time, ok bool) {
	if c.field >= 0 && c.field < len(fields) {
		t, err := elementTime(fields[c.field])
		return t, err == nil
	}
	for _, at := range c.buckets {
		if at >= len(fields) {
			break
		}
		if span, err := elementSpan(l.fields[at].Bucket, fields[at]); err == nil && (!ok || span.Start().After(t)) {
			t, ok = span.Start(), true
		}
	}
	return t, ok
}

// Values are the columns of a decoded key. They are views of the key, which
// must not change while they are in use.
type Values struct {
	layout *Layout
	fields []Element // one for each of the layout's fields
}

// String prints them for people, as [Layout.Format] does the key.
func (v Values) String() string {
	if v.layout == nil {
		return ""
	}
	return string(v.layout.appendFields(nil, v.fields))
}

// Value returns a column by name. A time of which the key has only buckets is
// the start of the bucket, and Exact is false for it. Under the name of a
// bucket, a salt or a hash, such as hour(ts) or salt(16), it returns the bucket's
// start, the salt as an int, or the hash as an int64. It reports false for what
// the key does not say.
func (v Values) Value(name string) (any, bool) {
	if v.layout == nil {
		return nil, false
	}
	if i := v.layout.columnIndex(name); i >= 0 {
		c := &v.layout.columns[i]
		if c.typ == TypeTime {
			return toValue(v.layout.columnTime(v.fields, c))
		}
		if c.field < 0 || c.field >= len(v.fields) {
			return nil, false
		}
		return v.fields[c.field].Value(), true
	}
	i := v.layout.fieldIndex(name)
	if i < 0 || i >= len(v.fields) {
		return nil, false
	}
	f := &v.layout.fields[i]
	if f.Bucket != 0 {
		span, err := elementSpan(f.Bucket, v.fields[i])
		return span.Start(), err == nil
	}
	if f.Hash {
		return v.fields[i].Value(), true
	}
	salt, ok := v.fields[i].Int()
	return int(salt), ok
}

// toValue returns t as a column's value, and nil if there is none.
func toValue(t time.Time, ok bool) (any, bool) {
	if !ok {
		return nil, false
	}
	return t, true
}

// Exact reports whether the key holds the column itself, rather than only a
// bucket, a salt or a hash that was computed from it.
func (v Values) Exact(column string) bool {
	if v.layout == nil {
		return false
	}
	i := v.layout.columnIndex(column)
	return i >= 0 && v.layout.columns[i].field >= 0 && v.layout.columns[i].field < len(v.fields)
}

// Element returns the encoded i-th field, and the zero Element past the last
// one that was decoded. It allocates nothing, where Value does.
func (v Values) Element(i int) Element {
	if i < 0 || i >= len(v.fields) {
		return Element{}
	}
	return v.fields[i]
}

// Map returns all the columns that the key holds. A time of which it holds only
// buckets is the start of the bucket, as [Values.Value] says.
func (v Values) Map() Columns {
	if v.layout == nil {
		return Columns{}
	}
	m := make(Columns, len(v.layout.columns))
	for i := range v.layout.columns {
		name := v.layout.columns[i].name
		if value, ok := v.Value(name); ok {
			m[name] = value
		}
	}
	return m
}

// Format prints key for people, with its fields named:
//
//	region="eu" hour(ts)=2026-11-15T01 | id=42
//
// Whatever is not printable is escaped. If the key does not fit, the text has
// the fields that do, then a question mark and the rest in quotes, and the
// error is that of [Layout.Decode].
func (l *Layout) Format(key []byte) (string, error) {
	text, err := l.AppendFormat(nil, key)
	return string(text), err
}

// AppendFormat is [Layout.Format], appended to dst.
func (l *Layout) AppendFormat(dst, key []byte) ([]byte, error) {
	var inline [inlineColumns]Element
	fields, err := l.decode(inline[:0], key)
	dst = l.appendFields(dst, fields)
	offset := 0
	for _, e := range fields {
		offset += len(e.Raw())
	}
	if offset < len(key) {
		dst = append(l.appendSeparator(dst, len(fields)), '?')
		dst = strconv.AppendQuoteToASCII(dst, string(key[offset:]))
	}
	return dst, err
}

// appendFields prints fields of a key.
func (l *Layout) appendFields(dst []byte, fields []Element) []byte {
	for i, e := range fields {
		dst = l.appendSeparator(dst, i)
		dst = l.fields[i].appendText(dst, e)
	}
	return dst
}

// appendSeparator appends what goes before field i.
func (l *Layout) appendSeparator(dst []byte, i int) []byte {
	switch i {
	case 0:
		return dst
	case l.partition:
		return append(dst, " | "...)
	default:
		return append(dst, ' ')
	}
}

// appendText prints the field's name and e, which check has passed.
func (f *Field) appendText(dst []byte, e Element) []byte {
	dst = append(append(dst, f.name...), '=')
	if f.Bucket != 0 {
		span, _ := elementSpan(f.Bucket, e)
		return span.Start().AppendFormat(dst, f.Bucket.timeFormat())
	}
	if f.Type == TypeTime && f.IsColumn() {
		t, _ := elementTime(e)
		return t.AppendFormat(dst, time.RFC3339Nano)
	}
	// The usual kinds are printed without making a value of them first.
	if i, ok := e.Int(); ok {
		return strconv.AppendInt(dst, i, 10)
	}
	b, ok := e.Bytes()
	switch {
	case ok && e.Kind() == KindString:
		return strconv.AppendQuote(dst, string(b))
	case ok:
		return appendBytesText(dst, b)
	default:
		return appendText(dst, e.Value(), 0)
	}
}
