package partition

import (
	"bytes"
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// The keyspaces of the tests: of both kinds, with ids of one and more bytes.
var (
	testHash      = Keyspace{ID: 1, Name: "default", Kind: Hash, Slots: 16}
	testRange     = Keyspace{ID: 5, Name: "users", Kind: Range}
	testFar       = Keyspace{ID: 300, Name: "far", Kind: Range}
	testKeyspaces = []*Keyspace{&testHash, &testRange, &testFar}
)

// model is a map as one would write it down by hand: spans in a list, searched
// from the front, and rules in the words of their documentation.
type model struct {
	version   Version
	shards    []Shard
	groups    []Group
	nextShard ShardID
	nextGroup GroupID
}

func (m *model) findShard(p Position) Shard {
	for _, s := range m.shards {
		if s.Span.Contains(p) {
			return s
		}
	}
	panic(fmt.Sprintf("a gap at %x", p))
}

func (m *model) shardIndex(id ShardID) int {
	return slices.IndexFunc(m.shards, func(s Shard) bool { return s.ID == id })
}

func (m *model) findGroup(id GroupID) *Group {
	for i := range m.groups {
		if m.groups[i].ID == id {
			return &m.groups[i]
		}
	}
	return nil
}

func (m *model) clone() *model {
	c := *m
	c.shards, c.groups = slices.Clone(m.shards), slices.Clone(m.groups)
	return &c
}

// applySplit returns what Apply should answer, and makes the change if it is nil.
func (m *model) applySplit(e Split) error {
	i := m.shardIndex(e.Shard)
	switch {
	case i < 0:
		return ErrUnknownShard
	case e.Expect != 0 && m.shards[i].Changed != e.Expect:
		return ErrStale
	case len(e.At) == 0:
		return ErrNoChange
	}
	whole := m.shards[i]
	last := whole.Span.Start
	var parts []Shard
	for _, p := range e.At {
		if bytes.Compare(p, last) <= 0 || !whole.Span.Contains(p) {
			return ErrBoundary
		}
		// A boundary is inside a key if the key's own row is left of it and a
		// later element could be right of it.
		if key, element, err := e.In.Split(nil, p); err == nil && len(element) > 0 && bytes.Compare(e.In.KeySpan(key).Start, p) < 0 {
			return ErrCut
		}
		if e.In.Kind == Hash && bytes.Equal(p, e.In.SlotSpan(0).Start) {
			return ErrBoundary
		}
		last = p
		parts = append(parts, whole)
	}
	parts = append(parts, whole)
	for n := range parts {
		parts[n].Changed = m.version
		if n > 0 {
			parts[n].ID, parts[n].Span.Start = m.nextShard, e.At[n-1]
			m.nextShard++
		}
		if n < len(e.At) {
			parts[n].Span.End = e.At[n]
		}
	}
	m.shards = slices.Replace(m.shards, i, i+1, parts...)
	return nil
}

func (m *model) applyMerge(e Merge) error {
	i, j := m.shardIndex(e.Left), m.shardIndex(e.Right)
	switch {
	case i < 0 || j < 0:
		return ErrUnknownShard
	case e.ExpectLeft != 0 && m.shards[i].Changed != e.ExpectLeft, e.ExpectRight != 0 && m.shards[j].Changed != e.ExpectRight:
		return ErrStale
	case i+1 != j:
		return ErrNotNeighbours
	case m.shards[i].Group != m.shards[j].Group || m.shards[i].Pin != m.shards[j].Pin:
		return ErrDifferent
	}
	m.shards[i].Span.End, m.shards[i].Changed = m.shards[j].Span.End, m.version
	m.shards = slices.Delete(m.shards, j, j+1)
	return nil
}

func (m *model) applyMergeSpan(e MergeSpan) error {
	i := slices.IndexFunc(m.shards, func(s Shard) bool { return bytes.Equal(s.Span.Start, e.Span.Start) })
	j := slices.IndexFunc(m.shards, func(s Shard) bool { return bytes.Equal(s.Span.End, e.Span.End) })
	switch {
	case i < 0 || j < i:
		return ErrBoundary
	case i == j:
		return ErrNoChange
	case slices.ContainsFunc(m.shards[i:j+1], func(s Shard) bool { return s.Group != m.shards[i].Group || s.Pin != m.shards[i].Pin }):
		return ErrDifferent
	}
	m.shards[i].Span, m.shards[i].Changed = e.Span, m.version
	m.shards = slices.Delete(m.shards, i+1, j+1)
	return nil
}

func (m *model) applyAssign(e Assign) error {
	i, g := m.shardIndex(e.Shard), m.findGroup(e.To)
	switch {
	case i < 0:
		return ErrUnknownShard
	case e.Expect != 0 && m.shards[i].Changed != e.Expect:
		return ErrStale
	case g == nil:
		return ErrUnknownGroup
	case m.shards[i].Group == e.To:
		return ErrNoChange
	case g.Draining:
		return ErrDraining
	case !m.shards[i].Pin.Allows(g.Labels):
		return ErrPinned
	}
	m.shards[i].Group, m.shards[i].Changed = e.To, m.version
	return nil
}

func (m *model) applyPin(e Pin) error {
	i := m.shardIndex(e.Shard)
	switch {
	case i < 0:
		return ErrUnknownShard
	case e.Expect != 0 && m.shards[i].Changed != e.Expect:
		return ErrStale
	case e.To.text != "" && !slices.ContainsFunc(m.groups, func(g Group) bool { return !g.Draining && e.To.Allows(g.Labels) }):
		return ErrUnplaceable
	case m.shards[i].Pin == e.To:
		return ErrNoChange
	}
	m.shards[i].Pin = e.To
	return nil
}

func (m *model) applyGroupEdit(e Edit) error {
	switch e := e.(type) {
	case AddGroup:
		if e.ID != 0 && e.ID < m.nextGroup {
			return ErrGroupID
		}
		m.nextGroup = max(m.nextGroup, e.ID)
		m.groups = append(m.groups, Group{ID: m.nextGroup, Labels: e.Labels})
		m.nextGroup++
	case SetDraining:
		g := m.findGroup(e.Group)
		switch {
		case g == nil:
			return ErrUnknownGroup
		case g.Draining == e.Draining:
			return ErrNoChange
		}
		g.Draining = e.Draining
	case RemoveGroup:
		switch {
		case m.findGroup(e.Group) == nil:
			return ErrUnknownGroup
		case slices.ContainsFunc(m.shards, func(s Shard) bool { return s.Group == e.Group }):
			return ErrInUse
		}
		m.groups = slices.DeleteFunc(m.groups, func(g Group) bool { return g.ID == e.Group })
	}
	return nil
}

func (m *model) apply(e Edit) error {
	switch e := e.(type) {
	case Split:
		return m.applySplit(e)
	case Merge:
		return m.applyMerge(e)
	case MergeSpan:
		return m.applyMergeSpan(e)
	case Assign:
		return m.applyAssign(e)
	case Pin:
		return m.applyPin(e)
	}
	return m.applyGroupEdit(e)
}

func mustLabels(s string) Labels { return must(ParseLabels(s)) }

func mustConstraint(s string) Constraint { return must(ParseConstraint(s)) }

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
		k := rapid.SampledFrom(testKeyspaces).Draw(t, "keyspace")
		at := make([]Position, rapid.IntRange(0, 4).Draw(t, "boundaries"))
		for i := range at {
			at[i] = drawPosition(t, k)
		}
		id := some("shard")
		if len(at) > 0 {
			slices.SortFunc(at, func(a, b Position) int { return bytes.Compare(a, b) })
			s := m.findShard(at[0])
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
			return MergeSpan{Span{Start: m.shards[i].Span.Start, End: rapid.SampledFrom([]Position{m.shards[j].Span.End, drawPosition(t, testKeyspaces[0])}).Draw(t, "end")}}
		}
		e := Merge{Left: m.shards[i].ID, Right: some("right"), ExpectRight: expect}
		if rapid.Bool().Draw(t, "neighbours") && i+1 < len(m.shards) {
			e.Right = m.shards[i+1].ID
		}
		return e
	case 6:
		return Assign{Shard: some("shard"), To: group, Expect: expect}
	case 7:
		return Pin{Shard: some("shard"), To: mustConstraint(rapid.SampledFrom([]string{"", "zone=eu", "zone=eu|us", "zone!=us", "zone=mars"}).Draw(t, "pin")), Expect: expect}
	case 8:
		return AddGroup{ID: GroupID(rapid.SampledFrom([]GroupID{0, 0, group, m.nextGroup + 2}).Draw(t, "id")), Labels: mustLabels(rapid.SampledFrom([]string{"", "zone=eu", "zone=us,store=2"}).Draw(t, "labels"))}
	}
	if rapid.Bool().Draw(t, "remove") {
		return RemoveGroup{group}
	}
	return SetDraining{group, rapid.Bool().Draw(t, "draining")}
}
