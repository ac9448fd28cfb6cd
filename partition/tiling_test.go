package partition

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// newTiledMap makes a map with shards at any bytes, also such as no keyspace has.
func newTiledMap(starts [][]byte) *Map {
	starts = slices.Clone(starts)
	slices.SortFunc(starts, bytes.Compare)
	starts = slices.CompactFunc(starts, bytes.Equal)
	m := &Map{version: 1, tiling: newTiling(), shards: []shard{{Owner: Owner{Shard: 1, Group: 1}}}, pins: []Constraint{{}}}
	for _, p := range starts {
		if len(p) > 0 {
			m.tiling.addStart(p)
			m.shards = append(m.shards, shard{Owner: Owner{Shard: ShardID(len(m.shards) + 1), Group: 1}})
		}
	}
	m.tiling.makeIndex()
	return m
}

// findByScan finds the shard of p from the front.
func (m *Map) findByScan(p Position) int {
	i := 0
	for i+1 < m.Len() && bytes.Compare(m.tiling.startOf(i+1), p) <= 0 {
		i++
	}
	return i
}

// drawNested are strings with zeros, prefixes of each other and long common parts:
// all that a word of seven bytes could get wrong.
var drawNested = rapid.Custom(func(t *rapid.T) []byte {
	var b []byte
	for range rapid.IntRange(0, 5).Draw(t, "parts") {
		b = append(b, rapid.SampledFrom([]string{"", "\x00", "\x01", "a", "\xff", "\x00\x00\x00", "abcdefg", "abcdefgh", "0123456789abcdef", "\xff\xff\xff\xff\xff\xff\xff\xff"}).Draw(t, "part")...)
	}
	return b
})

func TestLookupAgreesWithASearchFromTheFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		starts := rapid.SliceOfN(drawNested, 0, 60).Draw(t, "starts")
		m := newTiledMap(starts)
		probes := rapid.SliceOfN(drawNested, 1, 30).Draw(t, "probes")
		for _, p := range append(probes, starts...) {
			if got, want := m.tiling.find(p), m.findByScan(p); got != want {
				t.Fatalf("%x is in shard %d, want %d of %x", p, got, want, starts)
			}
		}
	})
}

func TestLookupAgreesWithASearchFromTheFrontAmongManyShards(t *testing.T) {
	for _, shape := range keyShapes {
		m := benchMap(t, 2000, shape.key)
		r := rand.New(rand.NewPCG(4, 5))
		for range 500 {
			p := benchRange.AppendPosition(nil, shape.key(r))
			if got, want := m.tiling.find(p), m.findByScan(p); got != want {
				t.Fatalf("%s: %x is in shard %d, want %d", shape.name, p, got, want)
			}
		}
		for i := range m.Len() {
			if got := m.tiling.find(m.tiling.startOf(i)); got != i {
				t.Fatalf("%s: the start of shard %d is in shard %d", shape.name, i, got)
			}
		}
	}
}

func TestASlotIsWholeUnlessABoundaryIsInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := KeyspaceID(rapid.SampledFrom([]uint32{0, 1, 2, 251, 252, 300}).Draw(t, "id"))
		boundary := rapid.Custom(func(t *rapid.T) []byte {
			b := KeyspaceID(rapid.SampledFrom([]uint32{0, 1, 2, 251, 252, 300}).Draw(t, "boundary id")).appendTo(nil)
			if rapid.Bool().Draw(t, "same keyspace") {
				b = id.appendTo(nil)
			}
			if rapid.IntRange(0, 9).Draw(t, "edge") == 0 {
				return b
			}
			b = binary.BigEndian.AppendUint16(b, uint16(rapid.IntRange(0, 300).Draw(t, "boundary slot")))
			return append(b, drawNested.Draw(t, "key")...)
		})
		m := newTiledMap(rapid.SliceOfN(boundary, 0, 50).Draw(t, "starts"))
		k := Keyspace{ID: id}
		for slot := range uint16(301) {
			span := k.SlotSpan(slot)
			inside := slices.Collect(m.Shards(span))
			owner, whole := m.SlotOwner(id, slot)
			if owner != m.Owner(span.Start) || owner.Shard != inside[0].ID || whole != (len(inside) == 1) {
				t.Fatalf("slot %d of %d is in %v, whole %v; its shards are %v", slot, id, owner, whole, inside)
			}
		}
	})
}

func TestShardsOfASpanAreThoseThatIntersectIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newTiledMap(rapid.SliceOfN(drawNested, 0, 12).Draw(t, "starts"))
		span := Span{drawNested.Draw(t, "start"), drawNested.Draw(t, "end")}
		var want []ShardID
		for s := range m.Shards(Whole) {
			// Two spans intersect if one has the start of the other.
			if !span.Empty() && (s.Span.Contains(span.Start) || span.Contains(s.Span.Start)) {
				want = append(want, s.ID)
			}
		}
		var got, back []ShardID
		for s := range m.Shards(span) {
			got = append(got, s.ID)
		}
		for s := range m.Backward(span) {
			back = append(back, s.ID)
		}
		slices.Reverse(back)
		if !slices.Equal(got, want) || !slices.Equal(back, want) {
			t.Fatalf("%v has %v, backwards %v, want %v", span, got, back, want)
		}
		for s := range m.Shards(span) {
			if s.ID != want[0] {
				t.Fatalf("began at %v, want %v", s.ID, want[0])
			}
			break // a reader may stop early
		}
	})
}

func TestLookupsDoNotAllocate(t *testing.T) {
	m := benchMap(t, 1000, keyShapes[2].key)
	p := lookupPositions(keyShapes[2].key)[0]
	span := Span{Start: p, End: benchRange.Span().End}
	for name, f := range map[string]func(){
		"Owner":     func() { sink += m.Owner(p).Group },
		"GroupOf":   func() { sink += m.GroupOf(p) },
		"Find":      func() { sink += m.Find(p).Group },
		"SlotOwner": func() { o, _ := m.SlotOwner(1, 77); sink += o.Group },
		"far slot":  func() { o, _ := m.SlotOwner(300, 77); sink += o.Group },
		"Shards": func() {
			for s := range m.Shards(span) {
				sink += s.Group
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// FuzzFind takes boundaries and a position from bytes: a length, then as many.
func FuzzFind(f *testing.F) {
	f.Add([]byte("\x01a\x02ab\x08abcdefgh\x09abcdefgh\x00"), []byte("abcdefgh"))
	f.Add([]byte("\x01\x00\x02\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b, p []byte) {
		var starts [][]byte
		for len(b) > 0 && len(starts) < 1000 {
			n := min(int(b[0]), len(b)-1)
			starts, b = append(starts, b[1:1+n]), b[1+n:]
		}
		m := newTiledMap(starts)
		if got, want := m.tiling.find(p), m.findByScan(p); got != want {
			t.Fatalf("%x is in shard %d, want %d of %x", p, got, want, starts)
		}
		slot := binary.BigEndian.AppendUint16([]byte{7}, uint16(len(p)))
		if i, whole := m.tiling.findSlot(7, uint16(len(p))); i != m.findByScan(slot) || whole != (i+1 == m.Len() || !bytes.HasPrefix(m.tiling.startOf(i+1), slot)) {
			t.Fatalf("slot %x is in shard %d, whole %v, of %x", slot, i, whole, starts)
		}
	})
}
