package route

import (
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

func TestZonesComeFirstThenTheRestInOrder(t *testing.T) {
	nodes := []Node{{Zone: "a"}, {Zone: "a"}, {Zone: "b"}, {}, {Zone: "b"}, {}, {Zone: "c"}}
	order := []int{1, 1, 0, 4, 5, 1, 2, 3, 6, 0}
	for _, c := range []struct {
		n    int
		want []int
	}{
		{-1, nil},
		{0, nil},
		{1, []int{1}},
		{3, []int{1, 4, 5}},
		{5, []int{1, 4, 5, 3, 6}},
		{6, []int{1, 4, 5, 3, 6, 0}},
		{7, []int{1, 4, 5, 3, 6, 0, 2}},
		{100, []int{1, 4, 5, 3, 6, 0, 2}},
	} {
		s := newZoneSpread(nodes)
		got := s.appendDistinct(nil, c.n, len(order), func(i int) int { return order[i] })
		if !slices.Equal(got, c.want) {
			t.Errorf("first %d of %v are %v, want %v", c.n, order, got, c.want)
		}
	}
}

// TestCollectAgreesWithAPlainSort compares with the definition, for topologies
// on both sides of the length where the bookkeeping changes.
func TestCollectAgreesWithAPlainSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, Kind{}, 50)
		var order []int
		for i := range nodes {
			order = append(order, i)
		}
		order = rapid.Permutation(order).Draw(t, "order")
		seen := map[string]bool{}
		var fresh, rest []int
		for _, i := range order {
			if z := nodes[i].Zone; z == "" || !seen[z] {
				fresh = append(fresh, i)
				seen[z] = true
			} else {
				rest = append(rest, i)
			}
		}
		n := rapid.IntRange(0, len(nodes)).Draw(t, "n")
		s := newZoneSpread(nodes)
		got := s.appendDistinct([]int{7}, n, len(order), func(i int) int { return order[i] })
		if want := append([]int{7}, append(fresh, rest...)[:n]...); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestRehashFindsNodesThatNoHashLeadsTo: a router that answers one node for
// ever still has an order of all nodes, and not the same one for all keys.
func TestRehashFindsNodesThatNoHashLeadsTo(t *testing.T) {
	s := newZoneSpread(newNodes(50))
	seconds := map[int]bool{}
	for h := range Sample(100) {
		got := s.appendRehashed(nil, h, 50, func(hash.Stable) int { return 3 })
		if got[0] != 3 {
			t.Fatalf("the first is %d", got[0])
		}
		seconds[got[1]] = true
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 50 {
			t.Fatalf("%d of 50 nodes: %v", len(got), got)
		}
	}
	if len(seconds) < 20 {
		t.Errorf("100 keys have only %d second choices", len(seconds))
	}
}

func TestShortListsAllocateNothing(t *testing.T) {
	nodes := newNodes(60)
	for i := range nodes {
		nodes[i].Weight, nodes[i].Zone = float64(1+i%2), []string{"", "a", "b"}[i%3]
	}
	many := append(newNodes(300), nodes[0])
	many[300].Name = "heavy"
	many[300].Weight = 2
	routers := map[string]Router{"rendezvous of many": must(NewRendezvous(many))}
	for _, k := range hashedKinds {
		routers[k.Name] = must(k.New(nodes))
	}
	for name, r := range routers {
		dst := make([]int, 0, 16)
		i := uint64(0)
		if got := testing.AllocsPerRun(100, func() {
			i++
			dst = r.RouteN(dst[:0], hash.Uint64(i), 16)
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
