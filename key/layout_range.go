package key

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Prefix returns the range of the keys whose leading fields are those given,
// for a scan. A bucket is given by a time that lies in it, under the name of
// the column or, if the column itself follows in the layout and shall stay
// open, under that of the field, such as hour(ts). A derived salt follows from
// its column, other salts are given as salt(16).
//
// It fails with [ErrColumn] if a value is given that the layout does not name
// or that comes after one not given: the scan would not be limited by it. It
// fails with [ErrSalt] if the salt is open, for then there is one range for
// each: see [Layout.Fanout].
func (l *Layout) Prefix(leading Columns) (Range, error) {
	ranges, err := l.Fanout(leading)
	if err != nil {
		return Range{}, err
	}
	if len(ranges) > 1 {
		return Range{}, fmt.Errorf("%w: %s is open, so there are %d ranges; use Fanout", ErrSalt, l.saltField().name, len(ranges))
	}
	return ranges[0], nil
}

// Fanout is [Layout.Prefix] for reads that may not know the salt: it returns
// one range for each salt, in the salts' order. It is one range if the salt is
// given, if there is none, or if the fields before it are not all given. To
// read the ranges as one in order, [Merge] them by [Layout.CompareUnsalted].
func (l *Layout) Fanout(leading Columns) ([]Range, error) {
	p := prefix{layout: l, given: leading, used: make(map[string]bool, len(leading))}
	if err := p.build(); err != nil {
		return nil, err
	}
	if !p.open {
		return []Range{below(p.before, nil, nil)}, nil
	}
	ranges := make([]Range, l.Salts())
	var salt [9]byte
	for i := range ranges {
		ranges[i] = below(p.before, AppendInt(salt[:0], int64(i)), p.after)
	}
	return ranges, nil
}

// below returns the range of the tuples that start with the given elements,
// the one that has no more than those included.
func below(parts ...[]byte) Range {
	begin := slices.Concat(parts...)
	// Not PrefixRange: a string's bytes go on past its end with the escape in
	// the strings that it is a prefix of, and no element starts with it.
	return Range{Begin: begin, End: append(slices.Clip(begin), escape)}
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

// prefix collects the leading fields that are given.
type prefix struct {
	layout        *Layout
	given         Columns
	used          map[string]bool
	open          bool   // the salt is passed and not given
	before, after []byte // the fields around an open salt
}

func (p *prefix) build() error {
	var errs []error
	for i := range p.layout.fields {
		f := &p.layout.fields[i]
		dst := &p.before
		if p.open {
			dst = &p.after
		}
		v, given, ok := p.lookup(f)
		if !ok && f.Salts > 0 {
			p.open = true
			continue
		}
		if !ok {
			break
		}
		var next []byte
		var err error
		if f.Salts > 0 {
			next, err = p.layout.appendSalt(*dst, f, v, given)
		} else {
			next, err = f.append(*dst, v)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*dst = next
	}
	return errors.Join(append(errs, p.unused()...)...)
}

// lookup finds the value given for f: that of its column, or the one under
// the field's own name, which for a salt is the salt itself.
func (p *prefix) lookup(f *Field) (v, salt any, ok bool) {
	if v, ok = p.given[f.Column]; ok && f.Column != "" {
		p.used[f.Column] = true
		return v, absent{}, true
	}
	if v, ok = p.given[f.name]; !ok {
		return nil, nil, false
	}
	p.used[f.name] = true
	if f.Salts > 0 {
		return absent{}, v, true
	}
	return v, absent{}, true
}

// unused reports the values that limit nothing, in a stable order.
func (p *prefix) unused() []error {
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
