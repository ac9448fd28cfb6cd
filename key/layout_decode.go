package key

import (
	"errors"
	"fmt"
	"time"
)

// Values are the columns of a decoded key. They are views of the key, which
// must not change while they are in use.
type Values struct {
	layout *Layout
	fields []Element // one for each of the layout's fields
}

// Decode returns the columns of key, or a [*FitError] that says where the key
// stopped fitting. A key that is accepted encodes to the same bytes again: a
// bucket or a derived salt that contradicts its own column is refused too.
func (l *Layout) Decode(key []byte) (Values, error) {
	var v Values
	return v, l.DecodeInto(&v, key)
}

// DecodeInto is [Layout.Decode] into v, whose memory it uses again. If it
// fails, v holds the fields that did fit.
func (l *Layout) DecodeInto(v *Values, key []byte) error {
	v.layout, v.fields = l, v.fields[:0]
	r := NewReader(key)
	for i := range l.fields {
		f := &l.fields[i]
		start := r.Offset()
		if !r.Next() {
			return endError(&r, f.name)
		}
		if err := f.check(r.Element()); err != nil {
			return &FitError{Offset: start, Field: f.name, Cause: err}
		}
		v.fields = append(v.fields, r.Element())
	}
	if rest := r.Offset(); rest < len(key) {
		return &FitError{Offset: rest, Cause: errors.New("more after the last column")}
	}
	return v.checkDerived()
}

// Partition returns the part of key that is its partition, as a view of key:
// records with equal partitions are kept together. It looks no further than
// that part, and fails as [Layout.Decode] does.
func (l *Layout) Partition(key []byte) ([]byte, error) {
	r := NewReader(key)
	for i := range l.fields[:l.partition] {
		f := &l.fields[i]
		start := r.Offset()
		if !r.Next() {
			return nil, endError(&r, f.name)
		}
		if err := f.check(r.Element()); err != nil {
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

// check reports whether the field can hold e.
func (f *Field) check(e Element) error {
	switch {
	case f.Salts > 0:
		if u, ok := e.Uint(); !ok || u >= uint64(f.Salts) {
			return fmt.Errorf("want a salt from 0 to %d", f.Salts-1)
		}
		return nil
	case f.Bucket != 0:
		_, err := elementSpan(f.Bucket, e)
		return err
	default:
		return checkTyped(f.Type, e)
	}
}

// checkDerived refuses fields that contradict the column they come from.
func (v *Values) checkDerived() error {
	l := v.layout
	for i := range l.columns {
		c := &l.columns[i]
		if len(c.buckets) == 0 || c.bare < 0 && len(c.buckets) == 1 {
			continue // nothing to contradict
		}
		t, _ := v.instant(c)
		for _, at := range c.buckets {
			b := l.fields[at].Bucket
			if i, _ := v.fields[at].Int(); i != b.index(t) {
				return v.contradiction(at, fmt.Errorf("%v does not hold %v", Span{b, i}, t))
			}
		}
	}
	if f := l.saltField(); f != nil && l.derivable(f) {
		got, _ := v.fields[l.salt].Uint()
		want := l.derived.Salt(v.fields[l.columns[f.column].bare].Raw())
		if got != uint64(want) {
			return v.contradiction(l.salt, fmt.Errorf("found %d, but the column gives %d", got, want))
		}
	}
	return nil
}

// contradiction reports field i, and takes it and all after it out of v.
func (v *Values) contradiction(i int, cause error) error {
	offset := 0
	for _, e := range v.fields[:i] {
		offset += len(e.Raw())
	}
	v.fields = v.fields[:i]
	return &FitError{Offset: offset, Field: v.layout.fields[i].name, Cause: cause}
}

// instant returns the time that the key gives for a time column: the column
// itself if it is in the key, else the latest start of its buckets, which is
// the one instant that is sure to lie in all of them.
func (v *Values) instant(c *column) (t time.Time, ok bool) {
	if c.bare >= 0 && c.bare < len(v.fields) {
		t, err := elementTime(v.fields[c.bare])
		return t, err == nil
	}
	for _, at := range c.buckets {
		if at >= len(v.fields) {
			break
		}
		if span, err := elementSpan(v.layout.fields[at].Bucket, v.fields[at]); err == nil && (!ok || span.Start().After(t)) {
			t, ok = span.Start(), true
		}
	}
	return t, ok
}

// Value returns a column by name. A time of which the key has only buckets is
// the start of the bucket, and Exact is false for it. Under the name of a
// bucket or a salt, such as hour(ts) or salt(16), it returns the bucket's start
// or the salt as an int. It reports false for what the key does not say.
func (v Values) Value(name string) (any, bool) {
	if v.layout == nil {
		return nil, false
	}
	if i := v.layout.columnIndex(name); i >= 0 {
		c := &v.layout.columns[i]
		if c.typ == TypeTime {
			return boxed(v.instant(c))
		}
		if c.bare < 0 || c.bare >= len(v.fields) {
			return nil, false
		}
		return typedValue(c.typ, v.fields[c.bare]), true
	}
	i := v.layout.fieldIndex(name)
	if i < 0 || i >= len(v.fields) {
		return nil, false
	}
	if b := v.layout.fields[i].Bucket; b != 0 {
		span, err := elementSpan(b, v.fields[i])
		return span.Start(), err == nil
	}
	salt, ok := v.fields[i].Int()
	return int(salt), ok
}

// boxed returns t as a column's value, and nil if there is none.
func boxed(t time.Time, ok bool) (any, bool) {
	if !ok {
		return nil, false
	}
	return t, true
}

// Exact reports whether the key holds the column itself, rather than only a
// bucket or a salt that was computed from it.
func (v Values) Exact(column string) bool {
	if v.layout == nil {
		return false
	}
	i := v.layout.columnIndex(column)
	return i >= 0 && v.layout.columns[i].bare >= 0 && v.layout.columns[i].bare < len(v.fields)
}

// Element returns the encoded i-th field, and the zero Element past the last
// one that was decoded. It allocates nothing, where Value does.
func (v Values) Element(i int) Element {
	if i < 0 || i >= len(v.fields) {
		return Element{}
	}
	return v.fields[i]
}

// Map returns all the columns that the key holds, in full or by bucket.
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
