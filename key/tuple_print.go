package key

import (
	"fmt"
	"strconv"
)

// String prints t for people, such as ("eu", 42, (nil, b"\x00")). Text that is
// not printable is escaped, so the result is safe for a terminal.
func (t Tuple) String() string { return string(appendTupleText(nil, t, 0)) }

func appendTupleText(dst []byte, t Tuple, depth int) []byte {
	if depth > MaxDepth {
		return append(dst, "(…)"...)
	}
	dst = append(dst, '(')
	for i, v := range t {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendText(dst, v, depth)
	}
	return append(dst, ')')
}

// appendText prints one element.
func appendText(dst []byte, v any, depth int) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "nil"...)
	case string:
		return strconv.AppendQuote(dst, v)
	case []byte:
		return appendBytesText(dst, v)
	case Tuple:
		return appendTupleText(dst, v, depth+1)
	case UUID:
		return v.appendText(dst)
	}
	if kindOf(v, depth) == kindUnencodable {
		return fmt.Appendf(dst, "!%T", v) // its own text could hold anything
	}
	return fmt.Append(dst, v)
}

// appendBytesText prints a byte string: bytes that are not printable ASCII are
// escaped, and a b tells it from text.
func appendBytesText(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, `b"`...)
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ' && c <= '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '\\', 'x', digits[c>>4], digits[c&15])
		}
	}
	return append(dst, '"')
}
