package key

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
)

// heapMerger is the textbook alternative to the tournament: a binary heap of
// sources whose top is replaced and sifted down. It lives here to be measured.
type heapMerger[T any] struct {
	cmp     func(a, b T) int
	sources []Cursor[T]
	heads   []T
	heap    []int32
	started bool
}

func (m *heapMerger[T]) less(a, b int32) bool {
	c := m.cmp(m.heads[a], m.heads[b])
	return c < 0 || c == 0 && a < b
}

func (m *heapMerger[T]) sift(i int) {
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(m.heap) && m.less(m.heap[c], m.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

func (m *heapMerger[T]) Next() (item T, ok bool, err error) {
	if !m.started {
		m.started = true
		m.heads = make([]T, len(m.sources))
		for i, s := range m.sources {
			if m.heads[i], ok, _ = s.Next(); ok {
				m.heap = append(m.heap, int32(i))
			}
		}
		for i := len(m.heap)/2 - 1; i >= 0; i-- {
			m.sift(i)
		}
	} else if len(m.heap) > 0 {
		top := m.heap[0]
		next, ok, _ := m.sources[top].Next()
		if ok && m.cmp(m.heads[top], next) > 0 {
			return item, false, ErrUnsorted
		}
		m.heads[top] = next
		if !ok {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
		m.sift(0)
	}
	if len(m.heap) == 0 {
		return item, false, nil
	}
	return m.heads[m.heap[0]], true, nil
}

// benchRuns deals 1<<15 sorted keys at random over k runs, like a salted log.
func benchRuns[T any](k int, make func(i uint64) T) [][]T {
	rng := rand.New(rand.NewPCG(1, uint64(k)))
	runs := [][]T{}
	for range k {
		runs = append(runs, nil)
	}
	for i := range uint64(1 << 15) {
		r := rng.IntN(k)
		runs[r] = append(runs[r], make(i))
	}
	return runs
}

func seqOf[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range items {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func benchMerge[T any](b *testing.B, name string, compare func(a, b T) int, runs [][]T) {
	items := 0
	for _, r := range runs {
		items += len(r)
	}
	drain := func(b *testing.B, next func() (T, bool, error)) {
		n := 0
		for _, ok, _ := next(); ok; _, ok, _ = next() {
			n++
		}
		if n != items {
			b.Fatalf("%d items, want %d", n, items)
		}
	}
	cursors := func(open func([]T) Cursor[T]) (cs []Cursor[T]) {
		for _, r := range runs {
			cs = append(cs, open(r))
		}
		return cs
	}
	perItem := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(items), "ns/item")
	}
	for _, source := range []struct {
		name string
		open func([]T) Cursor[T]
	}{
		{"slice", SliceCursor[T]},
		{"seq", func(r []T) Cursor[T] { return SeqCursor(seqOf(r)) }},
	} {
		b.Run(fmt.Sprintf("impl=losers/item=%s/k=%d/source=%s", name, len(runs), source.name), func(b *testing.B) {
			for b.Loop() {
				m, _ := Merge(compare, cursors(source.open)...)
				drain(b, m.Next)
				m.Close()
			}
			perItem(b)
		})
	}
	b.Run(fmt.Sprintf("impl=heap/item=%s/k=%d/source=slice", name, len(runs)), func(b *testing.B) {
		for b.Loop() {
			m := &heapMerger[T]{cmp: compare, sources: cursors(SliceCursor[T])}
			drain(b, m.Next)
		}
		perItem(b)
	})
}

func BenchmarkMerge(b *testing.B) {
	for _, k := range []int{2, 16, 100} {
		benchMerge(b, "uint64", cmp.Compare[uint64], benchRuns(k, func(i uint64) uint64 { return i }))
		benchMerge(b, "bytes", bytes.Compare, benchRuns(k, func(i uint64) []byte {
			return binary.BigEndian.AppendUint64([]byte("log/events/"), i)
		}))
	}
}

// The reference must be right for the comparison to mean something.
func TestHeapReferenceMergesToo(t *testing.T) {
	runs := benchRuns(7, func(i uint64) uint64 { return i / 3 })
	m := &heapMerger[uint64]{cmp: cmp.Compare[uint64]}
	for _, r := range runs {
		m.sources = append(m.sources, SliceCursor(r))
	}
	var got []uint64
	for x, ok, _ := m.Next(); ok; x, ok, _ = m.Next() {
		got = append(got, x)
	}
	if len(got) != 1<<15 || !slices.IsSorted(got) {
		t.Errorf("%d items, sorted %v", len(got), slices.IsSorted(got))
	}
}
