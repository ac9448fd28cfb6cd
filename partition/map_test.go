package partition

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func TestEveryMapTilesTheSpaceAndIsWhatItsEditsSay(t *testing.T) {
	made, refused := 0, map[error]int{}
	rapid.Check(t, func(t *rapid.T) {
		first := must(NewMap([]Group{{Labels: mustLabels("zone=eu")}, {Labels: mustLabels("zone=us")}}, nil))
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
				h.checkUnchanged(t)
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

func (h *history) checkUnchanged(t *rapid.T) {
	if !bytes.Equal(h.m.Append(nil), h.bytes) {
		t.Fatalf("map %d changed under its readers", h.m.version)
	}
}

// advance compares the next map with the model, and keeps both.
func (h *history) advance(t *rapid.T, m *Map, model *model) {
	h.checkUnchanged(t)
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
	if err := m.checkInvariants(); err != nil {
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
		p := drawPosition(t, rapid.SampledFrom(testKeyspaces).Draw(t, "keyspace"))
		if got, want := m.Find(p), model.findShard(p); !same(got, want) {
			t.Fatalf("Find(%x) = %v, want %v", p, got, want)
		}
		if got, want := m.GroupOf(p), model.findShard(p).Group; got != want {
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
	k := rapid.SampledFrom(testKeyspaces).Draw(t, "keyspace")
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

func TestTheHighestVersionWinsWhateverTheOrder(t *testing.T) {
	var p Published
	if p.Load() != nil || p.Offer(nil) {
		t.Error("no map is published")
	}
	highest := Version(0)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(100) {
		m := &Map{version: Version(i + 1)}
		if won := p.Offer(m); won != (m.version > highest) {
			t.Errorf("version %d over %d: %v", m.version, highest, won)
		}
		highest = max(highest, m.version)
		if p.Load().Version() != highest || p.Offer(&Map{version: highest}) {
			t.Errorf("version %d is published, want %d once", p.Load().Version(), highest)
		}
	}
}

// Two run a race for the next version. Each looks at what is published all the
// time: if a slower one ever overwrote a faster one, the version would fall.
func TestThePublishedVersionNeverFalls(t *testing.T) {
	const rounds, versions = 20, 4000
	for range rounds {
		var p Published
		var racing sync.WaitGroup
		var ready atomic.Int32
		for racer := range Version(2) {
			racing.Go(func() {
				for ready.Add(1); ready.Load() < 2; { // both at once, or they hardly meet
				}
				seen := Version(0)
				for v := racer + 1; v <= versions; v += 2 {
					m := &Map{version: v}
					p.Offer(m)
					for range 3 {
						now := p.Load().Version()
						if now < v || now < seen {
							t.Errorf("version %d is published after %d was offered and %d seen", now, v, seen)
							return
						}
						seen = now
					}
				}
			})
		}
		racing.Wait()
		if t.Failed() {
			return
		}
	}
}

// drawOwners gives the shards of a tiling to a few groups.
func drawOwners(t *rapid.T, what string) *Map {
	m := newTiledMap(rapid.SliceOfN(drawNested, 0, 10).Draw(t, what))
	for i := range m.shards {
		m.shards[i].Group = GroupID(rapid.IntRange(1, 3).Draw(t, "owner"))
	}
	return m
}

// listMovedByPieces cuts the space at every boundary of both maps and lists what moved.
func listMovedByPieces(from, to *Map) (all []Moved) {
	var at []Position
	for _, m := range []*Map{from, to} {
		for s := range m.Shards(Whole) {
			at = append(at, s.Span.Start)
		}
	}
	slices.SortFunc(at, func(a, b Position) int { return bytes.Compare(a, b) })
	at = slices.CompactFunc(at, func(a, b Position) bool { return bytes.Equal(a, b) })
	for i, p := range at {
		m := Moved{Span{Start: p}, from.Owner(p).Group, to.Owner(p).Group}
		if i+1 < len(at) {
			m.Span.End = at[i+1]
		}
		if m.From != m.To {
			all = append(all, m)
		}
	}
	return all
}

func TestADifferenceHasEverySpanThatMovedAndJoinsThoseThatTouch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawOwners(t, "from"), drawOwners(t, "to")
		var want []string
		list := listMovedByPieces(from, to)
		for i := 0; i < len(list); i++ {
			m := list[i]
			for i+1 < len(list) && bytes.Equal(list[i+1].Span.Start, m.Span.End) && list[i+1].From == m.From && list[i+1].To == m.To {
				i++
				m.Span.End = list[i].Span.End
			}
			want = append(want, fmt.Sprint(m))
		}
		var got []string
		for _, m := range Diff(from, to).Moved {
			got = append(got, fmt.Sprint(m))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("moved\n%v, want\n%v", got, want)
		}
	})
}

func TestMap_IndexAndOwnerAt_AgreeWithOwner(t *testing.T) {
	k := Keyspace{ID: 1, Kind: Hash}
	at, err := k.EvenSlots(40)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMap([]Group{{ID: 1}, {ID: 2}, {ID: 3}}, &k, at...)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for slot := range 16384 {
		p := k.SlotSpan(uint16(slot)).Start
		i := m.Index(p)
		if got, want := m.OwnerAt(i), m.Owner(p); got != want {
			t.Fatalf("slot %d: shard %d of the map is of %+v, want %+v", slot, i, got, want)
		}
		if i < last {
			t.Fatalf("slot %d: index %d comes behind %d", slot, i, last)
		}
		last = i
	}
	if last != m.Len()-1 {
		t.Fatalf("the last slot is in shard %d of %d", last, m.Len())
	}
}
