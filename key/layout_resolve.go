package key

import (
	"errors"
	"slices"
)

// resolve gives every field its column and checks what the grammar cannot.
func (p *layoutParser) resolve() (*Layout, error) {
	l := &Layout{fields: p.fields, partition: p.partition, salt: -1}
	var errs []error
	report := func(i int, format string, args ...any) {
		errs = append(errs, p.fail(p.at[i], format, args...))
	}
	seen := make(map[string]bool, len(l.fields))
	for i := range l.fields {
		f := &l.fields[i]
		f.name, f.Partition = fieldName(f), i < l.partition
		f.column = l.enter(f, i)
		if f.Salts > 0 {
			switch {
			case l.salt >= 0:
				report(i, "a second salt; a layout has at most one")
			case !f.Partition:
				report(i, "a salt after the bar spreads nothing; put it in the partition")
			}
			l.salt = i
		} else if seen[f.name] {
			report(i, "%s is there twice", f.name)
		}
		seen[f.name] = true
	}
	for i := range l.fields {
		f := &l.fields[i]
		if f.column < 0 {
			continue
		}
		c := &l.columns[f.column]
		f.implied = len(c.buckets) > 0
		if f.Bucket != 0 && c.typ != TypeTime {
			report(i, "%s of a column that is declared %v; want time", f.name, c.typ)
		}
		f.Type = c.typ
	}
	if !slices.ContainsFunc(l.fields, func(f Field) bool { return f.Salts == 0 }) {
		report(0, "nothing but a salt; add a column")
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var err error
	if f := l.saltField(); f != nil {
		l.derived, err = NewDerivedSalt(f.Salts)
	}
	return l, err
}

// enter notes field i at its column and returns the column's index.
func (l *Layout) enter(f *Field, i int) int {
	if f.Column == "" {
		return -1
	}
	at := l.columnIndex(f.Column)
	if at < 0 {
		at = len(l.columns)
		l.columns = append(l.columns, column{name: f.Column, bare: -1})
	}
	c := &l.columns[at]
	switch {
	case f.Bucket != 0:
		c.buckets = append(c.buckets, i)
		if c.typ == TypeAny {
			c.typ = TypeTime
		}
	case f.Salts == 0 && c.bare < 0:
		c.bare = i
		if f.Type != TypeAny {
			c.typ = f.Type
		}
	}
	return at
}
