package key

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
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
	if i, u, ok := toInteger(v); !ok {
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

// toInteger returns a value of Go's integer types: i if it is negative, else u.
// (For values that are not negative i is 0.)
func toInteger(v any) (i int64, u uint64, ok bool) {
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

// Type codes of FoundationDB's tuple layer. An encoded element starts with its
// code, so codes order elements of different types.
const (
	codeNil       = 0x00
	codeBytes     = 0x01
	codeString    = 0x02
	codeNested    = 0x05
	codeNegBig    = 0x0b // ^length, then length bytes of ^magnitude
	codeNegInt8   = 0x0c // codeZero-n is a negative number of n bytes
	codeZero      = 0x14
	codePosInt8   = 0x1c // codeZero+n is a positive number of n bytes
	codePosBig    = 0x1d // length, then length bytes of magnitude
	codeFloat32   = 0x20
	codeFloat64   = 0x21
	codeFalse     = 0x26
	codeTrue      = 0x27
	codeUUID      = 0x30
	codeVersion80 = 0x32
	codeVersion96 = 0x33

	// escape follows a zero byte that is data, not a terminator. It is never
	// a type code: the order of strings and nested tuples rests on that.
	escape = 0xff
)

// maxIntBytes is the longest magnitude that the one length byte can state.
const maxIntBytes = 255

// Kind is the type of an [Element].
type Kind uint8

// The kinds, in the order in which their elements sort.
const (
	KindInvalid Kind = iota // the zero Element
	KindNil
	KindBytes
	KindString
	KindTuple
	KindInt // an integer of any size
	KindFloat32
	KindFloat64
	KindBool
	KindUUID
	KindVersionstamp80
	KindVersionstamp
)

var kindNames = [...]string{
	"invalid", "nil", "bytes", "string", "tuple", "int", "float32", "float64",
	"bool", "uuid", "versionstamp80", "versionstamp",
}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// kinds maps a type code to its kind; codes that are not ours map to
// KindInvalid. A table costs one load where a switch costs several branches.
var kinds = func() (t [256]Kind) {
	t[codeNil] = KindNil
	t[codeBytes] = KindBytes
	t[codeString] = KindString
	t[codeNested] = KindTuple
	for c := codeNegBig; c <= codePosBig; c++ {
		t[c] = KindInt
	}
	t[codeFloat32] = KindFloat32
	t[codeFloat64] = KindFloat64
	t[codeFalse] = KindBool
	t[codeTrue] = KindBool
	t[codeUUID] = KindUUID
	t[codeVersion80] = KindVersionstamp80
	t[codeVersion96] = KindVersionstamp
	return t
}()

// AppendNil appends the nil element. Inside a nested tuple nil is encoded
// otherwise: build those with [AppendTuple].
func AppendNil(dst []byte) []byte { return append(dst, codeNil) }

// AppendBytes appends b as a byte string.
func AppendBytes(dst, b []byte) []byte {
	dst = append(dst, codeBytes)
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(append(dst, b...), 0)
		}
		dst = append(append(dst, b[:i+1]...), escape)
		b = b[i+1:]
	}
}

// AppendString appends s as a text string.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, codeString)
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(append(dst, s...), 0)
		}
		dst = append(append(dst, s[:i+1]...), escape)
		s = s[i+1:]
	}
}

// AppendInt appends i as an integer.
func AppendInt(dst []byte, i int64) []byte {
	if i >= 0 {
		return AppendUint(dst, uint64(i))
	}
	magnitude := -uint64(i) // also right for the least int64
	n := (bits.Len64(magnitude) + 7) / 8
	return appendHigh(dst, byte(codeZero-n), ^magnitude, n)
}

// AppendUint appends u as an integer.
func AppendUint(dst []byte, u uint64) []byte {
	n := (bits.Len64(u) + 7) / 8
	return appendHigh(dst, byte(codeZero+n), u, n)
}

// appendHigh appends the code and the n low bytes of u, the highest first. It
// always writes nine bytes and cuts, which is quicker than a loop.
func appendHigh(dst []byte, code byte, u uint64, n int) []byte {
	dst = append(dst, code)
	end := len(dst) + n
	return binary.BigEndian.AppendUint64(dst, u<<(64-8*n))[:end]
}

// AppendBigInt appends i as an integer. It fails with [ErrUnencodable] if i is
// nil or its magnitude has more than 255 bytes.
func AppendBigInt(dst []byte, i *big.Int) ([]byte, error) {
	if i == nil {
		return dst, fmt.Errorf("%w: nil *big.Int", ErrUnencodable)
	}
	n := (i.BitLen() + 7) / 8
	if n > maxIntBytes {
		return dst, fmt.Errorf("%w: integer of %d bytes, at most %d", ErrUnencodable, n, maxIntBytes)
	}
	negative := i.Sign() < 0
	switch {
	case n <= 8 && negative:
		dst = append(dst, byte(codeZero-n))
	case n <= 8:
		dst = append(dst, byte(codeZero+n))
	case negative:
		dst = append(dst, codeNegBig, ^byte(n))
	default:
		dst = append(dst, codePosBig, byte(n))
	}
	var scratch [maxIntBytes]byte
	magnitude := i.FillBytes(scratch[:n])
	if negative {
		invertBits(magnitude)
	}
	return append(dst, magnitude...), nil
}

// invertBits flips every bit, which turns the order of magnitudes around.
func invertBits(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// AppendFloat32 appends f, bit for bit.
func AppendFloat32(dst []byte, f float32) []byte {
	u := math.Float32bits(f)
	// Negative numbers flip whole, so that the larger magnitude sorts first;
	// positive ones only move above them.
	u ^= uint32(int32(u)>>31) | 1<<31
	return binary.BigEndian.AppendUint32(append(dst, codeFloat32), u)
}

// AppendFloat64 appends f, bit for bit.
func AppendFloat64(dst []byte, f float64) []byte {
	u := math.Float64bits(f)
	u ^= uint64(int64(u)>>63) | 1<<63
	return binary.BigEndian.AppendUint64(append(dst, codeFloat64), u)
}

// AppendBool appends b.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

// AppendUUID appends u.
func AppendUUID(dst []byte, u UUID) []byte {
	return append(append(dst, codeUUID), u[:]...)
}

// AppendVersionstamp80 appends v.
func AppendVersionstamp80(dst []byte, v Versionstamp80) []byte {
	return append(append(dst, codeVersion80), v[:]...)
}

// AppendVersionstamp appends v.
func AppendVersionstamp(dst []byte, v Versionstamp) []byte {
	dst = append(append(dst, codeVersion96), v.Transaction[:]...)
	return binary.BigEndian.AppendUint16(dst, v.User)
}

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
// escaped, and a b distinguishes it from text.
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

// ErrUnencodable means a value has no encoding: the message names its type, and
// [Tuple] lists those that have one.
var ErrUnencodable = errors.New("key: value cannot be encoded")

// ErrDepth means a tuple nests deeper than [MaxDepth]: flatten it.
var ErrDepth = errors.New("key: tuple nested too deep")

// ErrMalformed means bytes are not an encoded tuple: they were written by
// something else or damaged. Every [*DecodeError] matches it.
var ErrMalformed = errors.New("key: malformed tuple")

// The causes that a [*DecodeError] unwraps to, besides [ErrDepth].
var (
	// ErrTruncated means the input ends inside an element.
	ErrTruncated = errors.New("key: input ends inside an element")
	// ErrTypeCode means an element starts with a byte that is no type code.
	ErrTypeCode = errors.New("key: unknown type code")
	// ErrNotCanonical means a number is written longer than it needs to be.
	ErrNotCanonical = errors.New("key: integer is not in its shortest form")
)

// DecodeError reports where in the input, and why, decoding stopped.
type DecodeError struct {
	// Offset is the index of the first byte that does not fit. If the input
	// ends too early it is where the unfinished element starts, or the end
	// of the input if all that is missing is the end of a nested tuple.
	Offset int
	// Cause wraps ErrTruncated, ErrTypeCode, ErrNotCanonical or ErrDepth.
	Cause error
}

// Error names the offset and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("%v: byte %d: %s", ErrMalformed, e.Offset, trimPackageName(e.Cause))
}

// trimPackageName returns the text of an error that stands inside a longer one of this
// package, which has named the package already.
func trimPackageName(err error) string { return strings.TrimPrefix(err.Error(), "key: ") }

// Is reports whether target is [ErrMalformed].
func (e *DecodeError) Is(target error) bool { return target == ErrMalformed }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Cause }
