package key

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// Element is one encoded element of a tuple: a view into the bytes that were
// read, decoded by its methods on demand. The typed methods report false if
// the element is of another kind, or does not fit the type asked for.
type Element struct {
	raw     []byte // the type code and all that belongs to it
	escapes int    // zero bytes in a string's payload
}

// Kind returns the element's type; [KindInvalid] for the zero Element.
func (e Element) Kind() Kind {
	if len(e.raw) == 0 {
		return KindInvalid
	}
	return kinds[e.raw[0]]
}

// Raw returns the element's encoding, as a view of the input. (Nil inside a
// nested tuple has another encoding than nil at the top.)
func (e Element) Raw() []byte { return e.raw }

// Bytes returns the payload of a byte string or a text string. It is a view
// of the input unless the payload contains zero bytes, which need unescaping
// into a new slice; [Element.AppendPayload] avoids that.
func (e Element) Bytes() ([]byte, bool) {
	if k := e.Kind(); k != KindBytes && k != KindString {
		return nil, false
	}
	payload := e.escapedPayload()
	if e.escapes > 0 {
		return appendUnescaped(make([]byte, 0, len(payload)-e.escapes), payload), true
	}
	return payload, true
}

// AppendPayload appends the payload of a byte string or a text string to dst.
func (e Element) AppendPayload(dst []byte) ([]byte, bool) {
	if k := e.Kind(); k != KindBytes && k != KindString {
		return dst, false
	}
	if e.escapes == 0 {
		return append(dst, e.escapedPayload()...), true
	}
	return appendUnescaped(dst, e.escapedPayload()), true
}

// Text returns a text string.
func (e Element) Text() (string, bool) {
	if e.Kind() != KindString {
		return "", false
	}
	b, _ := e.Bytes()
	return string(b), true
}

// escapedPayload returns a string's bytes, still escaped.
func (e Element) escapedPayload() []byte {
	end := len(e.raw) - 1
	return e.raw[1:end:end]
}

// appendUnescaped appends b without the escape byte that follows each zero.
func appendUnescaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i+1]...)
		b = b[i+2:]
	}
}

// Int returns an integer that fits an int64.
func (e Element) Int() (int64, bool) {
	magnitude, negative, ok := e.readMagnitude()
	switch {
	case !ok:
		return 0, false
	case negative:
		return -int64(magnitude), magnitude <= 1<<63
	default:
		return int64(magnitude), magnitude <= math.MaxInt64
	}
}

// Uint returns an integer that fits a uint64.
func (e Element) Uint() (uint64, bool) {
	magnitude, negative, ok := e.readMagnitude()
	return magnitude, ok && !negative
}

// readMagnitude reads an integer of at most eight bytes.
func (e Element) readMagnitude() (u uint64, negative, ok bool) {
	if len(e.raw) == 0 || e.raw[0] < codeNegInt8 || e.raw[0] > codePosInt8 {
		return 0, false, false
	}
	for _, c := range e.raw[1:] {
		u = u<<8 | uint64(c)
	}
	if e.raw[0] >= codeZero {
		return u, false, true
	}
	n := len(e.raw) - 1
	return ^u & (math.MaxUint64 >> (64 - 8*n)), true, true
}

// BigInt returns an integer of any size.
func (e Element) BigInt() (*big.Int, bool) {
	if e.Kind() != KindInt {
		return nil, false
	}
	if u, negative, ok := e.readMagnitude(); ok {
		i := new(big.Int).SetUint64(u)
		if negative {
			i.Neg(i)
		}
		return i, true
	}
	magnitude := e.raw[2:]
	if e.raw[0] != codeNegBig {
		return new(big.Int).SetBytes(magnitude), true
	}
	var scratch [maxIntBytes]byte
	positive := scratch[:copy(scratch[:], magnitude)]
	invertBits(positive)
	i := new(big.Int).SetBytes(positive)
	return i.Neg(i), true
}

// Float32 returns a 32-bit float, bit for bit.
func (e Element) Float32() (float32, bool) {
	if e.Kind() != KindFloat32 {
		return 0, false
	}
	u := binary.BigEndian.Uint32(e.raw[1:])
	// The sign bit is stored inverted: set means positive.
	u ^= uint32(int32(^u)>>31) | 1<<31
	return math.Float32frombits(u), true
}

// Float64 returns a 64-bit float, bit for bit.
func (e Element) Float64() (float64, bool) {
	if e.Kind() != KindFloat64 {
		return 0, false
	}
	u := binary.BigEndian.Uint64(e.raw[1:])
	u ^= uint64(int64(^u)>>63) | 1<<63
	return math.Float64frombits(u), true
}

// Bool returns a bool.
func (e Element) Bool() (value, ok bool) {
	return len(e.raw) > 0 && e.raw[0] == codeTrue, e.Kind() == KindBool
}

// UUID returns a UUID.
func (e Element) UUID() (UUID, bool) {
	if e.Kind() != KindUUID {
		return UUID{}, false
	}
	return UUID(e.raw[1:]), true
}

// Versionstamp80 returns an 80-bit versionstamp.
func (e Element) Versionstamp80() (Versionstamp80, bool) {
	if e.Kind() != KindVersionstamp80 {
		return Versionstamp80{}, false
	}
	return Versionstamp80(e.raw[1:]), true
}

// Versionstamp returns a 96-bit versionstamp.
func (e Element) Versionstamp() (Versionstamp, bool) {
	if e.Kind() != KindVersionstamp {
		return Versionstamp{}, false
	}
	return Versionstamp{
		Transaction: Versionstamp80(e.raw[1:11]),
		User:        binary.BigEndian.Uint16(e.raw[11:]),
	}, true
}

// Tuple returns a Reader of a nested tuple.
func (e Element) Tuple() (Reader, bool) {
	if e.Kind() != KindTuple {
		return Reader{}, false
	}
	return Reader{b: e.escapedPayload(), nested: true}, true
}

// Value returns the element as a [Tuple] holds it, sharing no memory with the
// input; nil for the zero Element.
func (e Element) Value() any {
	switch e.Kind() {
	case KindBytes:
		b, _ := e.AppendPayload(make([]byte, 0, len(e.raw)-2-e.escapes))
		return b
	case KindString:
		s, _ := e.Text()
		return s
	case KindTuple:
		t, _, _ := decodeElements(Tuple{}, e.raw, 1, 1) // checked when it was read
		return t
	case KindInt:
		return e.narrowestInteger()
	case KindFloat32:
		f, _ := e.Float32()
		return f
	case KindFloat64:
		f, _ := e.Float64()
		return f
	case KindBool:
		b, _ := e.Bool()
		return b
	case KindUUID:
		u, _ := e.UUID()
		return u
	case KindVersionstamp80:
		v, _ := e.Versionstamp80()
		return v
	case KindVersionstamp:
		v, _ := e.Versionstamp()
		return v
	default:
		return nil
	}
}

// narrowestInteger returns an integer in the narrowest of int64, uint64 and *big.Int.
func (e Element) narrowestInteger() any {
	if i, ok := e.Int(); ok {
		return i
	}
	if u, ok := e.Uint(); ok {
		return u
	}
	b, _ := e.BigInt()
	return b
}

// ErrUUID means a text is not a UUID: write 8-4-4-4-12 hexadecimal digits.
var ErrUUID = errors.New("key: not a UUID")

// UUID is an RFC 9562 UUID in network byte order. It sorts by its bytes.
type UUID [16]byte

// uuidDashes are the places of the dashes in the text form.
var uuidDashes = [...]int{8, 13, 18, 23}

const uuidTextLen = 36

// ParseUUID reads the text form, in either case. It fails with [ErrUUID] for
// anything else, braces and the urn: prefix included.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != uuidTextLen {
		return UUID{}, fmt.Errorf("%w: %d characters, want %d", ErrUUID, len(s), uuidTextLen)
	}
	for _, i := range uuidDashes {
		if s[i] != '-' {
			return UUID{}, fmt.Errorf("%w: %q at byte %d, want a dash", ErrUUID, s[i], i)
		}
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%w: %w", ErrUUID, err)
	}
	return u, nil
}

// String returns the text form, in lower case.
func (u UUID) String() string { return string(u.appendText(make([]byte, 0, uuidTextLen))) }

// appendText appends the text form to dst.
func (u UUID) appendText(dst []byte) []byte {
	dst = append(hex.AppendEncode(dst, u[0:4]), '-')
	dst = append(hex.AppendEncode(dst, u[4:6]), '-')
	dst = append(hex.AppendEncode(dst, u[6:8]), '-')
	dst = append(hex.AppendEncode(dst, u[8:10]), '-')
	return hex.AppendEncode(dst, u[10:])
}

// Versionstamp80 is the position of a transaction in FoundationDB's global
// order: eight bytes of commit version, two of position in the batch.
type Versionstamp80 [10]byte

// String returns the stamp as 20 hexadecimal digits.
func (v Versionstamp80) String() string { return fmt.Sprintf("%x", v[:]) }

// Versionstamp is the 96-bit stamp of FoundationDB's bindings: the
// transaction's position and the caller's order within the transaction.
//
// FoundationDB fills in a Transaction of ten 0xff bytes at commit. This
// package gives those no meaning: they are encoded as they stand, and sort
// after every stamp that was filled in.
type Versionstamp struct {
	Transaction Versionstamp80
	User        uint16
}

// String returns both parts as hexadecimal digits, joined by a colon.
func (v Versionstamp) String() string { return fmt.Sprintf("%x:%04x", v.Transaction[:], v.User) }
