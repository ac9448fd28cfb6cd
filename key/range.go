package key

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Range is the keys from Begin, included, to End, excluded. An empty End means
// that there is no upper bound, so the zero Range is every key.
type Range struct {
	Begin, End []byte
}

// Contains reports whether key lies in r.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(key, r.Begin) >= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0)
}

// Empty reports whether no key can lie in r.
func (r Range) Empty() bool {
	return len(r.End) > 0 && bytes.Compare(r.Begin, r.End) >= 0
}

// String returns the bounds in quotes, half open: ["a", "b").
func (r Range) String() string {
	if len(r.End) == 0 {
		return fmt.Sprintf("[%q, ∞)", r.Begin)
	}
	return fmt.Sprintf("[%q, %q)", r.Begin, r.End)
}

// PrefixRange returns the range of the keys whose bytes start with prefix. It
// knows nothing of tuples: for those that start with given elements use
// [TupleRange], since a string's bytes can start with another string's.
func PrefixRange(prefix []byte) Range {
	return Range{Begin: bytes.Clone(prefix), End: prefixEnd(prefix)}
}

// prefixEnd returns the first key after all those that start with prefix, or
// nil if there is none because prefix has no byte below 0xff.
func prefixEnd(prefix []byte) []byte {
	end := bytes.TrimRight(prefix, "\xff")
	if len(end) == 0 {
		return nil
	}
	end = bytes.Clone(end)
	end[len(end)-1]++
	return end
}

// TupleRange returns the range of the tuples that start with the elements of
// t and have more of them: t itself is not in it. This is the range of
// FoundationDB's tuple layer. It fails as [Encode] does.
func TupleRange(t Tuple) (Range, error) {
	prefix, err := Encode(t)
	if err != nil {
		return Range{}, err
	}
	// An element starts with a type code, and those lie below 0xff.
	end := append(bytes.Clone(prefix), escape)
	return Range{Begin: append(prefix, codeNil), End: end}, nil
}

// Prefix returns the range of the keys whose leading fields are those given,
// for a scan. A bucket is given by a time that lies in it, under the name of
// the column or, if the column itself follows in the layout and shall stay
// open, under that of the field, such as hour(ts). So {ts: t} is one instant of
// hour(ts) | ts, and a whole hour of hour(ts) | id. A hash and a derived salt
// follow from their column, other salts are given as salt(16).
//
// It fails with [ErrColumn] if a value is given that the layout does not name
// or that comes after one not given: the scan would not be limited by it. It
// fails with [ErrSalt] if the salt is open, for then there is one range for
// each: see [Layout.FanOut].
func (l *Layout) Prefix(leading Columns) (Range, error) {
	ranges, err := l.FanOut(leading)
	if err != nil {
		return Range{}, err
	}
	if len(ranges) > 1 {
		return Range{}, fmt.Errorf("%w: %s is open, so there are %d ranges; use FanOut", ErrSalt, l.saltField().name, len(ranges))
	}
	return ranges[0], nil
}

// FanOut is [Layout.Prefix] for reads that may not know the salt: it returns
// one range for each salt, in the salts' order. It is one range if the salt is
// given, if there is none, or if the fields before it are not all given. To
// read the ranges as one in order, merge them with [NewMerger] by [Layout.CompareUnsalted].
func (l *Layout) FanOut(leading Columns) ([]Range, error) {
	p, err := l.encodeLeading(leading)
	if err != nil {
		return nil, err
	}
	return p.scanRanges(nil, endOfElements), nil
}

// Between is [Layout.FanOut] for the part of it in which the first field that
// is not given lies from one value, included, to another, excluded; nil means
// no bound. It is how the last hour of a salted log is read.
//
// A bucket takes times, and the ranges hold the whole of each bucket that has
// a part of the time between them. A hash takes no bounds: its keys are in no
// order of the column. Bounds that nothing can lie between are an error,
// [ErrColumn].
func (l *Layout) Between(leading Columns, from, to any) ([]Range, error) {
	p, err := l.encodeLeading(leading)
	if err != nil {
		return nil, err
	}
	if p.next == nil {
		return nil, fmt.Errorf("%w: every field of %v is given, none is left to lie between", ErrColumn, l)
	}
	if p.next.Hash && (from != nil || to != nil) {
		return nil, fmt.Errorf("%w: %s is open, so keys are in no order of %s; give it", ErrColumn, p.next.name, p.next.Column)
	}
	lower, upper := []byte(nil), endOfElements
	var errFrom, errTo error
	if from != nil {
		lower, errFrom = p.next.appendValue(nil, from)
	}
	if to != nil {
		upper, errTo = p.next.appendUpper(nil, to)
	}
	if err := errors.Join(errFrom, errTo); err != nil {
		return nil, err
	}
	if bytes.Compare(lower, upper) >= 0 || notBefore(from, to) {
		return nil, fmt.Errorf("%w: %s: nothing lies from %v to before %v", ErrColumn, p.next.name, from, to)
	}
	return p.scanRanges(lower, upper), nil
}

// notBefore reports whether both are times and from is not before to, which
// their buckets need not show.
func notBefore(from, to any) bool {
	f, okFrom := from.(time.Time)
	t, okTo := to.(time.Time)
	return okFrom && okTo && !f.Before(t)
}

// appendUpper appends the first value of the field after all those that a time
// before to can have.
func (f *Field) appendUpper(dst []byte, to any) ([]byte, error) {
	t, ok := to.(time.Time)
	if f.Bucket == 0 || !ok {
		return f.appendValue(dst, to)
	}
	last, err := spanOf(f.Bucket, t.Add(-1))
	if err != nil {
		return nil, f.newMisfitError(err)
	}
	return AppendInt(dst, last.Index()+1), nil
}

// CompareUnsalted compares two keys of the layout by all their fields but the
// salt. A key that ends before its salt is compared as it is.
func (l *Layout) CompareUnsalted(a, b []byte) int {
	if l.saltField() == nil {
		return bytes.Compare(a, b)
	}
	aBefore, aAfter := l.cutSalt(a)
	bBefore, bAfter := l.cutSalt(b)
	return cmp.Or(bytes.Compare(aBefore, bBefore), bytes.Compare(aAfter, bAfter))
}

// cutSalt returns what is before and after the salt in key.
func (l *Layout) cutSalt(key []byte) (before, after []byte) {
	r := NewReader(key)
	for range l.salt {
		if !r.Next() {
			return key, nil
		}
	}
	at := r.Offset()
	if !r.Next() {
		return key, nil
	}
	return key[:at], key[r.Offset():]
}

// leadingFields collects the leading fields that are given.
type leadingFields struct {
	layout        *Layout
	given         Columns
	used          map[string]bool
	open          bool   // the salt is passed and not given
	before, after []byte // the fields around an open salt
	next          *Field // the first that is not given, nil if all are
}

// encodeLeading encodes the leading fields, and refuses values that are not leading.
func (l *Layout) encodeLeading(leading Columns) (*leadingFields, error) {
	if l == nil {
		return nil, errNilLayout
	}
	p := &leadingFields{layout: l, given: leading, used: make(map[string]bool, len(leading))}
	var errs []error
	for i := range l.fields {
		f := &l.fields[i]
		v, salt, ok := p.lookupField(f)
		if !ok && f.Salts > 0 {
			p.open = true
			continue
		}
		if !ok {
			p.next = f
			break
		}
		if err := p.addField(f, v, salt); err != nil {
			errs = append(errs, err)
		}
	}
	return p, errors.Join(append(errs, p.unusedErrors()...)...)
}

// addField encodes the value or the salt that is given for f.
func (p *leadingFields) addField(f *Field, v, salt any) (err error) {
	dst := &p.before
	if p.open {
		dst = &p.after
	}
	var out []byte
	if f.Salts > 0 {
		out, err = p.layout.appendSalt(*dst, f, v, salt)
	} else {
		out, err = f.appendValue(*dst, v)
	}
	if err == nil {
		*dst = out
	}
	return err
}

// endOfElements sorts after every element. What follows a prefix of a tuple is
// below it, and no more than that: the bytes of a string also go on, with the
// escape, in the strings that it is a prefix of.
var endOfElements = []byte{escape}

// scanRanges returns, for each salt if it is open, what lies below the prefix from
// lower to upper.
func (p *leadingFields) scanRanges(lower, upper []byte) []Range {
	if !p.open {
		return []Range{{slices.Concat(p.before, lower), slices.Concat(p.before, upper)}}
	}
	salts := p.layout.Salts()
	ranges := make([]Range, salts)
	var scratch [9]byte
	for i := range ranges {
		salt := AppendInt(scratch[:0], int64(i))
		ranges[i] = Range{
			Begin: slices.Concat(p.before, salt, p.after, lower),
			End:   slices.Concat(p.before, salt, p.after, upper),
		}
	}
	return ranges
}

// lookupField finds the value given for f: that of its column, or the one under
// the field's own name, which for a salt is the salt itself. A hash has none:
// keys that share no more than a hash have nothing in common.
func (p *leadingFields) lookupField(f *Field) (v, salt any, ok bool) {
	if v, ok = p.given[f.Column]; ok && f.Column != "" {
		p.used[f.Column] = true
		return v, absentValue{}, true
	}
	if v, ok = p.given[f.name]; !ok || f.Hash {
		return nil, nil, false
	}
	p.used[f.name] = true
	if f.Salts > 0 {
		return absentValue{}, v, true
	}
	return v, absentValue{}, true
}

// unusedErrors reports the values that limit nothing, in a stable order.
func (p *leadingFields) unusedErrors() []error {
	var names []string
	for name := range p.given {
		if !p.used[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	errs := make([]error, len(names))
	for i, name := range names {
		at := p.layout.fieldIndex(name)
		switch {
		case at >= 0 && p.layout.fields[at].Hash:
			errs[i] = fmt.Errorf("%w: %s follows from %s; give that", ErrColumn, name, p.layout.fields[at].Column)
		case at >= 0 && p.used[p.layout.fields[at].Column]:
			errs[i] = fmt.Errorf("%w: %s follows from %s; give one of them", ErrColumn, name, p.layout.fields[at].Column)
		case at >= 0 || p.layout.columnIndex(name) >= 0:
			errs[i] = fmt.Errorf("%w: %s is given, but not all before it in %v", ErrColumn, name, p.layout)
		default:
			errs[i] = fmt.Errorf("%w: %q is not in %v", ErrColumn, name, p.layout)
		}
	}
	return errs
}
