package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

var (
	benchHash  = Keyspace{ID: 1, Name: "default", Kind: Hash}
	benchRange = Keyspace{ID: 5, Name: "events", Kind: Range}
)

// keyShapes are ways in which user keys look.
var keyShapes = []struct {
	name string
	key  func(*rand.Rand) []byte
}{
	{"random", func(r *rand.Rand) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
	}},
	{"decimal", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "user:%010d", r.IntN(1e9)) }},
	// Many tenants: words tie below a prefix that not all share.
	{"tenants", func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "tenant/%04d/orders/2026/%08x", r.IntN(100), r.Uint32())
	}},
	// Half of the boundaries within a millionth of the space.
	{"skewed", func(r *rand.Rand) []byte {
		return binary.BigEndian.AppendUint64(nil, r.Uint64()>>r.IntN(40))
	}},
}

// benchMap has n shards at random keys.
func benchMap(tb testing.TB, n int, key func(*rand.Rand) []byte) *Map {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	at := []Position{}
	for len(at) < n-1 {
		for len(at) < n-1 {
			at = append(at, benchRange.AppendPosition(nil, key(r)))
		}
		slices.SortFunc(at, func(a, b Position) int { return bytes.Compare(a, b) })
		at = slices.CompactFunc(at, func(a, b Position) bool { return bytes.Equal(a, b) })
	}
	m, err := NewMap(make([]Group, 8), &benchRange, at...)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// lookupPositions are positions to look up, of other keys than the boundaries.
func lookupPositions(key func(*rand.Rand) []byte) []Position {
	r := rand.New(rand.NewPCG(2, 3))
	ps := make([]Position, 1<<14)
	for i := range ps {
		ps[i] = benchRange.AppendPosition(nil, key(r))
	}
	return ps
}

var sink GroupID

func BenchmarkOwner(b *testing.B) {
	for _, shape := range keyShapes {
		ps := lookupPositions(shape.key)
		for _, n := range []int{10, 1000, 10_000} {
			m := benchMap(b, n, shape.key)
			b.Run(fmt.Sprintf("impl=index/keys=%s/shards=%d", shape.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					sink += m.Owner(ps[i&(len(ps)-1)]).Group
				}
			})
			var starts []Position
			for s := range m.Shards(Whole) {
				starts = append(starts, bytes.Clone(s.Span.Start))
			}
			b.Run(fmt.Sprintf("impl=sort/keys=%s/shards=%d", shape.name, n), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					p := ps[i&(len(ps)-1)]
					at := sort.Search(len(m.shards), func(i int) bool { return bytes.Compare(starts[i], p) > 0 }) - 1
					sink += m.shards[at].Group
				}
			})
		}
	}
}

func BenchmarkSlotOwner(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		at, err := benchHash.EvenSlots(n)
		if err != nil {
			b.Fatal(err)
		}
		m, err := NewMap(make([]Group, 8), &benchHash, at...)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("shards=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for slot := uint32(0); b.Loop(); slot = slot*5 + 4099 { // every slot, in no order
				s, _ := m.SlotOwner(benchHash.ID, uint16(slot&0x3fff))
				sink += s.Group
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	const n = 10_000
	for _, shape := range keyShapes {
		m := benchMap(b, n, shape.key)
		middle := m.shardAt(n / 2)
		split := Split{Shard: middle.ID, In: &benchRange, At: []Position{keyBehind(b, middle)}}
		halves, err := m.Apply(split)
		if err != nil {
			b.Fatal(err)
		}
		for _, edit := range []struct {
			name string
			on   *Map
			Edit
		}{
			{"split", m, split},
			{"merge", halves, Merge{Left: middle.ID, Right: m.NextShard()}},
			{"assign", m, Assign{Shard: middle.ID, To: middle.Group%8 + 1}},
		} {
			b.Run(fmt.Sprintf("edit=%s/keys=%s/shards=%d", edit.name, shape.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := edit.on.Apply(edit.Edit); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// keyBehind returns the position of the key right behind the first of a shard.
func keyBehind(tb testing.TB, s Shard) Position {
	key, _, err := benchRange.Split(nil, s.Span.Start)
	if err != nil {
		tb.Fatal(err)
	}
	return benchRange.AppendPosition(nil, append(key, 0))
}

func BenchmarkEncode(b *testing.B) {
	m := benchMap(b, 10_000, keyShapes[1].key)
	encoded := m.Append(nil)
	b.Run("op=append/shards=10000", func(b *testing.B) {
		b.SetBytes(int64(len(encoded)))
		var dst []byte
		for b.Loop() {
			dst = m.Append(dst[:0])
		}
	})
	b.Run("op=decode/shards=10000", func(b *testing.B) {
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			if _, err := Decode(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}
