//go:build !purego

package route

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

// FuzzVectorsAgreeWithTheLoop: the assembly and the loops that stand in for it
// elsewhere give the same bits, or machines would disagree about owners.
func FuzzVectorsAgreeWithTheLoop(f *testing.F) {
	if !hasAVX2 {
		f.Skip("no AVX2")
	}
	for _, n := range []uint16{1, 7, 8, 9, 63, 64, 65, 128, 1000} {
		for key := range uint64(20) {
			f.Add(n, key, uint64(n)*31, float32(1<<24))
		}
	}
	f.Fuzz(func(t *testing.T, n uint16, key, seed uint64, bound float32) {
		nodes := make([]Node, 1+n%2000)
		for i := range nodes {
			name := hash.Restore(seed).Derive(uint64(i)).Uint64()
			nodes[i] = Node{Name: fmt.Sprint(name), Weight: 0.25 * float64(1+name%9)}
		}
		r := must(NewRendezvous(nodes))
		d := newDraw(hash.Restore(key))
		if got, want := bestAVX2(&r.groups[0], len(r.groups)/blockGroups, d), bestGo(r.groups, d, len(nodes)); got != want {
			t.Errorf("best is %d, want %d", got, want)
		}
		groups := (len(nodes) + groupNodes - 1) / groupNodes
		got, gotSecond := lowestAVX2(&r.groups[0], &r.handicap[0], groups, d)
		want, wantSecond := lowestGo(r.groups, r.handicap, d, len(nodes))
		if got != want || gotSecond != wantSecond {
			t.Errorf("lowest is %d before %v, want %d before %v", got, gotSecond, want, wantSecond)
		}
		for from := range r.groups {
			got, gotLanes := nearAVX2(&r.groups[0], &r.handicap[0], from, len(r.groups), d, bound)
			want, wantLanes := nearGo(r.groups, r.handicap, from, d, bound)
			if got != want || gotLanes != wantLanes {
				t.Errorf("near from %d is group %d lanes %b, want %d and %b", from, got, gotLanes, want, wantLanes)
			}
		}
	})
}

// TestEqualScoresGoToTheFirst plants equal seeds, which no two names have.
func TestEqualScoresGoToTheFirst(t *testing.T) {
	if !hasAVX2 {
		t.Skip("no AVX2")
	}
	r := must(NewRendezvous(newNodes(200)))
	for h := range Sample(200) {
		d := newDraw(h)
		winner := bestGo(r.groups, d, 200)
		for _, twin := range []int{0, 1, 8, 63, 64, 130, 199} {
			groups := append([]seedGroup(nil), r.groups...)
			from, to := &groups[winner/groupNodes], &groups[twin/groupNodes]
			to.mask[twin%groupNodes] = from.mask[winner%groupNodes]
			to.multiplier[twin%groupNodes] = from.multiplier[winner%groupNodes]
			want := min(winner, twin)
			if got := bestGo(groups, d, 200); got != want {
				t.Fatalf("the loop gives %d, want %d", got, want)
			}
			if got := bestAVX2(&groups[0], len(groups)/blockGroups, d); got != want {
				t.Fatalf("the vectors give %d, want %d", got, want)
			}
			// Equal weights, so the highest score has the lowest floor.
			for _, lowest := range []func() (int, float32){
				func() (int, float32) { return lowestGo(groups, r.handicap, d, 200) },
				func() (int, float32) { return lowestAVX2(&groups[0], &r.handicap[0], 200/groupNodes, d) },
			} {
				if got, second := lowest(); got != want || winner != twin && second != groups[got/groupNodes].floor(got%groupNodes, d, 1) {
					t.Fatalf("the lowest floor is that of %d before %v, want %d", got, second, want)
				}
			}
		}
	}
}
