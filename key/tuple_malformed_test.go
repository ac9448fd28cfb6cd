package key

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestMalformedInputIsRefusedWithItsPlaceAndCause(t *testing.T) {
	deep := strings.Repeat("\x05", MaxDepth+1)
	for _, c := range []struct {
		name, in string
		offset   int
		cause    error
	}{
		{"reserved code", "\x14\x03", 1, ErrTypeCode},
		{"escape as a code", "\xff", 0, ErrTypeCode},
		{"deprecated true", "\x25", 0, ErrTypeCode},
		{"64-bit identifier", "\x31\x00\x00\x00\x00\x00\x00\x00\x00", 0, ErrTypeCode},
		{"open bytes", "\x14\x01abc", 1, ErrTruncated},
		{"string ending in an escape", "\x02a\x00\xff", 0, ErrTruncated},
		{"short integer", "\x16\x01", 0, ErrTruncated},
		{"short negative integer", "\x0c\x01", 0, ErrTruncated},
		{"leading zero", "\x16\x00\x01", 1, ErrNotCanonical},
		{"leading inverted zero", "\x12\xff\x01", 1, ErrNotCanonical},
		{"zero of one byte", "\x15\x00", 1, ErrNotCanonical},
		{"big without length", "\x1d", 0, ErrTruncated},
		{"big of eight bytes", "\x1d\x08\x01\x00\x00\x00\x00\x00\x00\x00", 1, ErrNotCanonical},
		{"negative big of eight bytes", "\x0b\xf7\x01\x00\x00\x00\x00\x00\x00\x00", 1, ErrNotCanonical},
		{"big with a leading zero", "\x1d\x09\x00\x01\x01\x01\x01\x01\x01\x01\x01", 2, ErrNotCanonical},
		{"big that lies about its length", "\x1d\xff\x01", 0, ErrTruncated},
		{"negative big that lies", "\x0b\x00\x01", 0, ErrTruncated},
		{"short float", "\x20\x01\x02\x03", 0, ErrTruncated},
		{"short double", "\x21\x01\x02\x03\x04", 0, ErrTruncated},
		{"short uuid", "\x30" + strings.Repeat("a", 15), 0, ErrTruncated},
		{"short versionstamp80", "\x32" + strings.Repeat("a", 9), 0, ErrTruncated},
		{"short versionstamp", "\x33" + strings.Repeat("a", 11), 0, ErrTruncated},
		{"open tuple", "\x05\x14", 2, ErrTruncated},
		{"open tuple after nil", "\x05\x00\xff", 3, ErrTruncated},
		{"bad element inside a tuple", "\x05\x14\x44\x00", 2, ErrTypeCode},
		{"too deep", deep + strings.Repeat("\x00", MaxDepth+1), MaxDepth, ErrDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode([]byte(c.in))
			r := NewReader([]byte(c.in))
			for r.Next() {
			}
			for _, err := range []error{err, r.Err()} {
				var at *DecodeError
				if !errors.Is(err, ErrMalformed) || !errors.Is(err, c.cause) || !errors.As(err, &at) || at.Offset != c.offset {
					t.Errorf("got %v, want offset %d and %v", err, c.offset, c.cause)
				}
			}
			if r.Next() || r.Element().Kind() != KindInvalid {
				t.Error("reading went on after the error")
			}
		})
	}
}

func TestDeepestTupleRoundTripsAndOneDeeperIsRefused(t *testing.T) {
	tuple := Tuple{}
	for range MaxDepth {
		tuple = Tuple{tuple}
	}
	if back, err := Decode(mustEncode(t, tuple)); err != nil || Compare(back, tuple) != 0 {
		t.Errorf("depth %d: %v, %v", MaxDepth, back, err)
	}
	if _, err := Encode(Tuple{tuple}); !errors.Is(err, ErrDepth) {
		t.Errorf("depth %d: error %v, want ErrDepth", MaxDepth+1, err)
	}
}

func TestUnencodableValuesAreNamedAndLeaveTheBufferAlone(t *testing.T) {
	type named int
	huge := new(big.Int).Lsh(big.NewInt(1), 8*maxIntBytes)
	cyclic := Tuple{nil}
	cyclic[0] = cyclic
	for _, c := range []struct {
		tuple Tuple
		want  error
		text  string
	}{
		{Tuple{"a", named(3)}, ErrUnencodable, "element 1: key: value cannot be encoded: type key.named"},
		{Tuple{Tuple{1, struct{}{}}}, ErrUnencodable, "element 0: element 1:"},
		{Tuple{(*big.Int)(nil)}, ErrUnencodable, "nil *big.Int"},
		{Tuple{huge}, ErrUnencodable, "256 bytes"},
		{Tuple{new(big.Int).Neg(huge)}, ErrUnencodable, "256 bytes"},
		{cyclic, ErrDepth, "more than 32 levels"},
	} {
		dst := []byte("before")
		got, err := Append(dst, c.tuple)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("error %v, want %v with %q", err, c.want, c.text)
		}
		if !bytes.Equal(got, dst) {
			t.Errorf("buffer became %q", got)
		}
		// Ordering and printing such a tuple must still end.
		if Compare(c.tuple, c.tuple) != 0 || Compare(c.tuple, Tuple{}) != 1 {
			t.Errorf("%v does not compare equal to itself and after the empty tuple", c.tuple)
		}
	}
}

func TestZeroElementHasNoValue(t *testing.T) {
	var e Element
	_, isBytes := e.Bytes()
	_, isText := e.Text()
	_, isInt := e.Int()
	_, isUint := e.Uint()
	_, isBig := e.BigInt()
	_, isBool := e.Bool()
	_, isTuple := e.Tuple()
	if e.Value() != nil || isBytes || isText || isInt || isUint || isBig || isBool || isTuple {
		t.Error("the zero Element claims to be something")
	}
}
