package mover

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/partition"
)

// finish plays until no job is left.
func (w *world) finish() {
	for n := 0; len(w.open) > 0; n++ {
		switch {
		case n > 10_000:
			w.fatalf("job %d does not end", w.open[0])
		case len(w.net) > 0:
			w.deliver()
		default:
			w.now += 5
			w.poke()
		}
		w.check()
	}
}

// smooth returns a world in which nothing goes wrong.
func smooth(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed, new(tally.Counts))
	w.aim = &aim{hit: true}
	return w
}

// Boundaries are new ones each time, so what was given away is cut in ever other
// places.
func TestListsDoNotGrowWhileShardsMoveToAndFro(t *testing.T) {
	t.Parallel()
	w := smooth(t, 1)
	longest := 0
	for i := range 300 {
		shards := slices.Collect(w.m.Shards(partition.Whole))
		s := pick(w, shards)
		n := slices.IndexFunc(shards, func(o partition.Shard) bool { return o.ID == s.ID })
		switch {
		case len(shards) < 10:
			key := at(fmt.Sprintf("%c%06d", "abcd"[w.rng.IntN(4)], w.rng.IntN(1e6)))
			w.admit(Request{Kind: Split, Shard: w.m.Find(key).ID, In: &space, At: []partition.Position{key}})
		case n > 0 && shards[n-1].Group == s.Group:
			w.admit(Request{Kind: Merge, Shard: shards[n-1].ID, Right: s.ID})
		default:
			w.admit(Request{Kind: Move, Shard: s.ID, To: pick(w, w.m.Groups()).ID})
		}
		w.finish()
		for _, g := range w.groups {
			list, served := w.peers[g].site.List, 0
			for r := range list.All() {
				if r.Reads() {
					served++
				}
			}
			// Between two that are served lies at most one that was given away, but for
			// what the last job has left.
			if list.Len() > 2*served+4 {
				w.fatalf("after %d jobs %v has %v", i, g, slices.Collect(list.All()))
			}
			longest = max(longest, list.Len())
		}
	}
	if longest < 6 {
		t.Errorf("the longest list had %d ranges: the test shows nothing", longest)
	}
}
