package partition

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
	"pgregory.net/rapid"
)

func TestEveryMapTilesTheSpaceAndIsWhatItsEditsSay(t *testing.T) {
	made, refused := 0, map[error]int{}
	rapid.Check(t, func(t *rapid.T) {
		first := must(First([]Group{{Labels: labels("zone=eu")}, {Labels: labels("zone=us")}}, nil))
		h := &history{m: first, bytes: first.Append(nil), shards: map[ShardID]bool{1: true}, groups: map[GroupID]bool{1: true, 2: true}}
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
	if made < 1000 {
		return // asked for a short run
	}
	for _, err := range []error{ErrUnknownShard, ErrUnknownGroup, ErrStale, ErrBoundary, ErrCut, ErrNotNeighbours, ErrDifferent, ErrDraining, ErrPinned, ErrUnplaceable, ErrGroupID, ErrInUse, ErrNoChange} {
		if refused[err] == 0 {
			t.Errorf("nothing was refused with %q: the edits are too tame", err)
		}
	}
}

// history is one run of edits.
type history struct {
	m     *Map
	model *model
	bytes []byte // of m, to see that it does not change
	// shards and groups are all that ever were.
	shards map[ShardID]bool
	groups map[GroupID]bool
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
		if _, was := h.m.Shard(s.ID); !was && h.shards[s.ID] {
			t.Fatalf("%v is used again", s.ID)
		}
		h.shards[s.ID] = true
	}
	for _, g := range m.Groups() {
		if _, was := h.m.Group(g.ID); !was && h.groups[g.ID] {
			t.Fatalf("%v is used again", g.ID)
		}
		h.groups[g.ID] = true
	}
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
		if got, want := m.GroupOf(p), model.find(p).Group; got != want {
			t.Fatalf("GroupOf(%x) = %v, want %v", p, got, want)
		}
	}
	compareStretches(t, m, model)
	back, err := Decode(m.Append(nil))
	if err != nil || !bytes.Equal(back.Append(nil), m.Append(nil)) {
		t.Fatalf("decode of map %d: %v", m.version, err)
	}
}

// compareStretches checks what groups have of a span.
func compareStretches(t *rapid.T, m *Map, model *model) {
	k := rapid.SampledFrom(testSpaces).Draw(t, "keyspace")
	span := rapid.SampledFrom([]Span{Whole, {Start: drawPosition(t, k), End: k.Span().End}}).Draw(t, "span")
	var want []Stretch
	for _, s := range model.shards {
		if n := len(want) - 1; n >= 0 && want[n].Group == s.Group {
			want[n].Span.End = s.Span.End
		} else {
			want = append(want, Stretch{s.Span, s.Group})
		}
	}
	want = slices.DeleteFunc(want, func(s Stretch) bool { return span.Empty() || !s.Span.Overlaps(span) })
	got := slices.Collect(m.Stretches(span))
	if !slices.EqualFunc(got, want, func(a, b Stretch) bool { return a.Group == b.Group && a.Span.Equal(b.Span) }) {
		t.Fatalf("stretches of %v are\n%v, want\n%v", span, got, want)
	}
}
