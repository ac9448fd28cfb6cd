package key

import (
	"errors"
	"fmt"
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
		if err := f.check(r.Element()); err != nil {
			return dst, &FitError{Offset: start, Field: f.name, Cause: err}
		}
		dst = append(dst, r.Element())
	}
	if rest := r.Offset(); rest < len(key) {
		return dst, &FitError{Offset: rest, Cause: errors.New("more after the last column")}
	}
	if i, err := l.contradiction(dst); err != nil {
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

// contradiction finds a field that contradicts the column it comes from, and
// says why.
func (l *Layout) contradiction(fields []Element) (int, error) {
	for i := range l.columns {
		c := &l.columns[i]
		if len(c.buckets) == 0 || c.bare < 0 && len(c.buckets) == 1 {
			continue // nothing to contradict
		}
		t, _ := l.instant(fields, c)
		for _, at := range c.buckets {
			b := l.fields[at].Bucket
			if i, _ := fields[at].Int(); i != b.index(t) {
				return at, fmt.Errorf("%v does not hold %v", Span{b, i}, t)
			}
		}
	}
	if f := l.saltField(); f != nil && l.derivable(f) {
		got, _ := fields[l.salt].Uint()
		want := l.derived.Salt(fields[l.columns[f.column].bare].Raw())
		if got != uint64(want) {
			return l.salt, fmt.Errorf("found %d, but the column gives %d", got, want)
		}
	}
	return 0, nil
}

// instant returns the time that a key's fields give for a time column: the
// column itself if it is there, else the latest start of its buckets, which is
// the one instant that is sure to lie in all of them.
func (l *Layout) instant(fields []Element, c *column) (t time.Time, ok bool) {
	if c.bare >= 0 && c.bare < len(fields) {
		t, err := elementTime(fields[c.bare])
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
