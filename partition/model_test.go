package partition

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
	"pgregory.net/rapid"
)

// The keyspaces of the tests: of both kinds, with ids of one and more bytes.
var (
	testHash   = Keyspace{ID: 1, Name: "default", Kind: Hash, Slots: 16}
	testRange  = Keyspace{ID: 5, Name: "users", Kind: Range}
	testFar    = Keyspace{ID: 300, Name: "far", Kind: Range}
	testSpaces = []*Keyspace{&testHash, &testRange, &testFar}
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

func (m *model) find(p Position) Shard {
	for _, s := range m.shards {
		if s.Span.Contains(p) {
			return s
		}
	}
	panic(fmt.Sprintf("a gap at %x", p))
}

func (m *model) index(id ShardID) int {
	return slices.IndexFunc(m.shards, func(s Shard) bool { return s.ID == id })
}

func (m *model) group(id GroupID) *Group {
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

// split returns what Apply should answer, and makes the change if it is nil.
func (m *model) split(e Split) error {
	i := m.index(e.Shard)
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

func (m *model) merge(e Merge) error {
	i, j := m.index(e.Left), m.index(e.Right)
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

func (m *model) assign(e Assign) error {
	i, g := m.index(e.Shard), m.group(e.To)
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

func (m *model) pin(e Pin) error {
	i := m.index(e.Shard)
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

func (m *model) changeGroup(e Edit) error {
	switch e := e.(type) {
	case AddGroup:
		if e.ID != 0 && e.ID < m.nextGroup {
			return ErrGroupID
		}
		m.nextGroup = max(m.nextGroup, e.ID)
		m.groups = append(m.groups, Group{ID: m.nextGroup, Labels: e.Labels})
		m.nextGroup++
	case SetDraining:
		g := m.group(e.Group)
		switch {
		case g == nil:
			return ErrUnknownGroup
		case g.Draining == e.Draining:
			return ErrNoChange
		}
		g.Draining = e.Draining
	case RemoveGroup:
		switch {
		case m.group(e.Group) == nil:
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
		return m.split(e)
	case Merge:
		return m.merge(e)
	case Assign:
		return m.assign(e)
	case Pin:
		return m.pin(e)
	}
	return m.changeGroup(e)
}

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

func TestEveryMapTilesTheSpaceAndIsWhatItsEditsSay(t *testing.T) {
	made, refused := 0, map[error]int{}
	rapid.Check(t, func(t *rapid.T) {
		first := must(First([]Group{{Labels: labels("zone=eu")}, {Labels: labels("zone=us")}}, nil))
		h := &history{m: first, bytes: first.Append(nil), born: map[ShardID]Version{1: 1}}
		h.model = &model{version: 1, shards: []Shard{{ID: 1, Group: 1, Changed: 1}}, groups: first.Groups(), nextShard: 2, nextGroup: 3}
		for range 100 {
			next := h.model.clone()
			next.version++
			var edits []Edit
			var want error
			for range rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "edits") {
				e := drawEdit(t, next)
				edits = append(edits, e)
				if want = next.apply(e); want != nil {
					break
				}
			}
			got, err := h.m.Apply(edits...)
			if !errors.Is(err, want) {
				t.Fatalf("%v: got %v, want %v", edits, err, want)
			}
			if want != nil {
				refused[want]++
				h.unchanged(t)
				continue
			}
			made++
			h.advance(t, got, next)
		}
	})
	tally.Add(t, "maps made", made)
	for _, err := range []error{ErrUnknownShard, ErrUnknownGroup, ErrStale, ErrBoundary, ErrCut, ErrNotNeighbours, ErrDifferent, ErrDraining, ErrPinned, ErrUnplaceable, ErrGroupID, ErrInUse, ErrNoChange} {
		if refused[err] == 0 && !testing.Short() {
			t.Errorf("nothing was refused with %q: the edits are too tame", err)
		}
	}
}

// history is one run of edits.
type history struct {
	m     *Map
	model *model
	bytes []byte              // of m, to see that it does not change
	born  map[ShardID]Version // of all shards that ever were
}

func (h *history) unchanged(t *rapid.T) {
	if !bytes.Equal(h.m.Append(nil), h.bytes) {
		t.Fatalf("map %d changed under its readers", h.m.version)
	}
}

// advance compares the next map with the model, and keeps both.
func (h *history) advance(t *rapid.T, m *Map, model *model) {
	h.unchanged(t)
	if m.version != h.m.version+1 {
		t.Fatalf("version %d behind %d", m.version, h.m.version)
	}
	compareWithModel(t, m, model)
	for s := range m.Shards(Whole) {
		if _, was := h.m.Shard(s.ID); !was {
			if v, used := h.born[s.ID]; used {
				t.Fatalf("%v of version %d is used again", s.ID, v)
			}
			h.born[s.ID] = m.version
		}
	}
	compareDiff(t, h.m, m)
	h.m, h.model, h.bytes = m, model, m.Append(nil)
}

func compareWithModel(t *rapid.T, m *Map, model *model) {
	if err := m.check(); err != nil {
		t.Fatalf("map %d: %v", m.version, err)
	}
	same := func(a, b Shard) bool {
		return a.ID == b.ID && a.Group == b.Group && a.Changed == b.Changed && a.Pin == b.Pin &&
			bytes.Equal(a.Span.Start, b.Span.Start) && bytes.Equal(a.Span.End, b.Span.End)
	}
	if got := slices.Collect(m.Shards(Whole)); !slices.EqualFunc(got, model.shards, same) {
		t.Fatalf("shards are\n%v, want\n%v", got, model.shards)
	}
	if !slices.Equal(m.Groups(), model.groups) {
		t.Fatalf("groups are %v, want %v", m.Groups(), model.groups)
	}
	for range 3 {
		p := drawPosition(t, rapid.SampledFrom(testSpaces).Draw(t, "keyspace"))
		if got, want := m.Find(p), model.find(p); !same(got, want) {
			t.Fatalf("Find(%x) = %v, want %v", p, got, want)
		}
	}
	back, err := Decode(m.Append(nil))
	if err != nil || !bytes.Equal(back.Append(nil), m.Append(nil)) {
		t.Fatalf("decode of map %d: %v", m.version, err)
	}
}

// compareDiff asks both maps at every boundary of either.
func compareDiff(t *rapid.T, from, to *Map) {
	d := Diff(from, to)
	for _, m := range []*Map{from, to} {
		for s := range m.Shards(Whole) {
			p := s.Span.Start
			i := slices.IndexFunc(d.Moved, func(m Moved) bool { return m.Span.Contains(p) })
			a, b := from.Find(p).Group, to.Find(p).Group
			if a != b && (i < 0 || d.Moved[i].From != a || d.Moved[i].To != b) || a == b && i >= 0 {
				t.Fatalf("%x went from %v to %v, the difference is\n%v", p, a, b, d)
			}
		}
	}
}
