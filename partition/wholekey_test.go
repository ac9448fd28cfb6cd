package partition

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAWholeKeyIsWhereItsCollectionStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(testSpaces).Draw(t, "keyspace")
		row := k.AppendPosition(nil, keys.Draw(t, "key"))
		p := append(bytes.Clone(row), keys.Draw(t, "element")...)
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
		k := rapid.SampledFrom(testSpaces).Draw(t, "keyspace")
		p := drawPosition(t, k)
		if rapid.Bool().Draw(t, "any bytes") {
			p = append(k.ID.append(nil), nested.Draw(t, "rest")...)
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
	first := func(groups []Group, k *Keyspace, at ...Position) error { _, err := First(groups, k, at...); return err }
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
		{first([]Group{{ID: 3}, {ID: 2}}, nil), ErrGroupID, "use g4 or above"},
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
	m := must(First([]Group{{}}, nil))
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
	m := must(First([]Group{{}, {}}, nil))
	m = must(m.Apply(Assign{Shard: 1, To: 2}))
	_, err := m.Apply(Assign{Shard: 1, To: 1, Expect: 1})
	var stale *StaleError
	if !errors.As(err, &stale) || *stale != (StaleError{Shard: 1, Have: 2, Want: 1}) {
		t.Errorf("got %v", err)
	}
}
