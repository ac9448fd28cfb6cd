package key

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"reflect"
	"testing"
)

var vectorUUID = UUID{
	0x11, 0x00, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
	0x11, 0x00, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
}

func repeat(n int, v any) Tuple {
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
	{repeat(8, "nam\x00es\xffpace"), "026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500026e616d00ff6573ff7061636500"},
	{repeat(3, []byte{0xff, 0x00, 0xff}), "01ff00ffff0001ff00ffff0001ff00ffff00"},
	{Tuple{"\x00", "\x00\xff", "\x00\x00\x00", "\xff\x00", ""}, "0200ff000200ffff000200ff00ff00ff0002ff00ff000200"},
	{Tuple{vectorUUID, true, vectorUUID, false}, "301100aabbccddeeff1100aabbccddeeff27301100aabbccddeeff1100aabbccddeeff26"},
	{
		Tuple{
			vectorUUID,
			Tuple{int64(0x7767830356aa6b86), int64(0x5ef4e81ede4561ad), int64(0x6688f8bd3e99b0a8), int64(0x5d78399cbed80a3a)},
			nil,
			repeat(4, []byte("namespace")),
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
