package txn

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/partition"
)

// What is left of spans is what a look at each of them leaves.
func TestASpanIsTakenOffAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edges := rapid.SliceOfNDistinct(rapid.ByteRange('a', 'm'), 0, 8, rapid.ID).Draw(t, "edges")
		slices.Sort(edges)
		var list []partition.Span
		for i := 0; i+1 < len(edges); i += rapid.IntRange(1, 2).Draw(t, "gap") {
			list = append(list, partition.Span{Start: partition.Position{edges[i]}, End: partition.Position{edges[i+1]}})
		}
		if n := len(list) - 1; n >= 0 && rapid.Bool().Draw(t, "to the end") {
			list[n].End = nil
		}
		if n := len(list); n > 0 && rapid.Bool().Draw(t, "from the start") {
			list[0].Start = nil
		}
		off := partition.Span{Start: partition.Position{rapid.ByteRange('a', 'm').Draw(t, "start")}}
		if rapid.Bool().Draw(t, "bounded") {
			off.End = partition.Position{rapid.ByteRange(off.Start[0]+1, 'n').Draw(t, "end")}
		}
		if rapid.IntRange(0, 4).Draw(t, "from the start") == 0 {
			off.Start = nil
		}
		contains := func(list []partition.Span, p partition.Position) bool {
			return slices.ContainsFunc(list, func(s partition.Span) bool { return s.Contains(p) })
		}
		left := subtractSpan(slices.Clone(list), off)
		for c := byte('A'); c <= 'z'; c++ {
			p := partition.Position{c}
			if contains(left, p) != (contains(list, p) && !off.Contains(p)) {
				t.Fatalf("%v without %v are %v", list, off, left)
			}
		}
		for i, s := range left {
			if s.Empty() || i > 0 && (left[i-1].Overlaps(s) || bytes.Compare(left[i-1].Start, s.Start) >= 0) {
				t.Fatalf("%v without %v are %v", list, off, left)
			}
		}
	})
}
