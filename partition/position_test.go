package partition

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var drawKey = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 6)

func TestRangePositionsSortLikeKeysWithElementsRightBehindTheirKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Keyspace{ID: drawID(t), Name: "x", Kind: Range}
		a, b := drawKey.Draw(t, "a"), drawKey.Draw(t, "b")
		pa, pb := k.AppendPosition(nil, a), k.AppendPosition(nil, b)
		if got, want := bytes.Compare(pa, pb), bytes.Compare(a, b); got != want {
			t.Fatalf("positions of %x and %x compare %d, want %d", a, b, got, want)
		}
		element := append(slices.Clone(pa), drawKey.Draw(t, "element")...)
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
		want, element := drawKey.Draw(t, "key"), drawKey.Draw(t, "element")
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
		prefix, key := drawKey.Draw(t, "prefix"), drawKey.Draw(t, "key")
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

func TestAWholeKeyIsWhereItsCollectionStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(testKeyspaces).Draw(t, "keyspace")
		row := k.AppendPosition(nil, drawKey.Draw(t, "key"))
		p := append(bytes.Clone(row), drawKey.Draw(t, "element")...)
		got, err := k.WholeKey(p)
		if err != nil || !bytes.Equal(got, row) {
			t.Fatalf("WholeKey(%x) = %x, %v; want %x", p, got, err, row)
		}
	})
}

// Whatever bytes it is made from, a boundary that is accepted has no row of the
// same key on its left, and a whole key cuts nothing.
func TestNoBoundaryCutsACollection(t *testing.T) {
	cuts := 0
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(testKeyspaces).Draw(t, "keyspace")
		p := drawPosition(t, k)
		if rapid.Bool().Draw(t, "any bytes") {
			p = append(k.ID.appendTo(nil), drawNested.Draw(t, "rest")...)
		}
		_, element, err := k.Split(nil, p)
		cut := err == nil && len(element) > 0
		// Bytes behind the last slot are refused before they are read.
		if err := checkBoundary(k, p); cut && err == nil || !cut && errors.Is(err, ErrCut) {
			t.Fatalf("boundary %x: %v, but its element is %x", p, err, element)
		}
		if whole, err := k.WholeKey(p); cut && (err != nil || errors.Is(checkBoundary(k, whole), ErrCut)) {
			t.Fatalf("boundary %x: whole key %x, %v", p, whole, err)
		}
		if cut {
			cuts++
		}
	})
	if !testing.Short() && cuts == 0 { // in few tries there may be none
		t.Error("no boundary was inside a key")
	}
}

func TestWhatIsNotInTheKeyspaceHasNoWholeKey(t *testing.T) {
	for _, p := range []Position{nil, {6}, {1, 3}, {5 + 1, 'a'}, {0xfe, 1}} {
		if got, err := testHash.WholeKey(p); !errors.Is(err, ErrPosition) {
			t.Errorf("WholeKey(%x) = %x, %v", p, got, err)
		}
	}
}

func TestEvenSlotsDifferByAtMostOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Keyspace{ID: 1, Kind: Hash, Slots: rapid.SampledFrom([]int{0, 1, 16, 4096}).Draw(t, "slots")}
		n := rapid.IntRange(1, k.SlotCount()).Draw(t, "n")
		at, err := k.EvenSlots(n)
		if err != nil || len(at) != n-1 {
			t.Fatalf("%d boundaries, %v", len(at), err)
		}
		last := 0
		for i := range n {
			next := k.SlotCount()
			if i < len(at) {
				next = k.SlotAt(at[i])
			}
			if size := next - last; size != k.SlotCount()/n && size != k.SlotCount()/n+1 {
				t.Fatalf("part %d of %d has %d of %d slots", i, n, size, k.SlotCount())
			}
			last = next
		}
	})
}

func TestBadFirstMapsAreRefused(t *testing.T) {
	even := func(k Keyspace, n int) error { _, err := k.EvenSlots(n); return err }
	first := func(groups []Group, k *Keyspace, at ...Position) error {
		_, err := NewMap(groups, k, at...)
		return err
	}
	one := []Group{{}}
	key := func(k *Keyspace, key string) Position { return k.AppendPosition(nil, []byte(key)) }
	for _, test := range []struct {
		err  error
		is   error
		want string
	}{
		{even(testHash, 0), ErrBoundary, "use 1 to 16"},
		{even(testHash, 17), ErrBoundary, "use 1 to 16"},
		{even(testRange, 4), ErrBoundary, "name the keys"},
		{first(nil, nil), ErrUnknownGroup, "at least one"},
		{first([]Group{{Draining: true}}, nil), ErrDraining, ""},
		{first([]Group{{ID: 3}, {ID: 2}}, nil), ErrGroupID, "use group 4 or above"},
		{first([]Group{{ID: maxNumber}}, nil), ErrLimit, "is no id"},
		{first(make([]Group, MaxGroups+1), nil), ErrLimit, "groups already"},
		{first(one, nil, key(&testRange, "a")), ErrBoundary, "say in which"},
		{first(one, &testHash, key(&testRange, "a")), ErrBoundary, `not in keyspace "default"`},
		{first(one, &testHash, []byte{1, 3}), ErrBoundary, "has no slot"},
		{first(one, &testHash, testHash.SlotSpan(17).Start), ErrBoundary, "behind the last slot"},
		{first(one, &testHash, testHash.SlotSpan(0).Start), ErrBoundary, "before the first slot"},
		{first(one, &testRange, key(&testRange, strings.Repeat("a", MaxBoundaryBytes))), ErrLimit, "at most"},
		{first(one, &testRange, nil), ErrBoundary, "starts or ends"},
	} {
		if !errors.Is(test.err, test.is) || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("got %v, want %v with %q", test.err, test.is, test.want)
		}
	}
}

func TestTheLastVersionAndTheLastIDAreNotPassed(t *testing.T) {
	m := must(NewMap([]Group{{}}, nil))
	m.version = maxNumber
	if _, err := m.Apply(AddGroup{}); !errors.Is(err, ErrLimit) {
		t.Errorf("a map behind the last: %v", err)
	}
	m.version, m.nextShard = 1, maxNumber
	if _, err := m.Apply(Split{Shard: 1, At: []Position{{1}}}); !errors.Is(err, ErrLimit) {
		t.Errorf("a shard behind the last: %v", err)
	}
	if _, err := m.Apply(); !errors.Is(err, ErrNoChange) {
		t.Errorf("no edits: %v", err)
	}
}

func TestAStaleEditSaysWhatIsAndWhatWasExpected(t *testing.T) {
	m := must(NewMap([]Group{{}, {}}, nil))
	m = must(m.Apply(Assign{Shard: 1, To: 2}))
	_, err := m.Apply(Assign{Shard: 1, To: 1, Expect: 1})
	var stale *StaleError
	if !errors.As(err, &stale) || *stale != (StaleError{Shard: 1, Have: 2, Want: 1}) {
		t.Errorf("got %v", err)
	}
}

func TestBadKeyspacesAreRefusedWithWhatToChange(t *testing.T) {
	for name, test := range map[string]struct {
		k    Keyspace
		want string // "" for a good one
	}{
		"default":     {Keyspace{Name: "default"}, ""},
		"layout":      {Keyspace{Name: "t", Kind: Range, Layout: "(region, hour(ts)) | id"}, ""},
		"few slots":   {Keyspace{Name: "t", Slots: 64}, ""},
		"no name":     {Keyspace{}, "use 1 to 128"},
		"long name":   {Keyspace{Name: strings.Repeat("n", 129)}, "use 1 to 128"},
		"odd name":    {Keyspace{Name: "a b"}, "printable ASCII"},
		"kind":        {Keyspace{Name: "t", Kind: 7}, "use hash or range"},
		"slots":       {Keyspace{Name: "t", Slots: 3}, "power of two"},
		"many slots":  {Keyspace{Name: "t", Slots: 1 << 15}, "power of two"},
		"range slots": {Keyspace{Name: "t", Kind: Range, Slots: 4}, "no slots"},
		"bad layout":  {Keyspace{Name: "t", Layout: "(("}, "layout"},
	} {
		err := test.k.Validate()
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrKeyspace) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an ErrKeyspace with %q", name, err, test.want)
		}
	}
}
