package resp

import (
	"math"
	"strconv"
	"strings"
)

// Version is the version of the protocol that a client has asked for.
type Version uint8

// The versions. A client speaks RESP2 until it says HELLO 3.
const (
	RESP2 Version = 2
	RESP3 Version = 3
)

// AppendSimple appends a short text without line ends, such as OK.
func AppendSimple(dst []byte, s string) []byte {
	dst = append(dst, '+')
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendError appends an error. Its text begins with a word in capitals that programs
// look at. Line ends in it become blanks, and at its end nothing: keys and values may be in it.
func AppendError(dst []byte, text string) []byte {
	dst = append(dst, '-')
	text = strings.TrimRight(text, "\r\n")
	for i := range len(text) {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\r', '\n')
}

// AppendInt appends a number.
func AppendInt(dst []byte, n int64) []byte { return appendHead(dst, ':', n) }

// appendHead appends a line of a mark and a number.
func appendHead(dst []byte, mark byte, n int64) []byte {
	dst = append(dst, mark)
	if 0 <= n && n < 10 {
		dst = append(dst, '0'+byte(n))
	} else {
		dst = strconv.AppendInt(dst, n, 10)
	}
	return append(dst, '\r', '\n')
}

// AppendBulk appends a string of bytes.
func AppendBulk[B ~[]byte | ~string](dst []byte, b B) []byte {
	dst = appendHead(dst, '$', int64(len(b)))
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}

// AppendArray begins a list: n elements follow.
func AppendArray(dst []byte, n int) []byte { return appendHead(dst, '*', int64(n)) }

// AppendNull appends the absence of a value.
func (v Version) AppendNull(dst []byte) []byte {
	if v == RESP3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// AppendNullArray appends the absence of a list.
func (v Version) AppendNullArray(dst []byte) []byte {
	if v == RESP3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "*-1\r\n"...)
}

// AppendMap begins a map: n names follow, each with its value. In RESP2 it is a list
// of twice as many.
func (v Version) AppendMap(dst []byte, n int) []byte {
	if v == RESP3 {
		return appendHead(dst, '%', int64(n))
	}
	return AppendArray(dst, 2*n)
}

// AppendSet begins a set: n members follow.
func (v Version) AppendSet(dst []byte, n int) []byte {
	if v == RESP3 {
		return appendHead(dst, '~', int64(n))
	}
	return AppendArray(dst, n)
}

// AppendPush begins a message that answers no request: n elements follow.
func (v Version) AppendPush(dst []byte, n int) []byte {
	if v == RESP3 {
		return appendHead(dst, '>', int64(n))
	}
	return AppendArray(dst, n)
}

// AppendBool appends a truth, 1 or 0 in RESP2.
func (v Version) AppendBool(dst []byte, b bool) []byte {
	switch {
	case v == RESP3 && b:
		return append(dst, "#t\r\n"...)
	case v == RESP3:
		return append(dst, "#f\r\n"...)
	case b:
		return append(dst, ":1\r\n"...)
	}
	return append(dst, ":0\r\n"...)
}

// AppendDouble appends a number with a fraction, a string in RESP2.
func (v Version) AppendDouble(dst []byte, f float64) []byte {
	var room [32]byte
	var text []byte
	switch {
	case math.IsInf(f, 1):
		text = append(room[:0], "inf"...)
	case math.IsInf(f, -1):
		text = append(room[:0], "-inf"...)
	case math.IsNaN(f):
		text = append(room[:0], "nan"...)
	default:
		text = strconv.AppendFloat(room[:0], f, 'g', -1, 64)
	}
	if v != RESP3 {
		return AppendBulk(dst, text)
	}
	dst = append(append(dst, ','), text...)
	return append(dst, '\r', '\n')
}

// AppendVerbatim appends a text for people, such as that of INFO.
func (v Version) AppendVerbatim(dst []byte, text string) []byte {
	if v != RESP3 {
		return AppendBulk(dst, text)
	}
	dst = appendHead(dst, '=', int64(len(text)+4))
	dst = append(dst, "txt:"...)
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// IsError reports whether a reply is an error.
func IsError(reply []byte) bool { return len(reply) > 0 && reply[0] == '-' }
