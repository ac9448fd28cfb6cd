package key

import (
	"fmt"
	"math/big"
)

// MaxDepth is how deep tuples may nest: Tuple{Tuple{}} has depth 1. The bound
// keeps hostile input, and a tuple that contains itself, from exhausting the
// stack; keys of real schemas stay in single digits.
const MaxDepth = 32

// Tuple is an ordered list of elements. An element is one of:
//
//	nil
//	[]byte
//	string
//	Tuple
//	int, int8 … int64, uint, uint8 … uint64, *big.Int
//	float32, float64
//	bool
//	UUID
//	Versionstamp80, Versionstamp
//
// Elements of different types sort in the order of this list, false before
// true. All integer types are one: Tuple{int8(5)} and Tuple{uint64(5)} are the
// same key. Decoding gives int64 where the value fits, else uint64, else
// *big.Int.
type Tuple []any

// Encode returns the encoding of t. It fails with [ErrUnencodable] if an
// element is of another type than those listed at [Tuple], and with
// [ErrDepth] if t nests too deep.
func Encode(t Tuple) ([]byte, error) { return Append(make([]byte, 0, 16*len(t)), t) }

// Append appends the encoding of t to dst. It does not allocate if dst has
// room for it and eight bytes more, which integers write over and give back.
// If it fails it returns dst as it was, with the errors of [Encode].
func Append(dst []byte, t Tuple) ([]byte, error) {
	out, err := appendElements(dst, t, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendElement appends the encoding of one element, as if it were a tuple of
// length one. Encodings of elements may be concatenated to a tuple's.
func AppendElement(dst []byte, v any) ([]byte, error) {
	out, err := appendElement(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendTuple appends t as one nested element.
func AppendTuple(dst []byte, t Tuple) ([]byte, error) { return AppendElement(dst, t) }

// appendElements appends the elements of a tuple that is itself depth levels
// below the top.
func appendElements(dst []byte, t Tuple, depth int) ([]byte, error) {
	var err error
	for i, v := range t {
		if dst, err = appendElement(dst, v, depth); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return dst, nil
}

func appendElement(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		if depth > 0 {
			// A bare 0 would end the nested tuple; the escape keeps the order,
			// for no type code is 0xff.
			return append(dst, codeNil, escape), nil
		}
		return append(dst, codeNil), nil
	case []byte:
		return AppendBytes(dst, v), nil
	case string:
		return AppendString(dst, v), nil
	case int64: // the usual integers, ahead of the walk over all of them
		return AppendInt(dst, v), nil
	case int:
		return AppendInt(dst, int64(v)), nil
	case Tuple:
		return appendNested(dst, v, depth+1)
	case *big.Int:
		return AppendBigInt(dst, v)
	case float32:
		return AppendFloat32(dst, v), nil
	case float64:
		return AppendFloat64(dst, v), nil
	case bool:
		return AppendBool(dst, v), nil
	case UUID:
		return AppendUUID(dst, v), nil
	case Versionstamp80:
		return AppendVersionstamp80(dst, v), nil
	case Versionstamp:
		return AppendVersionstamp(dst, v), nil
	}
	if i, u, ok := integer(v); !ok {
		return nil, fmt.Errorf("%w: type %T; see key.Tuple for the types that can be", ErrUnencodable, v)
	} else if i < 0 {
		return AppendInt(dst, i), nil
	} else {
		return AppendUint(dst, u), nil
	}
}

func appendNested(dst []byte, t Tuple, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: more than %d levels", ErrDepth, MaxDepth)
	}
	dst, err := appendElements(append(dst, codeNested), t, depth)
	if err != nil {
		return nil, err
	}
	return append(dst, codeNil), nil
}

// integer returns a value of Go's integer types: i if it is negative, else u.
// (For values that are not negative i is 0.)
func integer(v any) (i int64, u uint64, ok bool) {
	switch v := v.(type) {
	case int:
		i = int64(v)
	case int64:
		i = v
	case int32:
		i = int64(v)
	case int16:
		i = int64(v)
	case int8:
		i = int64(v)
	case uint:
		return 0, uint64(v), true
	case uint64:
		return 0, v, true
	case uint32:
		return 0, uint64(v), true
	case uint16:
		return 0, uint64(v), true
	case uint8:
		return 0, uint64(v), true
	default:
		return 0, 0, false
	}
	if i < 0 {
		return i, 0, true
	}
	return 0, uint64(i), true
}
