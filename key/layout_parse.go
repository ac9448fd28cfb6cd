package key

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseLayout reads a layout in the grammar at [Layout]. The error is one
// [*LayoutError], or several joined if the text is well formed but names
// columns in ways that contradict each other.
func ParseLayout(s string) (*Layout, error) {
	p := layoutParser{src: s}
	if err := p.layout(); err != nil {
		return nil, err
	}
	return p.resolve()
}

// layoutParser is a recursive descent over src; each method consumes one rule
// of the grammar.
type layoutParser struct {
	src       string
	off       int
	fields    []Field
	at        []int // where each field starts in src
	partition int   // fields before the first bar, 0 while none was met
}

func (p *layoutParser) layout() error {
	for {
		if err := p.section(); err != nil {
			return err
		}
		if p.partition == 0 {
			p.partition = len(p.fields)
		}
		if p.peek() == 0 && p.off == len(p.src) {
			return nil
		}
		if !p.accept('|') {
			return p.expected(`"|" or the end`)
		}
	}
}

func (p *layoutParser) section() error {
	if !p.accept('(') {
		return p.list()
	}
	if err := p.list(); err != nil {
		return err
	}
	return p.expect(')', `"," or ")"`)
}

func (p *layoutParser) list() error {
	for {
		p.peek()
		if len(p.fields) == MaxFields {
			return p.fail(p.off, "more than %d fields", MaxFields)
		}
		p.at = append(p.at, p.off)
		f, err := p.field()
		if err != nil {
			return err
		}
		p.fields = append(p.fields, f)
		if !p.accept(',') {
			return nil
		}
	}
}

func (p *layoutParser) field() (Field, error) {
	start := p.off
	name := p.word()
	if name == "" || isDigit(name[0]) {
		p.off = start
		return Field{}, p.expected("a column name, a time bucket or a salt")
	}
	if p.accept('(') {
		return p.function(name, start)
	}
	f := Field{Column: name}
	if p.accept(':') {
		typ, err := p.typ()
		if err != nil {
			return Field{}, err
		}
		f.Type = typ
	}
	return f, nil
}

func (p *layoutParser) typ() (Type, error) {
	p.peek()
	start := p.off
	word := p.word()
	for i, name := range typeNames {
		if Type(i) != TypeAny && name == word {
			return Type(i), nil
		}
	}
	p.off = start
	return 0, p.expected("a type (" + strings.Join(typeNames[1:], ", ") + ")")
}

// function reads the arguments of the function name, whose opening parenthesis
// has been consumed.
func (p *layoutParser) function(name string, start int) (f Field, err error) {
	switch name {
	case "hour", "day", "month":
		f.Bucket, err = ParseBucket(name)
	case "every":
		if f.Bucket, err = p.width(); err == nil {
			err = p.expect(',', `","`)
		}
	case "salt":
		return p.salt()
	default:
		return Field{}, p.fail(start, "unknown function %q; want hour, day, month, every or salt", name)
	}
	if err != nil {
		return Field{}, err
	}
	if f.Column, err = p.column(); err != nil {
		return Field{}, err
	}
	f.Type = TypeTime
	return f, p.expect(')', `")"`)
}

func (p *layoutParser) salt() (f Field, err error) {
	p.peek()
	start := p.off
	digits := p.word()
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		p.off = start
		return Field{}, p.expected("a number of salts")
	}
	f.Salts, err = strconv.Atoi(digits)
	if err != nil || checkSalts(f.Salts) != nil {
		return Field{}, p.fail(start, "%s salts; want 1 to %d", digits, MaxSalts)
	}
	if p.accept(',') {
		if f.Column, err = p.column(); err != nil {
			return Field{}, err
		}
		return f, p.expect(')', `")"`)
	}
	return f, p.expect(')', `"," or ")"`)
}

func (p *layoutParser) width() (Bucket, error) {
	p.peek()
	start := p.off
	d, err := ParseBucket(p.word())
	if err != nil {
		return 0, p.fail(start, "%s", detail(err))
	}
	return d, nil
}

func (p *layoutParser) column() (string, error) {
	p.peek()
	start := p.off
	name := p.word()
	if name == "" || isDigit(name[0]) {
		p.off = start
		return "", p.expected("a column name")
	}
	return name, nil
}

// word consumes a run of letters, digits and underscores.
func (p *layoutParser) word() string {
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

func (p *layoutParser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.off++
	return true
}

func (p *layoutParser) expect(c byte, what string) error {
	if !p.accept(c) {
		return p.expected(what)
	}
	return nil
}

// expected reports that something else stands at the next token.
func (p *layoutParser) expected(what string) error {
	p.peek()
	start := p.off
	found := "the end"
	if word := p.word(); word != "" {
		found = strconv.Quote(word)
	} else if r, ok := firstRune(p.src[start:]); ok {
		found = strconv.Quote(r)
	}
	return p.fail(start, "expected %s, found %s", what, found)
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

func (p *layoutParser) fail(at int, format string, args ...any) error {
	return &LayoutError{Layout: p.src, Offset: at, Problem: fmt.Sprintf(format, args...)}
}
