package jsonlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/cleavekv/cleave/advisor"
)

// maxDepth is how deep objects may nest: deeper ones are no records of a table.
const maxDepth = 16

// parser reads one object. It hands out views of the text, and copies only what has escapes.
type parser struct {
	text []byte
	pos  int
}

func (p *parser) reset(text []byte) { p.text, p.pos = text, 0 }

// peek returns the next byte that is no blank, 0 at the end.
func (p *parser) peek() byte {
	for ; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// expect consumes the next byte if it is the one wanted.
func (p *parser) expect(c byte) error {
	if p.peek() != c {
		return fmt.Errorf("want %q", c)
	}
	p.pos++
	return nil
}

// parseObject hands each member to add, those of inner objects too.
func (p *parser) parseObject(prefix string, depth int, add func(name []byte, v value) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	if depth == maxDepth {
		return fmt.Errorf("objects nest more than %d deep", maxDepth)
	}
	if p.peek() == '}' {
		p.pos++
		return nil
	}
	for {
		p.peek()
		name, err := p.parseString()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		if prefix != "" {
			name = append(append(append(make([]byte, 0, len(prefix)+1+len(name)), prefix...), '.'), name...)
		}
		if p.peek() == '{' {
			err = p.parseObject(string(name), depth+1, add)
		} else {
			var v value
			if v, err = p.parseValue(); err == nil {
				err = add(name, v)
			}
		}
		if err != nil {
			return err
		}
		if p.peek() == ',' {
			p.pos++
			continue
		}
		return p.expect('}')
	}
}

// parseValue reads anything but an object.
func (p *parser) parseValue() (value, error) {
	switch c := p.peek(); {
	case c == '"':
		text, err := p.parseString()
		return value{advisor.String, text}, err
	case c == '[':
		return p.parseArray()
	case c == '-' || c-'0' <= 9:
		return p.parseNumber()
	}
	for _, word := range [...]struct {
		text string
		kind advisor.ValueKind
	}{{"null", advisor.Null}, {"true", advisor.Bool}, {"false", advisor.Bool}} {
		if bytes.HasPrefix(p.text[p.pos:], []byte(word.text)) {
			text := p.text[p.pos : p.pos+len(word.text)]
			p.pos += len(word.text)
			return value{word.kind, text}, nil
		}
	}
	return value{}, errors.New("want a value")
}

// parseString reads a string and returns its text.
func (p *parser) parseString() ([]byte, error) {
	if p.pos == len(p.text) || p.text[p.pos] != '"' {
		return nil, errors.New("want a string")
	}
	start := p.pos + 1
	escaped, ascii := false, true
	for i := start; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			raw := p.text[start:i]
			if !ascii && !utf8.Valid(raw) {
				return nil, errors.New("bytes that are not text in UTF-8")
			}
			p.pos = i + 1
			if escaped {
				return unescape(p.text[start-1 : i+1])
			}
			return raw, nil
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			p.pos = i
			return nil, errors.New("a control character in a string")
		case c >= 0x80:
			ascii = false
		}
	}
	return nil, errors.New("a string that does not end")
}

// parseNumber reads a number as it is written.
func (p *parser) parseNumber() (value, error) {
	start := p.pos
	simple := true
	for ; p.pos < len(p.text); p.pos++ {
		c := p.text[p.pos]
		if c-'0' <= 9 {
			continue
		}
		if c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		simple = false
	}
	text := p.text[start:p.pos]
	if !(simple && (text[0] != '0' || len(text) == 1)) && !json.Valid(text) {
		return value{}, errors.New("not a number")
	}
	return value{advisor.Number, text}, nil
}

// parseArray takes an array as one text.
func (p *parser) parseArray() (value, error) {
	d := json.NewDecoder(bytes.NewReader(p.text[p.pos:]))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return value{}, errors.New("not an array")
	}
	if !utf8.Valid(raw) {
		return value{}, errors.New("bytes that are not text in UTF-8")
	}
	p.pos += int(d.InputOffset())
	return value{advisor.String, raw}, nil
}
