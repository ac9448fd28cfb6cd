package key

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func mustEncode(t interface{ Fatalf(string, ...any) }, tuple Tuple) []byte {
	b, err := Encode(tuple)
	if err != nil {
		t.Fatalf("Encode(%v): %v", tuple, err)
	}
	return b
}

func TestDecodingGivesBackWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tuple := drawTuple().Draw(t, "tuple")
		b := mustEncode(t, tuple)
		back, err := Decode(b)
		if err != nil {
			t.Fatalf("Decode(%x): %v", b, err)
		}
		// Compare tells floats apart by every bit, which DeepEqual does not.
		if Compare(tuple, back) != 0 {
			t.Fatalf("%v came back as %v", tuple, back)
		}
	})
}

func TestBytesSortAsTuplesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawTuple().Draw(t, "a")
		b := drawTuple().Draw(t, "b")
		if rapid.Bool().Draw(t, "related") {
			// Unrelated tuples differ at once; these share a beginning.
			b = append(slices.Clone(a[:rapid.IntRange(0, len(a)).Draw(t, "shared")]), b...)
		}
		got, want := bytes.Compare(mustEncode(t, a), mustEncode(t, b)), Compare(a, b)
		if got != want || Compare(b, a) != -want {
			t.Fatalf("%v and %v: bytes compare %d, tuples %d and %d", a, b, got, want, Compare(b, a))
		}
	})
}

func TestIntegersSortByValueWhateverTheirType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawEdgeInteger().Draw(t, "a")
		b := drawEdgeInteger().Draw(t, "b")
		want := toBig(a).Cmp(toBig(b))
		if got := Compare(Tuple{a}, Tuple{b}); got != want {
			t.Fatalf("Compare(%v, %v) = %d, want %d", a, b, got, want)
		}
		if got := bytes.Compare(mustEncode(t, Tuple{a}), mustEncode(t, Tuple{b})); got != want {
			t.Fatalf("encodings of %v and %v compare %d, want %d", a, b, got, want)
		}
		if !bytes.Equal(mustEncode(t, Tuple{a}), mustEncode(t, Tuple{toBig(a)})) {
			t.Fatalf("%v and the big.Int of the same value are two keys", a)
		}
	})
}

// The order of the list is that of the specification.
func TestFloatsSortInTheirTotalOrder(t *testing.T) {
	negative := func(f float64) float64 { return math.Copysign(f, -1) }
	order := []float64{negative(math.NaN()), math.Inf(-1), -2, -1.5, -1, negative(0), 0, 1, 1.5, 2, math.Inf(1), math.NaN()}
	for i, x := range order {
		for j, y := range order {
			for _, pair := range [][2]Tuple{{{x}, {y}}, {{float32(x)}, {float32(y)}}} {
				want := cmp.Compare(i, j)
				if got := Compare(pair[0], pair[1]); got != want {
					t.Errorf("Compare(%v, %v) = %d, want %d", pair[0], pair[1], got, want)
				}
				if got := bytes.Compare(mustEncode(t, pair[0]), mustEncode(t, pair[1])); got != want {
					t.Errorf("encodings of %v and %v compare %d, want %d", pair[0], pair[1], got, want)
				}
			}
		}
	}
}

func toBig(v any) *big.Int {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v)
	case uint64:
		return new(big.Int).SetUint64(v)
	default:
		return v.(*big.Int)
	}
}

func TestVersionstampsSortByTransactionThenUser(t *testing.T) {
	ordered := []Tuple{
		{Versionstamp80{9: 1}}, {Versionstamp80{9: 2}}, {Versionstamp80{0: 1}},
		{Versionstamp{Versionstamp80{9: 1}, 0}}, {Versionstamp{Versionstamp80{9: 1}, 0xff}}, {Versionstamp{Versionstamp80{9: 1}, 0x100}},
		{Versionstamp{Versionstamp80{0: 1}, 0}},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			want := cmp.Compare(i, j)
			if got, raw := Compare(a, b), bytes.Compare(mustEncode(t, a), mustEncode(t, b)); got != want || raw != want {
				t.Errorf("%v and %v: compared %d, encoded %d, want %d", a, b, got, raw, want)
			}
		}
	}
}

func TestEveryIntegerTypeIsTheSameKey(t *testing.T) {
	want := mustEncode(t, Tuple{int64(7)})
	for _, v := range []any{7, int8(7), int16(7), int32(7), uint(7), uint8(7), uint16(7), uint32(7), uint64(7), big.NewInt(7)} {
		if got := mustEncode(t, Tuple{v}); !bytes.Equal(got, want) {
			t.Errorf("%T: %x, want %x", v, got, want)
		}
		if Compare(Tuple{v}, Tuple{int64(7)}) != 0 {
			t.Errorf("%T(7) does not compare equal to int64(7)", v)
		}
	}
	for _, v := range []any{-7, int8(-7), int16(-7), int32(-7)} {
		if got := mustEncode(t, Tuple{v}); !bytes.Equal(got, mustEncode(t, Tuple{int64(-7)})) {
			t.Errorf("%T: %x", v, got)
		}
	}
}

func TestRangesHoldExactlyWhatTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := drawTuple().Draw(t, "prefix")
		other := drawTuple().Draw(t, "other")
		if rapid.Bool().Draw(t, "child") {
			other = append(slices.Clone(prefix), other...)
		}
		r, err := TupleRange(prefix)
		if err != nil {
			t.Fatal(err)
		}
		child := len(other) > len(prefix) && Compare(other[:len(prefix)], prefix) == 0
		if got := r.Contains(mustEncode(t, other)); got != child {
			t.Fatalf("range of %v contains %v: %v", prefix, other, got)
		}
	})
}

func TestPrefixRangesHoldExactlyTheBytesWithThePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, key := drawRoughBytes().Draw(t, "prefix"), drawRoughBytes().Draw(t, "key")
		if rapid.Bool().Draw(t, "child") {
			key = append(slices.Clone(prefix), key...)
		}
		r := PrefixRange(prefix)
		if got, want := r.Contains(key), bytes.HasPrefix(key, prefix); got != want {
			t.Fatalf("%v contains %q: %v", r, key, got)
		}
		if r.Empty() {
			t.Fatalf("%v is empty", r)
		}
	})
}

// A prefix of zeros and 0xff bytes has its end where carrying would go wrong.
func TestPrefixEndCarries(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"a", "b"}, {"a\xff", "b"}, {"\xff\xff", ""}, {"\x00", "\x01"}, {"a\xffb", "a\xffc"},
	} {
		in := []byte(c.in)
		if got := prefixEnd(in); cmp.Compare(string(got), c.want) != 0 || string(in) != c.in {
			t.Errorf("prefixEnd(%q) = %q, want %q; input now %q", c.in, got, c.want, in)
		}
	}
}

// drawEdgeInteger crowd around the ends of every encoded width, where an
// off-by-one would hide from uniform numbers.
func drawEdgeInteger() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		width := rapid.IntRange(0, 255).Draw(t, "bytes")
		i := new(big.Int).Lsh(big.NewInt(1), uint(8*width))
		i.Add(i, big.NewInt(rapid.Int64Range(-2, 2).Draw(t, "delta")))
		if i.BitLen() > 8*maxIntBytes {
			i.Rsh(i, 8)
		}
		if rapid.Bool().Draw(t, "negative") {
			i.Neg(i)
		}
		return narrowInteger(i)
	})
}

// narrowInteger returns i in the type that decoding would give it.
func narrowInteger(i *big.Int) any {
	switch {
	case i.IsInt64():
		return i.Int64()
	case i.IsUint64():
		return i.Uint64()
	default:
		return i
	}
}

// drawRoughBytes draws bytes that are mostly the ones escaping and terminating turn on.
func drawRoughBytes() *rapid.Generator[[]byte] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 0xff, 0xff, 1, 2, 5, 0x14, 'a'}), 0, 6),
		func(b []byte) []byte { return append([]byte{}, b...) })
}

func toAny[T any](v T) any { return v }

// drawScalar draws any element but a tuple, in the types that decoding gives.
func drawScalar() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(drawRoughBytes(), toAny[[]byte]),
		rapid.Map(drawRoughBytes(), func(b []byte) any { return string(b) }),
		rapid.Map(rapid.String(), toAny[string]),
		drawEdgeInteger(),
		rapid.Map(rapid.Int64(), toAny[int64]),
		rapid.Map(rapid.Uint32(), func(u uint32) any { return math.Float32frombits(u) }),
		rapid.Map(rapid.Uint64(), func(u uint64) any { return math.Float64frombits(u) }),
		rapid.SampledFrom([]any{0.0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), float32(0)}),
		rapid.Map(rapid.Bool(), toAny[bool]),
		rapid.Map(rapid.Byte(), func(b byte) any { return UUID{0: b, 15: ^b} }),
		rapid.Map(rapid.Byte(), func(b byte) any { return Versionstamp80{9: b} }),
		rapid.Map(rapid.Uint16(), func(u uint16) any { return Versionstamp{Versionstamp80{0: byte(u)}, u} }),
	)
}

// drawTuple draws tuples up to three levels deep.
func drawTuple() *rapid.Generator[Tuple] { return drawTupleOfDepth(3) }

func drawTupleOfDepth(depth int) *rapid.Generator[Tuple] {
	elements := drawScalar()
	if depth > 0 {
		elements = rapid.OneOf(elements, elements, rapid.Map(rapid.Deferred(func() *rapid.Generator[Tuple] {
			return drawTupleOfDepth(depth - 1)
		}), toAny[Tuple]))
	}
	return rapid.Map(rapid.SliceOfN(elements, 0, 4), func(v []any) Tuple { return append(Tuple{}, v...) })
}

// FuzzDecode checks on any bytes that decoding ends, that what is accepted has
// no second form, and that the Reader and Decode agree.
func FuzzDecode(f *testing.F) {
	for _, v := range append(append(specVectors, bindingVectors...), edgeVectors...) {
		b, err := hex.DecodeString(v.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte{codeNested}, 100))
	f.Add([]byte{codePosBig, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		tuple, err := Decode(b)
		walked, walkErr := decodeByHand(NewReader(b))
		if (err == nil) != (walkErr == nil) || err != nil && err.Error() != walkErr.Error() {
			t.Fatalf("Decode says %v, Reader says %v", err, walkErr)
		}
		if err != nil {
			var at *DecodeError
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(b) {
				t.Fatalf("error %v of %d bytes", err, len(b))
			}
			return
		}
		if again := mustEncode(t, tuple); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %v, which encodes to %x", b, tuple, again)
		}
		if Compare(tuple, walked) != 0 {
			t.Fatalf("Decode gives %v, Reader %v", tuple, walked)
		}
	})
}

// decodeByHand decodes by hand, through nested readers and typed methods.
func decodeByHand(r Reader) (Tuple, error) {
	t := Tuple{}
	for r.Next() {
		e := r.Element()
		if inner, ok := e.Tuple(); ok {
			v, err := decodeByHand(inner)
			if err != nil {
				return nil, err
			}
			t = append(t, v)
			continue
		}
		if b, ok := e.AppendPayload(nil); ok && e.Kind() == KindBytes {
			t = append(t, append([]byte{}, b...))
			continue
		}
		if b, ok := e.Bytes(); ok {
			t = append(t, string(b))
			continue
		}
		if i, ok := e.BigInt(); ok {
			t = append(t, i)
			continue
		}
		t = append(t, e.Value())
	}
	return t, r.Err()
}
