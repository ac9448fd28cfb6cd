package key

import (
	"math/big"
	"testing"
)

type loud string // its text must not reach a terminal

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
		{Tuple{Tuple{Tuple{}}, loud("\x1b[2J"), (*big.Int)(nil)}, `((()), !key.loud, !*big.Int)`},
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
