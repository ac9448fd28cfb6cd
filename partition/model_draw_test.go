package partition

import (
	"bytes"
	"slices"

	"pgregory.net/rapid"
)

func labels(s string) Labels { return must(ParseLabels(s)) }

func constraint(s string) Constraint { return must(ParseConstraint(s)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var smallKeys = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0xff}), 0, 10)

// drawPosition returns a position of any keyspace: a key, an element of it, or
// the edge of a slot, a prefix or a keyspace.
func drawPosition(t *rapid.T, k *Keyspace) Position {
	key := smallKeys.Draw(t, "key")
	p := k.AppendPosition(nil, key)
	switch rapid.IntRange(0, 6).Draw(t, "shape") {
	case 0:
		return append(p, smallKeys.Draw(t, "element")...)
	case 1:
		return k.KeySpan(key).End
	case 2:
		return k.Span().End
	case 3:
		if k.Kind == Hash {
			return k.SlotSpan(uint16(rapid.IntRange(0, k.Slots-1).Draw(t, "slot"))).Start
		}
		return k.PrefixSpan(key).Start
	}
	return p
}

// drawEdit returns an edit that has a fair chance to be right.
func drawEdit(t *rapid.T, m *model) Edit {
	some := func(what string) ShardID {
		return ShardID(rapid.OneOf(
			rapid.Map(rapid.IntRange(0, len(m.shards)-1), func(i int) uint64 { return uint64(m.shards[i].ID) }),
			rapid.Map(rapid.IntRange(0, len(m.shards)-1), func(i int) uint64 { return uint64(m.shards[i].ID) }),
			rapid.Uint64Range(0, uint64(m.nextShard))).Draw(t, what))
	}
	group := m.groups[rapid.IntRange(0, len(m.groups)-1).Draw(t, "group")].ID
	if rapid.IntRange(0, 4).Draw(t, "any group") == 4 {
		group = GroupID(rapid.Uint64Range(0, uint64(m.nextGroup)).Draw(t, "group id"))
	}
	expect := Version(0)
	if rapid.IntRange(0, 4).Draw(t, "expects") == 4 {
		expect = Version(rapid.Uint64Range(0, uint64(m.version)).Draw(t, "expect"))
	}
	switch rapid.IntRange(0, 9).Draw(t, "edit") {
	case 0, 1, 2, 3:
		k := rapid.SampledFrom(testSpaces).Draw(t, "keyspace")
		at := make([]Position, rapid.IntRange(0, 4).Draw(t, "boundaries"))
		for i := range at {
			at[i] = drawPosition(t, k)
		}
		id := some("shard")
		if len(at) > 0 {
			slices.SortFunc(at, func(a, b Position) int { return bytes.Compare(a, b) })
			s := m.find(at[0])
			id = s.ID
			if rapid.IntRange(0, 3).Draw(t, "outside") > 0 {
				at = slices.DeleteFunc(at, func(p Position) bool { return !s.Span.Contains(p) || bytes.Equal(p, s.Span.Start) })
				at = slices.CompactFunc(at, func(a, b Position) bool { return bytes.Equal(a, b) })
			}
		}
		return Split{Shard: id, In: k, At: at, Expect: expect}
	case 4, 5:
		i := rapid.IntRange(0, len(m.shards)-1).Draw(t, "left")
		if rapid.IntRange(0, 3).Draw(t, "all of a span") == 0 {
			j := rapid.IntRange(0, len(m.shards)-1).Draw(t, "last")
			return MergeSpan{Span{Start: m.shards[i].Span.Start, End: rapid.SampledFrom([]Position{m.shards[j].Span.End, drawPosition(t, testSpaces[0])}).Draw(t, "end")}}
		}
		e := Merge{Left: m.shards[i].ID, Right: some("right"), ExpectRight: expect}
		if rapid.Bool().Draw(t, "neighbours") && i+1 < len(m.shards) {
			e.Right = m.shards[i+1].ID
		}
		return e
	case 6:
		return Assign{Shard: some("shard"), To: group, Expect: expect}
	case 7:
		return Pin{Shard: some("shard"), To: constraint(rapid.SampledFrom([]string{"", "zone=eu", "zone=eu|us", "zone!=us", "zone=mars"}).Draw(t, "pin")), Expect: expect}
	case 8:
		return AddGroup{ID: GroupID(rapid.SampledFrom([]GroupID{0, 0, group, m.nextGroup + 2}).Draw(t, "id")), Labels: labels(rapid.SampledFrom([]string{"", "zone=eu", "zone=us,store=2"}).Draw(t, "labels"))}
	}
	if rapid.Bool().Draw(t, "remove") {
		return RemoveGroup{group}
	}
	return SetDraining{group, rapid.Bool().Draw(t, "draining")}
}
