package partition

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawOwners gives the shards of a tiling to a few groups.
func drawOwners(t *rapid.T, what string) *Map {
	m := tile(rapid.SliceOfN(nested, 0, 10).Draw(t, what))
	for i := range m.shards {
		m.shards[i].Group = GroupID(rapid.IntRange(1, 3).Draw(t, "owner"))
	}
	return m
}

// pieces cuts the space at every boundary of both maps and lists what moved.
func pieces(from, to *Map) (all []Moved) {
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
		list := pieces(from, to)
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
