package keycells

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/key"
)

// merging compares the ordered fan-out merge of salted reads with the heap of
// the standard library, and with sorting everything at the end.
func merging(salts, items int) duel.Cell {
	sources := make([][]uint64, salts)
	for s := range sources {
		for i := range items / salts {
			sources[s] = append(sources[s], workload.Scramble(uint64(i*salts+s)))
		}
		slices.Sort(sources[s])
	}
	total := items / salts * salts
	return duel.Cell{
		ID:    fmt.Sprintf("key/merge/%d", salts),
		Title: fmt.Sprintf("merge %d sorted sources of %d numbers in all, per number", salts, total),
		Ops:   total,
		Contestants: []duel.Contestant{
			{Name: "Merge", Ours: true, Work: func(ops int) { expect(ops, ourMerge(sources)) }},
			{Name: "container/heap", Work: func(ops int) { expect(ops, heapMerge(sources)) }},
			{Name: "append, slices.Sort", Work: func(ops int) {
				var all []uint64
				for _, s := range sources {
					all = append(all, s...)
				}
				slices.Sort(all)
				expect(ops, len(all))
			}},
		},
	}
}

func expect(want, got int) {
	if got != want {
		panic(fmt.Sprintf("merged %d of %d items", got, want))
	}
}

// cursors opens the sources as a merge reads them.
func cursors(sources [][]uint64) []key.Cursor[uint64] {
	out := make([]key.Cursor[uint64], len(sources))
	for i, s := range sources {
		out[i] = key.NewSliceCursor(s)
	}
	return out
}

func ourMerge(sources [][]uint64) int {
	m := must(key.NewMerger(cmp.Compare[uint64], cursors(sources)...))
	n := 0
	for {
		_, ok, err := m.Next()
		fail(err)
		if !ok {
			fail(m.Close())
			return n
		}
		n++
	}
}

// head is the next item of a source, and the source.
type head struct {
	item uint64
	rest key.Cursor[uint64]
}

// heads is what a merge by hand keeps in a heap.
type heads []head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].item < h[j].item }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(head)) }
func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

func heapMerge(sources [][]uint64) int {
	var h heads
	for _, c := range cursors(sources) {
		if item, ok, err := c.Next(); ok && err == nil {
			h = append(h, head{item, c})
		}
	}
	heap.Init(&h)
	n := 0
	for len(h) > 0 {
		n++
		item, ok, err := h[0].rest.Next()
		fail(err)
		if !ok {
			heap.Pop(&h)
			continue
		}
		h[0].item = item
		heap.Fix(&h, 0)
	}
	return n
}
