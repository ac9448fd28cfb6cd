package partition

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var keys = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 6)

func TestRangePositionsSortLikeKeysWithElementsRightBehindTheirKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Keyspace{ID: drawID(t), Name: "x", Kind: Range}
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		pa, pb := k.AppendPosition(nil, a), k.AppendPosition(nil, b)
		if got, want := bytes.Compare(pa, pb), bytes.Compare(a, b); got != want {
			t.Fatalf("positions of %x and %x compare %d, want %d", a, b, got, want)
		}
		element := append(slices.Clone(pa), keys.Draw(t, "element")...)
		if !k.KeySpan(a).Contains(element) {
			t.Fatalf("the span of %x does not hold its element %x", a, element)
		}
		if !bytes.Equal(a, b) && k.KeySpan(b).Contains(element) {
			t.Fatalf("the span of %x holds the element %x of %x", b, element, a)
		}
	})
}

func TestSplitUndoesAppendPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Keyspace{ID: drawID(t), Name: "x", Kind: rapid.SampledFrom([]Kind{Hash, Range}).Draw(t, "kind")}
		want, element := keys.Draw(t, "key"), keys.Draw(t, "element")
		p := append(k.AppendPosition(nil, want), element...)
		key, rest, err := k.Split([]byte("x"), p)
		if err != nil || !bytes.Equal(key, append([]byte("x"), want...)) || !bytes.Equal(rest, element) {
			t.Fatalf("Split(%x) = %x, %x, %v; want x%x, %x", p, key, rest, err, want, element)
		}
		if id, err := IDOf(p); id != k.ID || err != nil {
			t.Fatalf("IDOf(%x) = %d, %v; want %d", p, id, err, k.ID)
		}
		if !k.Span().Contains(p) || k.Kind == Hash && !k.SlotSpan(k.SlotOf(want)).Contains(p) {
			t.Fatalf("%x is outside of its keyspace or slot", p)
		}
	})
}

func TestKeyspacesSortByIDAndDoNotOverlap(t *testing.T) {
	ids := []KeyspaceID{0, 1, idOneByte - 1, idOneByte, 0xff, 0x100, 0xffff, 0x10000, 0xffffff, 0x1000000, math.MaxUint32}
	for i, id := range ids {
		span := (&Keyspace{ID: id, Kind: Range}).Span()
		if i == 0 {
			continue
		}
		before := (&Keyspace{ID: ids[i-1], Kind: Range}).Span()
		if bytes.Compare(before.End, span.Start) > 0 {
			t.Errorf("keyspace %d ends at %x, %d begins at %x", ids[i-1], before.End, id, span.Start)
		}
	}
}

func TestPositionsAreStable(t *testing.T) {
	// These bytes are on disks: they never change.
	for _, test := range []struct {
		k    Keyspace
		key  string
		want string
	}{
		{Keyspace{ID: 1, Kind: Range}, "a\x00b", "\x01a\x00\xffb\x00\x01"},
		{Keyspace{ID: 300, Kind: Range}, "", "\xfd\x01\x2c\x00\x01"},
		{Keyspace{ID: 0, Kind: Hash}, "123456789", "\x00\x31\xc3123456789\x00\x01"},
		{Keyspace{ID: 0, Kind: Hash, Slots: 16}, "123456789", "\x00\x00\x03123456789\x00\x01"},
	} {
		if got := test.k.AppendPosition(nil, []byte(test.key)); string(got) != test.want {
			t.Errorf("position of %q in %+v is %q, want %q", test.key, test.k, got, test.want)
		}
	}
}

func FuzzSplitTakesNoBytesForAPositionThatItWouldNotWrite(f *testing.F) {
	f.Add([]byte("\x01a\x00\xffb\x00\x01element"), false)
	f.Add([]byte("\x01\x31\xc3123456789\x00\x01"), true)
	f.Fuzz(func(t *testing.T, p []byte, hashed bool) {
		k := Keyspace{ID: 1, Kind: Range}
		if hashed {
			k.Kind = Hash
		}
		key, element, err := k.Split(nil, p)
		if err != nil {
			if !errors.Is(err, ErrPosition) {
				t.Fatalf("Split(%x): %v is no ErrPosition", p, err)
			}
			return
		}
		back := append(k.AppendPosition(nil, key), element...)
		if hashed {
			copy(back[1:3], p[1:3]) // Split believes the slot: it is right on any disk that checksums guard
		}
		if !bytes.Equal(back, p) {
			t.Fatalf("Split(%x) = %x, %x, which is %x", p, key, element, back)
		}
	})
}

func drawID(t *rapid.T) KeyspaceID {
	return KeyspaceID(rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32Range(250, 260), rapid.Uint32()).Draw(t, "id"))
}

func TestAPrefixSpanHoldsTheKeysWithThePrefixAndNoOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Keyspace{ID: drawID(t), Name: "x", Kind: Range}
		prefix, key := keys.Draw(t, "prefix"), keys.Draw(t, "key")
		got := k.PrefixSpan(prefix).Contains(k.AppendPosition(nil, key))
		if want := bytes.HasPrefix(key, prefix); got != want {
			t.Fatalf("span of prefix %x holds %x: %v, want %v", prefix, key, got, want)
		}
	})
}

func TestSpansMeetWhereTheyHaveAPositionInCommon(t *testing.T) {
	word := rapid.StringMatching("[ab]{0,3}")
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Span {
			return Span{Position(word.Draw(t, name+" start")), Position(word.Draw(t, name+" end"))}
		}
		a, b := draw("a"), draw("b")
		if a.Empty() || b.Empty() {
			return
		}
		// The later of the two starts is in both, if anything is.
		first := max(string(a.Start), string(b.Start))
		meet := a.Contains(Position(first)) && b.Contains(Position(first))
		if in := a.Intersect(b); a.Overlaps(b) != meet || in.Empty() == meet || !in.Equal(b.Intersect(a)) && meet {
			t.Fatalf("%v and %v: overlap %v, have %v in common; want %v", a, b, a.Overlaps(b), in, meet)
		}
	})
}
