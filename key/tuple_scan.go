package key

import (
	"bytes"
	"fmt"
)

// element finds the element at b[off:], which is inside a nested tuple if
// nested. It returns where the element ends and how many escapes its payload
// has; if it fails, end is the offset at which the input stopped fitting.
func element(b []byte, off int, nested bool) (end, escapes int, err error) {
	if b[off] == codeNested {
		end, err = skipNested(b, off)
		return end, 0, err
	}
	return scalar(b, off, nested)
}

// scalar is element for everything but tuples. The caller has seen to it that
// off is in range and, if nested, that b[off] does not end the tuple.
func scalar(b []byte, off int, nested bool) (end, escapes int, err error) {
	code := b[off]
	switch kinds[code] {
	case KindNil:
		if nested {
			return off + 2, 0, nil
		}
		return off + 1, 0, nil
	case KindBool:
		return off + 1, 0, nil
	case KindBytes, KindString:
		return terminator(b, off)
	case KindInt:
		end, err = integerEnd(b, off)
		return end, 0, err
	case KindFloat32:
		end = off + 1 + 4
	case KindFloat64:
		end = off + 1 + 8
	case KindUUID:
		end = off + 1 + len(UUID{})
	case KindVersionstamp80:
		end = off + 1 + len(Versionstamp80{})
	case KindVersionstamp:
		end = off + 1 + len(Versionstamp80{}) + 2
	default:
		return off, 0, fmt.Errorf("%w 0x%02x", ErrTypeCode, code)
	}
	if end > len(b) {
		return off, 0, ErrTruncated
	}
	return end, 0, nil
}

// terminator finds the end of the string that starts at off: a zero byte that
// no escape follows.
func terminator(b []byte, off int) (end, escapes int, err error) {
	for i := off + 1; ; {
		n := bytes.IndexByte(b[i:], 0)
		if n < 0 {
			return off, 0, ErrTruncated
		}
		i += n + 1
		if i == len(b) || b[i] != escape {
			return i, escapes, nil
		}
		escapes++
		i++
	}
}

// integerEnd finds the end of the integer at off, and refuses all forms of it
// but the shortest: a second spelling would be a second key for one value.
func integerEnd(b []byte, off int) (int, error) {
	code := b[off]
	var n int // bytes of magnitude
	start := off + 1
	switch {
	case code == codeNegBig || code == codePosBig:
		if start == len(b) {
			return off, ErrTruncated
		}
		n = int(b[start])
		if code == codeNegBig {
			n ^= 0xff
		}
		if n <= 8 {
			return start, ErrNotCanonical
		}
		start++
	case code >= codeZero:
		n = int(code) - codeZero
	default:
		n = codeZero - int(code)
	}
	if n > len(b)-start {
		return off, ErrTruncated
	}
	if n > 0 {
		var leading byte
		if code < codeZero {
			leading = 0xff // an inverted zero
		}
		if b[start] == leading {
			return start, ErrNotCanonical
		}
	}
	return start + n, nil
}

// skipNested finds the end of the tuple that starts at off. It counts levels
// instead of recursing, so hostile depth costs no stack.
func skipNested(b []byte, off int) (int, error) {
	depth := 0
	for i := off; i < len(b); {
		switch {
		case b[i] == codeNested:
			if depth++; depth > MaxDepth {
				return i, ErrDepth
			}
			i++
		case closes(b, i):
			i++
			if depth--; depth == 0 {
				return i, nil
			}
		default:
			end, _, err := scalar(b, i, true)
			if err != nil {
				return end, err
			}
			i = end
		}
	}
	return len(b), ErrTruncated
}

// closes reports whether b[i] ends a nested tuple rather than being its nil.
func closes(b []byte, i int) bool {
	return b[i] == codeNil && (i+1 == len(b) || b[i+1] != escape)
}
