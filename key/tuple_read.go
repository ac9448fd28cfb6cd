package key

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
// at the first byte that does not fit; Err tells the two apart.
func (r *Reader) Next() bool {
	if r.err != nil || r.off == len(r.b) {
		r.current = Element{}
		return false
	}
	end, escapes, err := element(r.b, r.off, r.nested)
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
		case depth > 0 && closes(b, off):
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
			end, escapes, err := scalar(b, off, depth > 0)
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
