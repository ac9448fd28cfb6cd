package key

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseLayout reads a layout in the grammar at [Layout]. The error is one
// [*LayoutError], or several joined if the text is well formed but names
// columns in ways that contradict each other.
func ParseLayout(s string) (*Layout, error) {
	p := layoutParser{src: s}
	if err := p.parseLayout(); err != nil {
		return nil, err
	}
	return p.buildLayout()
}

// layoutParser is a recursive descent over src; each method consumes one rule
// of the grammar.
type layoutParser struct {
	src          string
	off          int
	fields       []Field
	fieldOffsets []int // where each field starts in src
	partition    int   // fields before the first bar, 0 while none was met
}

func (p *layoutParser) parseLayout() error {
	for {
		if err := p.parseSection(); err != nil {
			return err
		}
		if p.partition == 0 {
			p.partition = len(p.fields)
		}
		if p.peek() == 0 && p.off == len(p.src) {
			return nil
		}
		if !p.acceptByte('|') {
			return p.newExpectedError(`"|" or the end`)
		}
	}
}

func (p *layoutParser) parseSection() error {
	if !p.acceptByte('(') {
		return p.parseFieldList()
	}
	if err := p.parseFieldList(); err != nil {
		return err
	}
	return p.expectByte(')', `"," or ")"`)
}

func (p *layoutParser) parseFieldList() error {
	for {
		p.peek()
		if len(p.fields) == MaxFields {
			return p.errorAt(p.off, "more than %d fields", MaxFields)
		}
		p.fieldOffsets = append(p.fieldOffsets, p.off)
		f, err := p.parseField()
		if err != nil {
			return err
		}
		p.fields = append(p.fields, f)
		if !p.acceptByte(',') {
			return nil
		}
	}
}

func (p *layoutParser) parseField() (Field, error) {
	start := p.off
	name := p.scanWord()
	if name == "" || isDigit(name[0]) {
		p.off = start
		return Field{}, p.newExpectedError("a column name, a time bucket, a salt or a hash")
	}
	if p.acceptByte('(') {
		return p.parseFunction(name, start)
	}
	f := Field{Column: name}
	if p.acceptByte(':') {
		typ, err := p.parseType()
		if err != nil {
			return Field{}, err
		}
		f.Type = typ
	}
	return f, nil
}

func (p *layoutParser) parseType() (Type, error) {
	p.peek()
	start := p.off
	word := p.scanWord()
	for i, name := range typeNames {
		if Type(i) != TypeAny && name == word {
			return Type(i), nil
		}
	}
	p.off = start
	return 0, p.newExpectedError("a type (" + strings.Join(typeNames[1:], ", ") + ")")
}

// parseFunction reads the arguments of the function name, whose opening parenthesis
// has been consumed.
func (p *layoutParser) parseFunction(name string, start int) (f Field, err error) {
	switch name {
	case "minute", "hour", "day", "month":
		f.Bucket, err = ParseBucket(name)
	case "every":
		if f.Bucket, err = p.parseWidth(); err == nil {
			err = p.expectByte(',', `","`)
		}
	case "salt":
		return p.parseSalt()
	case "hash":
		f.Hash = true
	default:
		return Field{}, p.errorAt(start, "unknown function %q; want minute, hour, day, month, every, salt or hash", name)
	}
	if err != nil {
		return Field{}, err
	}
	if f.Column, err = p.parseColumnName(); err != nil {
		return Field{}, err
	}
	return f, p.expectByte(')', `")"`)
}

func (p *layoutParser) parseSalt() (f Field, err error) {
	p.peek()
	start := p.off
	digits := p.scanWord()
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		p.off = start
		return Field{}, p.newExpectedError("a number of salts")
	}
	f.Salts, err = strconv.Atoi(digits)
	if err != nil || checkSalts(f.Salts) != nil {
		return Field{}, p.errorAt(start, "%s salts; want 1 to %d", digits, MaxSalts)
	}
	if p.acceptByte(',') {
		if f.Column, err = p.parseColumnName(); err != nil {
			return Field{}, err
		}
		return f, p.expectByte(')', `")"`)
	}
	return f, p.expectByte(')', `"," or ")"`)
}

func (p *layoutParser) parseWidth() (Bucket, error) {
	p.peek()
	start := p.off
	d, err := ParseBucket(p.scanWord())
	if err != nil {
		return 0, p.errorAt(start, "%s", trimPackageName(err))
	}
	return d, nil
}

func (p *layoutParser) parseColumnName() (string, error) {
	p.peek()
	start := p.off
	name := p.scanWord()
	if name == "" || isDigit(name[0]) {
		p.off = start
		return "", p.newExpectedError("a column name")
	}
	return name, nil
}

// scanWord consumes a run of letters, digits and underscores.
func (p *layoutParser) scanWord() string {
	start := p.off
	for p.off < len(p.src) && isWord(p.src[p.off]) {
		p.off++
	}
	return p.src[start:p.off]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// peek skips blanks and returns the next byte, 0 at the end.
func (p *layoutParser) peek() byte {
	for p.off < len(p.src) && strings.IndexByte(" \t\r\n", p.src[p.off]) >= 0 {
		p.off++
	}
	if p.off == len(p.src) {
		return 0
	}
	return p.src[p.off]
}

func (p *layoutParser) acceptByte(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.off++
	return true
}

func (p *layoutParser) expectByte(c byte, what string) error {
	if !p.acceptByte(c) {
		return p.newExpectedError(what)
	}
	return nil
}

// newExpectedError reports that something else stands at the next token.
func (p *layoutParser) newExpectedError(what string) error {
	p.peek()
	start := p.off
	found := "the end"
	if word := p.scanWord(); word != "" {
		found = strconv.Quote(word)
	} else if r, ok := firstRune(p.src[start:]); ok {
		found = strconv.Quote(r)
	}
	return p.errorAt(start, "expected %s, found %s", what, found)
}

// firstRune returns the first character of s, whole if it is valid UTF-8.
func firstRune(s string) (string, bool) {
	for i := range s {
		if i > 0 {
			return s[:i], true
		}
	}
	return s, s != ""
}

func (p *layoutParser) errorAt(at int, format string, args ...any) error {
	return &LayoutError{Layout: p.src, Offset: at, Problem: fmt.Sprintf(format, args...)}
}

// buildLayout gives every field its column and checks what the grammar cannot.
func (p *layoutParser) buildLayout() (*Layout, error) {
	l := &Layout{fields: p.fields, partition: p.partition, salt: -1}
	var errs []error
	report := func(i int, format string, args ...any) {
		errs = append(errs, p.errorAt(p.fieldOffsets[i], format, args...))
	}
	seen := make(map[string]bool, len(l.fields))
	for i := range l.fields {
		f := &l.fields[i]
		f.name, f.Partition = fieldName(f), i < l.partition
		f.column = l.addToColumn(f, i)
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
		if f.Hash {
			switch {
			case c.field < 0:
				report(i, "%s alone: values of %[2]s may share a hash; put %[2]s behind it", f.name, f.Column)
			case c.field < i:
				report(i, "%s behind %s spreads nothing; put it in front", f.name, f.Column)
			case !f.Partition:
				report(i, "a hash after the bar spreads nothing; put it in the partition")
			}
		}
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

// addToColumn notes field i at its column and returns the column's index.
func (l *Layout) addToColumn(f *Field, i int) int {
	if f.Column == "" {
		return -1
	}
	at := l.columnIndex(f.Column)
	if at < 0 {
		at = len(l.columns)
		l.columns = append(l.columns, column{name: f.Column, field: -1})
	}
	c := &l.columns[at]
	switch {
	case f.Bucket != 0:
		c.buckets = append(c.buckets, i)
		if c.typ == TypeAny {
			c.typ = TypeTime
		}
	case f.IsColumn() && c.field < 0:
		c.field = i
		if f.Type != TypeAny {
			c.typ = f.Type
		}
	}
	return at
}
