package key

import (
	"bytes"
	"fmt"
)

// Reader walks an encoded tuple element by element, without allocating:
//
//	r := key.NewReader(b)
//	for r.Next() {
//		use(r.Element())
//	}
//	return r.Err()
//
// The zero Reader reads the empty tuple.
type Reader struct {
	b       []byte
	off     int
	nested  bool
	current Element
	err     error
}

// NewReader returns a Reader of the encoded tuple b, which must not change
// while the reader or its elements are in use.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Next steps to the next element. It returns false at the end of the tuple and
// at the first byte that does not fit; Err distinguishes the two.
func (r *Reader) Next() bool {
	if r.err != nil || r.off == len(r.b) {
		r.current = Element{}
		return false
	}
	end, escapes, err := scanElement(r.b, r.off, r.nested)
	if err != nil {
		r.current = Element{}
		r.err = &DecodeError{Offset: end, Cause: err}
		return false
	}
	r.current = Element{raw: r.b[r.off:end:end], escapes: escapes}
	r.off = end
	return true
}

// Element returns the element that Next stepped to.
func (r *Reader) Element() Element { return r.current }

// Offset returns how many bytes have been read: where the current element ends.
func (r *Reader) Offset() int { return r.off }

// Err returns the [*DecodeError] that ended the walk, or nil.
func (r *Reader) Err() error { return r.err }

// Decode returns the tuple that b encodes, or a [*DecodeError]. The result
// shares no memory with b.
func Decode(b []byte) (Tuple, error) {
	// Room for most keys at once, but not for more than the input can hold.
	t, end, err := decodeElements(make(Tuple, 0, min(len(b), 8)), b, 0, 0)
	if err != nil {
		return nil, &DecodeError{Offset: end, Cause: err}
	}
	return t, nil
}

// decodeElements appends to t the elements at b[off:] of a tuple that is depth
// levels below the top. It returns the offset after the tuple, or the one at
// which the input stopped fitting.
func decodeElements(t Tuple, b []byte, off, depth int) (Tuple, int, error) {
	for off < len(b) {
		switch {
		case depth > 0 && isTupleEnd(b, off):
			return t, off + 1, nil
		case b[off] == codeNested:
			if depth == MaxDepth {
				return nil, off, ErrDepth
			}
			inner, end, err := decodeElements(Tuple{}, b, off+1, depth+1)
			if err != nil {
				return nil, end, err
			}
			t, off = append(t, inner), end
		default:
			end, escapes, err := scanScalar(b, off, depth > 0)
			if err != nil {
				return nil, end, err
			}
			t, off = append(t, Element{raw: b[off:end], escapes: escapes}.Value()), end
		}
	}
	if depth > 0 {
		return nil, off, ErrTruncated
	}
	return t, off, nil
}

// scanElement finds the element at b[off:], which is inside a nested tuple if
// nested. It returns where the element ends and how many escapes its payload
// has; if it fails, end is the offset at which the input stopped fitting.
func scanElement(b []byte, off int, nested bool) (end, escapes int, err error) {
	if b[off] == codeNested {
		end, err = skipNested(b, off)
		return end, 0, err
	}
	return scanScalar(b, off, nested)
}

// scanScalar is element for everything but tuples. The caller has seen to it that
// off is in range and, if nested, that b[off] does not end the tuple.
func scanScalar(b []byte, off int, nested bool) (end, escapes int, err error) {
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
		return scanString(b, off)
	case KindInt:
		end, err = scanInteger(b, off)
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

// scanString finds the end of the string that starts at off: a zero byte that
// no escape follows.
func scanString(b []byte, off int) (end, escapes int, err error) {
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

// scanInteger finds the end of the integer at off, and refuses all forms of it
// but the shortest: a second spelling would be a second key for one value.
func scanInteger(b []byte, off int) (int, error) {
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
		case isTupleEnd(b, i):
			i++
			if depth--; depth == 0 {
				return i, nil
			}
		default:
			end, _, err := scanScalar(b, i, true)
			if err != nil {
				return end, err
			}
			i = end
		}
	}
	return len(b), ErrTruncated
}

// isTupleEnd reports whether b[i] ends a nested tuple rather than being its nil.
func isTupleEnd(b []byte, i int) bool {
	return b[i] == codeNil && (i+1 == len(b) || b[i+1] != escape)
}
