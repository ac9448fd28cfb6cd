package resp

import "bytes"

// line reads a request that is a line of words, as a person types it.
func (p *Parser) line(buf []byte, l Limits) (args [][]byte, n int, err error) {
	end := bytes.IndexByte(buf[p.pos:], '\n')
	if end < 0 {
		if len(buf) > inlineMax {
			return nil, 0, protocolError("too big inline request")
		}
		p.pos = len(buf) // looked at, and it has no end
		return nil, 0, nil
	}
	end += p.pos
	if end > inlineMax {
		return nil, 0, protocolError("too big inline request")
	}
	p.pos = end + 1
	text := bytes.TrimSuffix(buf[:end], []byte("\r"))
	// The words of the last line may still be in use.
	p.args, p.inline = p.args[:0], nil
	for {
		text = bytes.TrimLeft(text, blanks)
		if len(text) == 0 {
			break
		}
		word, rest, ok := p.word(text)
		if !ok {
			return nil, 0, protocolError("unbalanced quotes in request")
		}
		if len(p.args) == l.Args {
			return nil, 0, protocolError("too many arguments in a line: at most %d", l.Args)
		}
		if len(word) > l.Bulk {
			return nil, 0, protocolError("too big argument in a line: at most %d bytes", l.Bulk)
		}
		p.args, text = append(p.args, word), rest
	}
	args = p.args
	return args, p.end(), nil
}

const blanks = " \t\n\v\f\r\x00"

// word takes the first word of a line that begins with one. Quotes hold words
// together; in double ones a backslash gives characters another meaning.
func (p *Parser) word(text []byte) (word, rest []byte, ok bool) {
	start := len(p.inline)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case bytes.IndexByte([]byte(blanks), c) >= 0:
			return p.took(start), text[i:], true
		case c == '"' || c == '\'':
			n, ok := p.quoted(text[i+1:], c)
			if !ok {
				return nil, nil, false
			}
			i += 1 + n
			// A closing quote ends the word: what follows it must be a blank.
			if i < len(text) && bytes.IndexByte([]byte(blanks), text[i]) < 0 {
				return nil, nil, false
			}
		default:
			p.inline = append(p.inline, c)
			i++
		}
	}
	return p.took(start), nil, true
}

func (p *Parser) took(start int) []byte { return p.inline[start:len(p.inline):len(p.inline)] }

// quoted takes what is inside of quotes and returns how long it was, the closing
// quote included.
func (p *Parser) quoted(text []byte, quote byte) (n int, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return i + 1, true
		case c != '\\':
			p.inline = append(p.inline, c)
		case quote == '\'':
			if i+1 < len(text) && text[i+1] == '\'' {
				i++
			}
			p.inline = append(p.inline, text[i])
		case i+3 < len(text) && text[i+1] == 'x' && isHex(text[i+2]) && isHex(text[i+3]):
			p.inline = append(p.inline, hex(text[i+2])<<4|hex(text[i+3]))
			i += 3
		case i+1 < len(text):
			i++
			p.inline = append(p.inline, unescape(text[i]))
		}
	}
	return 0, false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}
