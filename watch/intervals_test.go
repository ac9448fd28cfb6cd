package watch

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The tree finds what a look at each range finds.
func TestAKeyFindsAllRangesThatItIsIn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := newIntervals()
		var all []*Watcher
		bound := rapid.SliceOfN(rapid.ByteRange('a', 'd'), 0, 2)
		for n := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(rt, "step") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(rt, "which")
				tree.remove(all[i])
				all = slices.Delete(all, i, i+1)
			} else {
				w := &Watcher{number: uint64(n), target: Target{Start: bound.Draw(rt, "start"), End: bound.Draw(rt, "end")}}
				if len(w.target.End) == 0 {
					w.target.End = nil
				}
				tree.add(w)
				all = append(all, w)
			}
			key := bound.Draw(rt, "key")
			var want, got []uint64
			for _, w := range all {
				if bytes.Compare(w.target.Start, key) <= 0 && (w.target.End == nil || bytes.Compare(key, w.target.End) < 0) {
					want = append(want, w.number)
				}
			}
			tree.visit(key, func(w *Watcher) { got = append(got, w.number) })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				rt.Fatalf("%s is in %v, found %v", key, want, got)
			}
		}
		n := 0
		tree.each(func(*Watcher) { n++ })
		if n != len(all) {
			rt.Fatalf("%d ranges, want %d", n, len(all))
		}
	})
}
