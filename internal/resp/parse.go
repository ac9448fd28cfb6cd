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
	// Before is set for a client that has not said who it is: the error says so.
	Before bool
}

// Strangers are the limits before authentication: enough for AUTH and HELLO.
var Strangers = Limits{Args: 10, Bulk: 16 << 10, Total: 10 * 16 << 10, Before: true}

const (
	// inlineMax is how long a request in one line may be, and a line that holds a
	// number. Both are Redis's.
	inlineMax = 64 << 10
)

// ProtocolError is a request that is none: answer with it, and close the
// connection, since nobody knows where the next one begins.
type ProtocolError struct{ Reason string }

// Error is what Redis says.
func (e *ProtocolError) Error() string { return "Protocol error: " + e.Reason }

func protocolError(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// span is a part of the buffer: an argument.
type span struct{ start, end int }

// Parser finds requests at the front of a buffer that grows. The zero value is ready.
// It is not safe for concurrent use.
type Parser struct {
	// pos is how far it has looked. Before it are whole arguments, and the head of
	// the one at hand.
	pos int
	// left is how many arguments are still to come, and bulk how long the one at hand
	// is. Invariant: bulk >= 0 only if left > 0, and then pos is where it begins.
	left, bulk int
	inside     bool // a request has begun
	total      int
	spans      []span
	args       [][]byte
	inline     []byte // arguments that are not as they were written
}

// Next looks for a request at the front of buf, which is what the last call was given,
// and perhaps more behind it. It returns its arguments and how many bytes it has, or 0
// bytes if it is not whole yet. The list of arguments is good until the next call: keep
// a copy of it. What they point to, buf or memory of their own, is not used again here.
// A request without arguments is to be passed over. After n > 0 the next call begins
// with what is behind n bytes.
func (p *Parser) Next(buf []byte, l Limits) (args [][]byte, n int, err error) {
	if !p.inside {
		if len(buf) == 0 {
			return nil, 0, nil
		}
		if buf[0] != '*' {
			return p.line(buf, l)
		}
		if n := p.common(buf, l); n > 0 {
			return p.args, n, nil
		}
		if done, err := p.begin(buf, l); done || err != nil {
			return nil, p.end(), err
		}
	}
	for p.inside && p.left > 0 {
		whole, err := p.argument(buf, l)
		if err != nil || !whole {
			return nil, 0, err
		}
	}
	if !p.inside {
		return nil, 0, nil
	}
	p.args = p.args[:0]
	for _, s := range p.spans {
		p.args = append(p.args, buf[s.start:s.end:s.end])
	}
	args = p.args // before end, which may forget them
	return args, p.end(), nil
}

// Started tells whether a part of a request has been seen: the client owes the rest.
func (p *Parser) Started() bool { return p.inside }

// Missing is how many bytes the argument at hand lacks, given how many are there: a
// hint for how much to read at once. It is bounded by what a Limits allows.
func (p *Parser) Missing(have int) int {
	if !p.inside || p.bulk < 0 {
		return 0
	}
	return max(0, p.pos+p.bulk+2-have)
}

// end ends a request and returns how long it was.
func (p *Parser) end() (n int) {
	n = p.pos
	*p = Parser{spans: p.spans[:0], args: p.args}
	if cap(p.spans) > keepArgs {
		p.spans, p.args = nil, nil
	}
	return n
}

// keepArgs is for how many arguments memory is kept.
const keepArgs = 1 << 10

// begin reads how many arguments there are. done means that there are none.
func (p *Parser) begin(buf []byte, l Limits) (done bool, err error) {
	n, after, err := p.number(buf, 0, "too big mbulk count string", "invalid multibulk length")
	if err != nil || after == 0 {
		return false, err
	}
	switch {
	case n > math.MaxInt32 || n > int64(l.Args) && !l.Before:
		return false, protocolError("invalid multibulk length")
	case n > int64(l.Args):
		return false, protocolError("unauthenticated multibulk length")
	}
	p.pos = after
	if n <= 0 {
		return true, nil
	}
	p.inside, p.left, p.bulk, p.total = true, int(n), -1, 0
	p.spans = p.spans[:0]
	return false, nil
}

// argument reads the next argument, if all of it is there.
func (p *Parser) argument(buf []byte, l Limits) (whole bool, err error) {
	if p.bulk < 0 {
		if whole, err := p.head(buf, l); err != nil || !whole {
			return false, err
		}
	}
	end := p.pos + p.bulk
	if len(buf) < end+2 {
		return false, nil
	}
	p.spans = append(p.spans, span{p.pos, end})
	p.pos, p.bulk = end+2, -1 // what ends an argument is not looked at, as in Redis
	p.left--
	return true, nil
}

// head reads how long the next argument is.
func (p *Parser) head(buf []byte, l Limits) (whole bool, err error) {
	if p.pos >= len(buf) {
		return false, nil
	}
	if c := buf[p.pos]; c != '$' {
		return false, protocolError("expected '$', got '%s'", printable(c))
	}
	n, after, err := p.number(buf, p.pos, "too big bulk count string", "invalid bulk length")
	if err != nil || after == 0 {
		return false, err
	}
	switch {
	case n < 0 || n > int64(l.Bulk) && !l.Before:
		return false, protocolError("invalid bulk length")
	case n > int64(l.Bulk):
		return false, protocolError("unauthenticated bulk length")
	case p.total+int(n) > l.Total:
		return false, protocolError("too big request: at most %d bytes", l.Total)
	}
	p.total += int(n)
	p.pos, p.bulk = after, int(n)
	return true, nil
}

// printable is a byte as it may stand in an error, which is one line of text.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf(`\x%02x`, c)
	}
	return string(c)
}

// number reads the decimal number of the line that begins at from, behind its first
// byte, and returns where the next line begins: 0 if the line is not whole.
func (p *Parser) number(buf []byte, from int, long, bad string) (n int64, after int, err error) {
	line := buf[from+1:]
	// A line that is longer than any number is refused before all of it is there.
	if len(line) > inlineMax {
		line = line[:inlineMax]
	}
	end := bytes.IndexByte(line, '\r')
	if end < 0 {
		if len(line) == inlineMax {
			return 0, 0, protocolError("%s", long)
		}
		return 0, 0, nil
	}
	if from+1+end+2 > len(buf) {
		return 0, 0, nil // the second byte of the line's end is not there
	}
	n, ok := parseInt(line[:end])
	if !ok {
		return 0, 0, protocolError("%s", bad)
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
