package key

import (
	"bytes"
	"cmp"
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
		tuple := tuples().Draw(t, "tuple")
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
		a := tuples().Draw(t, "a")
		b := tuples().Draw(t, "b")
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
		a := interestingInts().Draw(t, "a")
		b := interestingInts().Draw(t, "b")
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
		prefix := tuples().Draw(t, "prefix")
		other := tuples().Draw(t, "other")
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
		prefix, key := rough().Draw(t, "prefix"), rough().Draw(t, "key")
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
