package drive

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

func TestASpanIsCutWhereItsOwnersChange(t *testing.T) {
	w := newSmall(t)
	m := space.PrefixSpan([]byte("m")).Start
	cut, err := w.m.Apply(partition.Split{Shard: w.m.Find(at("a")).ID, In: &space, At: []partition.Position{at("c"), at("e")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		span partition.Span
		want string
	}{
		{partition.Span{Start: at("a"), End: at("b")}, fmt.Sprint([]Piece{{2, partition.Span{Start: at("a"), End: at("b")}}})},
		{partition.Span{Start: at("a"), End: at("z")}, fmt.Sprint([]Piece{{2, partition.Span{Start: at("a"), End: m}}, {3, partition.Span{Start: m, End: at("z")}}})},
		{partition.Span{Start: at("a"), End: m}, fmt.Sprint([]Piece{{2, partition.Span{Start: at("a"), End: m}}})},
		{partition.Span{Start: at("z")}, fmt.Sprint([]Piece{{3, partition.Span{Start: at("z")}}})},
	} {
		for _, m := range []*partition.Map{w.m, cut} {
			if got := fmt.Sprint(Pieces(m, test.span)); got != test.want {
				t.Errorf("%v is cut in %s, want %s", test.span, got, test.want)
			}
		}
	}
}

// Each shard is a part, but those that a range was read across are one.
func TestPartsAreShardsUnlessARangeJoinsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		var ranges []command.RangeRead
		for range rapid.IntRange(0, 4).Draw(t, "ranges") {
			ends := []partition.Position{drawPosition(t), drawPosition(t)}
			slices.SortFunc(ends, func(a, b partition.Position) int { return bytes.Compare(a, b) })
			for _, p := range Pieces(m, partition.Span{Start: ends[0], End: command.After(ends[1])}) {
				ranges = append(ranges, command.RangeRead{Start: p.Span.Start, End: p.Span.End})
			}
		}
		parts := NewParts(m, ranges)
		var keys []partition.Position
		for range rapid.IntRange(0, 8).Draw(t, "keys") {
			p := drawPosition(t)
			keys = append(keys, p)
			part := parts.Of(p)
			part.Reads = append(part.Reads, command.Read{Key: p})
		}
		checkParts(t, m, parts.Sorted(), ranges, keys)
	})
}

// checkParts compares parts with what joining shards one by one makes.
func checkParts(t *rapid.T, m *partition.Map, parts []txn.Part, ranges []command.RangeRead, keys []partition.Position) {
	joins := func(p partition.Position) bool { // whether a range is on both sides
		for _, r := range ranges {
			if bytes.Compare(r.Start, p) < 0 && (partition.Span{Start: r.Start, End: r.End}).Contains(p) {
				return true
			}
		}
		return false
	}
	var want []txn.Part
	for s := range m.Shards(partition.Whole) {
		if n := len(want) - 1; n >= 0 && joins(s.Span.Start) {
			want[n].Span.End = s.Span.End
		} else {
			want = append(want, txn.Part{Span: s.Span})
		}
	}
	at := 0
	for _, w := range want {
		for _, r := range ranges {
			if w.Span.Contains(r.Start) {
				w.Ranges = append(w.Ranges, r)
			}
		}
		for _, p := range keys {
			if w.Span.Contains(p) {
				w.Reads = append(w.Reads, command.Read{Key: p})
			}
		}
		if len(w.Ranges)+len(w.Reads) == 0 {
			continue // nothing is touched
		}
		if at == len(parts) || fmt.Sprint(parts[at]) != fmt.Sprint(w) {
			t.Fatalf("parts %v, want %v at %d", parts, w, at)
		}
		at++
	}
	if at != len(parts) {
		t.Fatalf("parts %v that nothing is for", parts[at:])
	}
}

func drawPosition(t *rapid.T) partition.Position {
	return at(rapid.StringMatching("[a-h]{1,2}").Draw(t, "key"))
}

// drawMap draws a map of three groups whose shards are side by side here and there.
func drawMap(t *rapid.T) *partition.Map {
	var starts []partition.Position
	for k := byte('a'); k <= 'h'; k++ {
		if rapid.Bool().Draw(t, "border") {
			starts = append(starts, space.PrefixSpan([]byte{k}).Start)
		}
	}
	m, err := partition.First(make([]partition.Group, 3), &space, append([]partition.Position{space.Span().Start}, starts...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range starts {
		assign := partition.Assign{Shard: m.Find(s).ID, To: partition.GroupID(rapid.IntRange(1, 3).Draw(t, "owner"))}
		if assign.To == m.Find(s).Group {
			continue
		}
		if m, err = m.Apply(assign); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
