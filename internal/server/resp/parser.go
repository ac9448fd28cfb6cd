package resp

import (
	"bytes"
	"fmt"
	"math"
)

// Limits bound a request. What is above them is a [ProtocolError].
type Limits struct {
	// Args is how many arguments a request may have, and Bulk how many bytes each.
	Args, Bulk int
	// Total is how many bytes all arguments of a request may have together.
	Total int
	// Unauthenticated is set for a client that has not authenticated: the error says so.
	Unauthenticated bool
}

// UnauthenticatedLimits are the limits before authentication: enough for AUTH and HELLO.
var UnauthenticatedLimits = Limits{Args: 10, Bulk: 16 << 10, Total: 10 * 16 << 10, Unauthenticated: true}

const (
	// maxInlineBytes is how long a request in one line may be, and a line that holds a
	// number. Both are Redis's.
	maxInlineBytes = 64 << 10
)

// ProtocolError is a malformed request: answer with it, and close the
// connection, since it is unknown where the next request begins.
type ProtocolError struct {
	Reason string
	// TooLarge reports whether it is a request, but larger than [Limits] allow. The reason names the limit.
	TooLarge bool
}

// Error is what Redis says.
func (e *ProtocolError) Error() string { return "Protocol error: " + e.Reason }

// newTooLargeError is the error of a request that is above a limit.
func newTooLargeError(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...), TooLarge: true}
}

func newProtocolError(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// argSpan is a part of the buffer: an argument.
type argSpan struct{ start, end int }

// Parser finds requests at the front of a buffer that grows. The zero value is ready.
// It is not safe for concurrent use.
type Parser struct {
	// pos is how far it has looked. Before it are whole arguments, and the head of
	// the one at hand.
	pos int
	// argsLeft is how many arguments are still to come, and bulk how long the one at hand
	// is. Invariant: bulk >= 0 only if left > 0, and then pos is where it begins.
	argsLeft, argBytes int
	hasStarted         bool // a request has begun
	totalBytes         int
	argSpans           []argSpan
	args               [][]byte
	inlineBuf          []byte // arguments that are not as they were written
}

// Next looks for a request at the front of buf, which is what the last call was given,
// and perhaps more behind it. It returns its arguments and how many bytes it has, or 0
// bytes if it is not whole yet. The list of arguments is good until the next call: keep
// a copy of it. What they point to, buf or memory of their own, is not used again here.
// A request without arguments is to be passed over. After n > 0 the next call begins
// with what is behind n bytes.
func (p *Parser) Next(buf []byte, l Limits) (args [][]byte, n int, err error) {
	if !p.hasStarted {
		if len(buf) == 0 {
			return nil, 0, nil
		}
		if buf[0] != '*' {
			return p.parseInline(buf, l)
		}
		if n := p.parseCommon(buf, l); n > 0 {
			args = p.args
			p.forgetLargeArgs(n)
			return args, n, nil
		}
		if done, err := p.parseArgCount(buf, l); done || err != nil {
			return nil, p.endRequest(), err
		}
	}
	for p.hasStarted && p.argsLeft > 0 {
		whole, err := p.parseArgument(buf, l)
		if err != nil || !whole {
			return nil, 0, err
		}
	}
	if !p.hasStarted {
		return nil, 0, nil
	}
	p.args = p.args[:0]
	for _, s := range p.argSpans {
		p.args = append(p.args, buf[s.start:s.end:s.end])
	}
	args = p.args // before end, which may forget them
	return args, p.endRequest(), nil
}

// HasPartialRequest reports whether a part of a request has been seen: the client owes the rest.
func (p *Parser) HasPartialRequest() bool { return p.hasStarted }

// MissingBytes is how many bytes the argument at hand lacks, given how many are there: a
// hint for how much to read at once. It is bounded by what a Limits allows.
func (p *Parser) MissingBytes(have int) int {
	if !p.hasStarted || p.argBytes < 0 {
		return 0
	}
	return max(0, p.pos+p.argBytes+2-have)
}

// endRequest ends a request and returns how long it was.
func (p *Parser) endRequest() (n int) {
	n = p.pos
	*p = Parser{argSpans: p.argSpans[:0], args: p.args}
	if cap(p.argSpans) > maxRetainedArgs {
		p.argSpans, p.args = nil, nil
	}
	p.forgetLargeArgs(n)
	return n
}

// forgetLargeArgs lets the memory of a large request of n bytes go with its reader: later requests may
// have fewer arguments, or never come.
func (p *Parser) forgetLargeArgs(n int) {
	if n > maxRetainedBytes {
		p.args = nil
	}
}

const (
	// maxRetainedArgs is for how many arguments memory is kept.
	maxRetainedArgs = 1 << 10
	// maxRetainedBytes is how large a request is that the list of arguments may keep alive.
	maxRetainedBytes = 64 << 10
)

// parseArgCount reads how many arguments there are. done means that there are none.
func (p *Parser) parseArgCount(buf []byte, l Limits) (done bool, err error) {
	n, after, err := p.parseNumber(buf, 0, "too big mbulk count string", "invalid multibulk length")
	if err != nil || after == 0 {
		return false, err
	}
	switch {
	case n > math.MaxInt32 && l.Unauthenticated:
		return false, newProtocolError("invalid multibulk length")
	case n > int64(l.Args) && !l.Unauthenticated:
		return false, newTooLargeError("invalid multibulk length: a request of %d arguments, at most %d", n, l.Args)
	case n > int64(l.Args):
		return false, newProtocolError("unauthenticated multibulk length")
	}
	p.pos = after
	if n <= 0 {
		return true, nil
	}
	p.hasStarted, p.argsLeft, p.argBytes, p.totalBytes = true, int(n), -1, 0
	p.argSpans = p.argSpans[:0]
	return false, nil
}

// parseArgument reads the next argument, if all of it is there.
func (p *Parser) parseArgument(buf []byte, l Limits) (whole bool, err error) {
	if p.argBytes < 0 {
		if whole, err := p.parseArgHead(buf, l); err != nil || !whole {
			return false, err
		}
	}
	end := p.pos + p.argBytes
	if len(buf) < end+2 {
		return false, nil
	}
	p.argSpans = append(p.argSpans, argSpan{p.pos, end})
	p.pos, p.argBytes = end+2, -1 // what ends an argument is not looked at, as in Redis
	p.argsLeft--
	return true, nil
}

// parseArgHead reads how long the next argument is.
func (p *Parser) parseArgHead(buf []byte, l Limits) (whole bool, err error) {
	if p.pos >= len(buf) {
		return false, nil
	}
	if c := buf[p.pos]; c != '$' {
		return false, newProtocolError("expected '$', got '%s'", formatByte(c))
	}
	n, after, err := p.parseNumber(buf, p.pos, "too big bulk count string", "invalid bulk length")
	if err != nil || after == 0 {
		return false, err
	}
	switch {
	case n < 0:
		return false, newProtocolError("invalid bulk length")
	case n > int64(l.Bulk) && !l.Unauthenticated:
		return false, newTooLargeError("invalid bulk length: an argument of %d bytes, at most %d", n, l.Bulk)
	case n > int64(l.Bulk):
		return false, newProtocolError("unauthenticated bulk length")
	case p.totalBytes+int(n) > l.Total:
		return false, newTooLargeError("too big request: at most %d bytes", l.Total)
	}
	p.totalBytes += int(n)
	p.pos, p.argBytes = after, int(n)
	return true, nil
}

// formatByte is a byte as it may stand in an error, which is one line of text.
func formatByte(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf(`\x%02x`, c)
	}
	return string(c)
}

// parseNumber reads the decimal number of the line that begins at from, behind its first
// byte, and returns where the next line begins: 0 if the line is not whole.
func (p *Parser) parseNumber(buf []byte, from int, long, bad string) (n int64, after int, err error) {
	line := buf[from+1:]
	// A line that is longer than any number is refused before all of it is there.
	if len(line) > maxInlineBytes {
		line = line[:maxInlineBytes]
	}
	end := bytes.IndexByte(line, '\r')
	if end < 0 {
		if len(line) == maxInlineBytes {
			return 0, 0, newProtocolError("%s", long)
		}
		return 0, 0, nil
	}
	if from+1+end+2 > len(buf) {
		return 0, 0, nil // the second byte of the line's end is not there
	}
	n, ok := parseInt(line[:end])
	if !ok {
		return 0, 0, newProtocolError("%s", bad)
	}
	return n, from + 1 + end + 2, nil
}

// parseInt reads a decimal number as Redis does: no sign but a minus, no zeros in
// front, nothing around it.
func parseInt(b []byte) (n int64, ok bool) {
	digits := b
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// parseCommon reads a request as nearly all are: it is there as a whole, with few arguments
// that are not long, and nothing is wrong with it. It returns how many bytes it has, or 0
// for any other, which takes the way for all of them: that finds the same, and reports what
// is wrong.
func (p *Parser) parseCommon(buf []byte, l Limits) (n int) {
	count, at := parseShortNumber(buf, 1)
	if count < 1 || count > maxRetainedArgs || count > l.Args {
		return 0
	}
	p.args = p.args[:0]
	total := 0
	for range count {
		if at >= len(buf) || buf[at] != '$' {
			return 0
		}
		size, start := parseShortNumber(buf, at+1)
		end := start + size
		if size < 0 || size > l.Bulk || end+2 > len(buf) {
			return 0
		}
		total += size
		p.args = append(p.args, buf[start:end:end])
		at = end + 2
	}
	if total > l.Total {
		return 0
	}
	return at
}

// parseShortNumber reads the number of a line that has at most four digits, and returns where the
// next line begins. The number is -1 if it is not such a line, or not all of it is there.
func parseShortNumber(buf []byte, at int) (n, next int) {
	for i := at; i < len(buf)-1 && i <= at+4; i++ {
		c := buf[i] - '0'
		if c > 9 {
			if buf[i] != '\r' || i == at || buf[at] == '0' && i > at+1 {
				return -1, 0
			}
			return n, i + 2
		}
		n = n*10 + int(c)
	}
	return -1, 0
}

// parseInline reads a request that is a line of words, as a person types it.
func (p *Parser) parseInline(buf []byte, l Limits) (args [][]byte, n int, err error) {
	end := bytes.IndexByte(buf[p.pos:], '\n')
	if end < 0 {
		if len(buf) > maxInlineBytes {
			return nil, 0, newProtocolError("too big inline request")
		}
		p.pos = len(buf) // looked at, and it has no end
		return nil, 0, nil
	}
	end += p.pos
	if end > maxInlineBytes {
		return nil, 0, newProtocolError("too big inline request")
	}
	p.pos = end + 1
	text := bytes.TrimSuffix(buf[:end], []byte("\r"))
	// The words of the last line may still be in use.
	p.args, p.inlineBuf = p.args[:0], nil
	for {
		text = bytes.TrimLeft(text, blankBytes)
		if len(text) == 0 {
			break
		}
		word, rest, ok := p.parseWord(text)
		if !ok {
			return nil, 0, newProtocolError("unbalanced quotes in request")
		}
		if len(p.args) == l.Args {
			return nil, 0, newProtocolError("too many arguments in a line: at most %d", l.Args)
		}
		if len(word) > l.Bulk {
			return nil, 0, newProtocolError("too big argument in a line: at most %d bytes", l.Bulk)
		}
		p.args, text = append(p.args, word), rest
	}
	args = p.args
	return args, p.endRequest(), nil
}

const blankBytes = " \t\n\v\f\r\x00"

// parseWord takes the first word of a line that begins with one. Quotes hold words
// together; in double ones a backslash gives characters another meaning.
func (p *Parser) parseWord(text []byte) (word, rest []byte, ok bool) {
	start := len(p.inlineBuf)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case bytes.IndexByte([]byte(blankBytes), c) >= 0:
			return p.wordSince(start), text[i:], true
		case c == '"' || c == '\'':
			n, ok := p.parseQuoted(text[i+1:], c)
			if !ok {
				return nil, nil, false
			}
			i += 1 + n
			// A closing quote ends the word: what follows it must be a blank.
			if i < len(text) && bytes.IndexByte([]byte(blankBytes), text[i]) < 0 {
				return nil, nil, false
			}
		default:
			p.inlineBuf = append(p.inlineBuf, c)
			i++
		}
	}
	return p.wordSince(start), nil, true
}

func (p *Parser) wordSince(start int) []byte {
	return p.inlineBuf[start:len(p.inlineBuf):len(p.inlineBuf)]
}

// parseQuoted takes what is inside of quotes and returns how long it was, the closing
// quote included.
func (p *Parser) parseQuoted(text []byte, quote byte) (n int, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return i + 1, true
		case c != '\\':
			p.inlineBuf = append(p.inlineBuf, c)
		case quote == '\'':
			if i+1 < len(text) && text[i+1] == '\'' {
				i++
			}
			p.inlineBuf = append(p.inlineBuf, text[i])
		case i+3 < len(text) && text[i+1] == 'x' && isHex(text[i+2]) && isHex(text[i+3]):
			p.inlineBuf = append(p.inlineBuf, hexValue(text[i+2])<<4|hexValue(text[i+3]))
			i += 3
		case i+1 < len(text):
			i++
			p.inlineBuf = append(p.inlineBuf, decodeEscape(text[i]))
		}
	}
	return 0, false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

func decodeEscape(c byte) byte {
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
