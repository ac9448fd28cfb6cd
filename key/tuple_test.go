package key

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var vectorUUID = UUID{
	0x11, 0x00, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
	0x11, 0x00, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
}

func repeatValue(n int, v any) Tuple {
	t := make(Tuple, n)
	for i := range t {
		t[i] = v
	}
	return t
}

// specVectors are the test cases of FoundationDB's design/tuple.md, and the
// encodings that its text gives.
var specVectors = []struct {
	tuple Tuple
	hex   string
}{
	{Tuple{}, ""},
	{Tuple{nil}, "00"},
	{Tuple{[]byte("foo\x00bar")}, "01666f6f00ff62617200"},
	{Tuple{"F\u00d4O\x00bar"}, "0246c3944f00ff62617200"},
	{Tuple{Tuple{[]byte("foo\x00bar"), nil, Tuple{}}}, "0501666f6f00ff6261720000ff050000"},
	{Tuple{Tuple{}}, "0500"},
	{Tuple{Tuple{nil}}, "0500ff00"},
	{Tuple{int64(-5551212)}, "11ab4b93"},
	{Tuple{int64(-1)}, "13fe"},
	{Tuple{int64(0)}, "14"},
	{Tuple{float32(-42)}, "203dd7ffff"},
	{Tuple{false, true}, "2627"},
}

// bindingVectors are from the golden file of FoundationDB's Go binding; those
// that repeat one element twenty times are cut short.
var bindingVectors = []struct {
	tuple Tuple
	hex   string
}{
	{Tuple{vectorUUID, "foobarbaz", int64(1234), nil}, "301100aabbccddeeff1100aabbccddeeff02666f6f62617262617a001604d200"},
	{Tuple{vectorUUID, "github", "com", "apple", "foundationdb", "tree"}, "301100aabbccddeeff1100aabbccddeeff026769746875620002636f6d00026170706c650002666f756e646174696f6e646200027472656500"},
	{repeatValue(8, "nam\x00es\xffpace"), "026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500"},
	{repeatValue(3, []byte{0xff, 0x00, 0xff}), "01ff00ffff0001ff00ffff0001ff00ffff00"},
	{Tuple{"\x00", "\x00\xff", "\x00\x00\x00", "\xff\x00", ""}, "0200ff000200ffff000200ff00ff00ff0002ff00ff000200"},
	{Tuple{vectorUUID, true, vectorUUID, false}, "301100aabbccddeeff1100aabbccddeeff27301100aabbccddeeff1100aabbccddeeff26"},
	{
		Tuple{
			vectorUUID,
			Tuple{int64(0x7767830356aa6b86), int64(0x5ef4e81ede4561ad), int64(0x6688f8bd3e99b0a8), int64(0x5d78399cbed80a3a)},
			nil,
			repeatValue(4, []byte("namespace")),
			nil,
			Tuple{
				math.Float64frombits(0x3fe580903870639c), math.Float64frombits(0x3ff6b976fe5e3384),
				math.Float64frombits(0xbfd79a10f91843dc), math.Float64frombits(0xbfd526341ee49c36),
			},
			nil,
		},
		"301100aabbccddeeff1100aabbccddeeff051c7767830356aa6b861c5ef4e81ede4561ad1c6688f8bd3e99b0a81c5d78399cbed80a3a000005016e616d65737061636500016e616d65737061636500016e616d65737061636500016e616d6573706163650000000521bfe580903870639c21bff6b976fe5e338421402865ef06e7bc2321402ad9cbe11b63c90000",
	},
}

// edgeVectors are computed by hand from the rules: the ends of each width.
var edgeVectors = []struct {
	tuple Tuple
	hex   string
}{
	{Tuple{int64(255), int64(256)}, "15ff160100"},
	{Tuple{int64(-255), int64(-256)}, "130012feff"},
	{Tuple{int64(math.MaxInt64)}, "1c7fffffffffffffff"},
	{Tuple{int64(math.MinInt64)}, "0c7fffffffffffffff"},
	{Tuple{uint64(math.MaxUint64)}, "1cffffffffffffffff"},
	{Tuple{bigInt("-18446744073709551615")}, "0c0000000000000000"},
	{Tuple{bigInt("18446744073709551616")}, "1d09010000000000000000"},
	{Tuple{bigInt("-18446744073709551616")}, "0bf6feffffffffffffffff"},
	{Tuple{0.0, math.Copysign(0, -1)}, "218000000000000000217fffffffffffffff"},
	{Tuple{float32(math.Inf(1)), math.Inf(-1)}, "20ff80000021000fffffffffffff"},
	{Tuple{Versionstamp80{9: 7}}, "3200000000000000000007"},
	{Tuple{Versionstamp{Versionstamp80{0: 0xaa}, 620}}, "33aa000000000000000000026c"},
}

func bigInt(s string) *big.Int {
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic("not a number: " + s)
	}
	return i
}

func TestEncodingsAreThePublishedOnes(t *testing.T) {
	for _, v := range append(append(specVectors, bindingVectors...), edgeVectors...) {
		want, err := hex.DecodeString(v.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Encode(v.tuple)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Encode(%v) = %x, %v; want %x", v.tuple, got, err, want)
		}
		back, err := Decode(want)
		if err != nil || !reflect.DeepEqual(back, v.tuple) {
			t.Errorf("Decode(%x) = %v, %v; want %v", want, back, err, v.tuple)
		}
	}
}

func TestTypedAppendersConcatenateToTheTuple(t *testing.T) {
	tuple := Tuple{nil, []byte("a\x00"), "b\x00", int64(-3), uint64(math.MaxUint64), bigInt("99"), float32(1), -2.0, true,
		vectorUUID, Versionstamp80{1: 2}, Versionstamp{User: 3}, Tuple{nil, Tuple{}}}
	b := AppendString(AppendBytes(AppendNil(nil), []byte("a\x00")), "b\x00")
	b = AppendUint(AppendInt(b, -3), math.MaxUint64)
	b, errBig := AppendBigInt(b, bigInt("99"))
	b = AppendBool(AppendFloat64(AppendFloat32(b, 1), -2), true)
	b = AppendVersionstamp(AppendVersionstamp80(AppendUUID(b, vectorUUID), Versionstamp80{1: 2}), Versionstamp{User: 3})
	b, errTuple := AppendTuple(b, Tuple{nil, Tuple{}})
	if want := mustEncode(t, tuple); !bytes.Equal(b, want) || errBig != nil || errTuple != nil {
		t.Errorf("got %x, %v, %v; want %x", b, errBig, errTuple, want)
	}
	if _, err := TupleRange(Tuple{struct{}{}}); !errors.Is(err, ErrUnencodable) {
		t.Errorf("range of what has no encoding: error %v", err)
	}
}

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

type hostileString string // its text must not reach a terminal

func TestTuplesPrintSafely(t *testing.T) {
	cyclic := Tuple{nil}
	cyclic[0] = cyclic
	for _, c := range []struct {
		tuple Tuple
		want  string
	}{
		{nil, `()`},
		{Tuple{nil, true, -5, uint8(7), big.NewInt(9), 1.5}, `(nil, true, -5, 7, 9, 1.5)`},
		{Tuple{"é\x1b[2J\xff", []byte("a\"\\\x1b\xc3\xa9")}, `("é\x1b[2J\xff", b"a\"\\\x1b\xc3\xa9")`},
		{Tuple{vectorUUID, Versionstamp80{9: 1}, Versionstamp{User: 2}}, `(1100aabb-ccdd-eeff-1100-aabbccddeeff, 00000000000000000001, 00000000000000000000:0002)`},
		{Tuple{Tuple{Tuple{}}, hostileString("\x1b[2J"), (*big.Int)(nil)}, `((()), !key.hostileString, !*big.Int)`},
	} {
		if got := c.tuple.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	_ = cyclic.String() // must end
}

func TestKindsAndRangesPrintTheirNames(t *testing.T) {
	if KindInt.String() != "int" || Kind(200).String() != "Kind(200)" {
		t.Errorf("%v, %v", KindInt, Kind(200))
	}
	if TypeTime.String() != "time" || Type(200).String() != "Type(200)" {
		t.Errorf("%v, %v", TypeTime, Type(200))
	}
	r := Range{Begin: []byte("a\x00"), End: []byte("b")}
	if r.String() != `["a\x00", "b")` || PrefixRange([]byte{0xff}).String() != `["\xff", ∞)` {
		t.Errorf("%v, %v", r, PrefixRange([]byte{0xff}))
	}
	if !(Range{Begin: []byte("b"), End: []byte("b")}).Empty() || (Range{}).Empty() {
		t.Error("emptiness is wrong")
	}
}

func TestAppendingAndReadingDoNotAllocate(t *testing.T) {
	tuple := Tuple{"eu", []byte("a\x00b"), int64(-1 << 40), uint64(1 << 63), 1.5, float32(2), true, nil, vectorUUID, Tuple{nil, "x"}, big.NewInt(-5)}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		var err error
		if buf, err = Append(buf[:0], tuple); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
	scratch := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		r := NewReader(buf)
		for r.Next() {
			e := r.Element()
			e.Int()
			e.Uint()
			e.Float32()
			e.Float64()
			e.Bool()
			e.UUID()
			scratch, _ = e.AppendPayload(scratch[:0])
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
	}); n != 0 {
		t.Errorf("Reader allocates %v times", n)
	}
}

func TestUUIDTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		for _, text := range []string{u.String(), strings.ToUpper(u.String())} {
			if back, err := ParseUUID(text); err != nil || back != u {
				t.Fatalf("%s reads back as %v, %v", text, back, err)
			}
		}
	})
}

func TestWhatIsNotAUUIDIsRefused(t *testing.T) {
	const good = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, text := range []string{
		"", good[1:], good + "0", "{" + good[2:] + "}", strings.ReplaceAll(good, "-", "_"),
		strings.ReplaceAll(good, "-", "0"), strings.Replace(good, "a", "g", 1), good[:35] + "\xff",
	} {
		if u, err := ParseUUID(text); !errors.Is(err, ErrUUID) || u != (UUID{}) {
			t.Errorf("%q: %v, %v", text, u, err)
		}
	}
}

var benchTuples = []struct {
	name  string
	tuple Tuple
}{
	{"key", Tuple{"eu-west", int64(1_794_705_696_000_000_000), int64(42)}},
	{"strings", Tuple{"github", "com", "apple", "foundationdb", "tree"}},
	{"ints", Tuple{int64(1), int64(-1), int64(1 << 40), int64(-1 << 40), int64(1 << 62)}},
	{"mixed", Tuple{vectorUUID, "foobarbaz", int64(1234), nil, 1.5, true, Tuple{"a", nil}}},
}

func BenchmarkTuple(b *testing.B) {
	for _, c := range benchTuples {
		encoded := mustEncode(b, c.tuple)
		buf := make([]byte, 0, len(encoded)+16)
		b.Run(fmt.Sprintf("op=append/tuple=%s", c.name), func(b *testing.B) {
			for b.Loop() {
				buf, _ = Append(buf[:0], c.tuple)
			}
		})
		b.Run(fmt.Sprintf("op=decode/tuple=%s", c.name), func(b *testing.B) {
			for b.Loop() {
				if _, err := Decode(encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("op=read/tuple=%s", c.name), func(b *testing.B) {
			for b.Loop() {
				r := NewReader(encoded)
				for r.Next() {
					r.Element().Int()
				}
			}
		})
	}
}

func BenchmarkLayout(b *testing.B) {
	l := mustLayout(b, "(region:string, hour(ts)) | ts, id:int")
	var row Row = Columns{"region": "eu-west", "ts": someTime, "id": int64(42)}
	key := mustKey(b, l, row)
	b.Run("op=append", func(b *testing.B) {
		buf := make([]byte, 0, 64)
		for b.Loop() {
			buf, _ = l.Append(buf[:0], row)
		}
	})
	b.Run("op=values", func(b *testing.B) {
		buf := make([]byte, 0, 64)
		values := []any{"eu-west", someTime, int64(42)}
		for b.Loop() {
			buf, _ = l.AppendValues(buf[:0], values...)
		}
	})
	b.Run("op=decode", func(b *testing.B) {
		var v Values
		for b.Loop() {
			if err := l.DecodeInto(&v, key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=partition", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Partition(key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=format", func(b *testing.B) {
		buf := make([]byte, 0, 128)
		for b.Loop() {
			buf, _ = l.AppendFormat(buf[:0], key)
		}
	})
}
