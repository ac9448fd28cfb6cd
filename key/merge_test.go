package key

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// record is an item that remembers where it came from; only key is compared.
type record struct{ key, source, nth int }

func byKey(a, b record) int { return cmp.Compare(a.key, b.key) }

// countingCursor is a cursor that counts what is asked of it.
type countingCursor struct {
	items         []record
	asked, closed int
	err           error // returned in place of the end
	closeErr      error
}

func (s *countingCursor) Next() (record, bool, error) {
	s.asked++
	if len(s.items) == 0 {
		return record{}, false, s.err
	}
	x := s.items[0]
	s.items = s.items[1:]
	return x, true, nil
}

func (s *countingCursor) Close() error { s.closed++; return s.closeErr }

// drawRuns draws sorted runs with many ties, within and between runs.
func drawRuns(t *rapid.T) [][]record {
	keys := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 20), 0, 12), 0, 20).Draw(t, "runs")
	runs := make([][]record, len(keys))
	for s, ks := range keys {
		slices.Sort(ks)
		for n, k := range ks {
			runs[s] = append(runs[s], record{k, s, n})
		}
	}
	return runs
}

func concatRuns(runs [][]record) []record { return slices.Concat(runs...) }

func drainMerger(t interface{ Fatal(...any) }, m *Merger[record]) (all []record) {
	for x, err := range m.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func TestMergeEqualsStableSortOfTheUnion(t *testing.T) {
	open := map[string]func([]record) Cursor[record]{
		"slice": NewSliceCursor[record],
		"page": func(items []record) Cursor[record] {
			return NewPageCursor(func() ([]record, error) {
				page := items[:min(3, len(items))]
				items = items[len(page):]
				return page, nil
			})
		},
		"seq": func(items []record) Cursor[record] { return NewSeqCursor(seqOf(items)) },
	}
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		want := concatRuns(runs)
		slices.SortStableFunc(want, byKey)
		kind := rapid.SampledFrom([]string{"slice", "page", "seq"}).Draw(t, "cursor")
		var sources []Cursor[record]
		for _, r := range runs {
			sources = append(sources, open[kind](r))
		}
		m, err := NewMerger(byKey, sources...)
		if err != nil {
			t.Fatal(err)
		}
		if got := drainMerger(t, m); !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func TestReverseMergeIsTheMirrorImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		want := concatRuns(runs)
		slices.SortStableFunc(want, byKey)
		slices.Reverse(want)
		var sources []Cursor[record]
		for _, r := range slices.Backward(runs) {
			r = slices.Clone(r)
			slices.Reverse(r)
			sources = append(sources, NewSliceCursor(r))
		}
		m, err := NewMerger(Reverse(byKey), sources...)
		if err != nil {
			t.Fatal(err)
		}
		if got := drainMerger(t, m); !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func TestMergeReadsOneItemAheadAndClosesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		spies := make([]*countingCursor, len(runs))
		var sources []Cursor[record]
		for i, r := range runs {
			spies[i] = &countingCursor{items: r}
			sources = append(sources, spies[i])
		}
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		m, err := NewMerger(byKey, sources...)
		if err != nil {
			t.Fatal(err)
		}
		returned := make([]int, len(runs))
		count := 0
		for x, err := range m.All() {
			if err != nil {
				t.Fatal(err)
			}
			returned[x.source]++
			if count++; count == limit {
				break
			}
		}
		for i, s := range spies {
			if s.closed != 1 {
				t.Fatalf("source %d was closed %d times", i, s.closed)
			}
			if s.asked > returned[i]+1 {
				t.Fatalf("source %d was asked %d times for %d items", i, s.asked, returned[i])
			}
		}
		if _, _, err := m.Next(); len(runs) > 0 && !errors.Is(err, ErrMerge) {
			t.Fatalf("Next after the loop gave %v", err)
		}
	})
}

// continueAfter opens a run again as a Place asks.
func continueAfter(run []record, p Place[record], source int) []record {
	i := slices.IndexFunc(run, func(r record) bool {
		return r.key > p.Item.key || r.key == p.Item.key && p.Includes(source)
	})
	if i < 0 {
		return nil
	}
	return run[i:]
}

func TestResumedMergeNeitherRepeatsNorSkips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		for i := range runs {
			runs[i] = slices.CompactFunc(runs[i], func(a, b record) bool { return a.key == b.key })
		}
		want := concatRuns(runs)
		slices.SortStableFunc(want, byKey)
		page := rapid.IntRange(1, 5).Draw(t, "page")

		var got []record
		rest := runs
		for len(runs) > 0 && len(got) <= len(want) {
			m, err := NewSaltMerger(len(runs), byKey, func(salt int) (Cursor[record], error) { return NewSliceCursor(rest[salt]), nil })
			if err != nil {
				t.Fatal(err)
			}
			read := 0
			for x, err := range m.All() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, x)
				if read++; read == page {
					break
				}
			}
			place, ok := m.Place()
			if ok != (read == page) {
				t.Fatalf("after %d of %d items Place says %v", read, page, ok)
			}
			if !ok {
				break
			}
			rest = nil
			for i, r := range runs {
				rest = append(rest, continueAfter(r, place, i))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pages %v\nat once  %v", got, want)
		}
	})
}

func TestMergeStopsAtASourcesError(t *testing.T) {
	boom := errors.New("boom")
	bad := &countingCursor{items: []record{{key: 1}, {key: 3}}, err: boom}
	good := &countingCursor{items: []record{{key: 2}, {key: 4}, {key: 5}}, closeErr: errors.New("leak")}
	m, err := NewMerger(byKey, Cursor[record](good), bad)
	if err != nil {
		t.Fatal(err)
	}
	var keys []int
	var last error
	for x, err := range m.All() {
		if last = err; err == nil {
			keys = append(keys, x.key)
		}
	}
	if !slices.Equal(keys, []int{1, 2, 3}) {
		t.Errorf("got %v before the error", keys)
	}
	if !errors.Is(last, boom) || last.Error() != "key: merge source 1: boom" {
		t.Errorf("got error %v", last)
	}
	if _, _, err := m.Next(); !errors.Is(err, boom) {
		t.Errorf("the error did not stick: %v", err)
	}
	if err := m.Close(); err == nil || good.closed != 1 || bad.closed != 1 {
		t.Errorf("closed %d and %d times, %v", good.closed, bad.closed, err)
	}
	if _, ok := m.Place(); ok {
		t.Error("a failed merge has a place")
	}
}

func TestErrorsBeforeTheFirstItemAndAtCloseAreSeen(t *testing.T) {
	boom := errors.New("boom")
	for name, s := range map[string]*countingCursor{"first read": {err: boom}, "close": {closeErr: boom}} {
		m, err := NewMerger(byKey, Cursor[record](&countingCursor{items: []record{{key: 1}}}), s)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range m.All() {
			last = err
		}
		if !errors.Is(last, boom) {
			t.Errorf("%s: got %v", name, last)
		}
	}
}

func TestUnsortedSourceIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		cmp  func(a, b int) int
		runs [][]int
	}{
		"swapped":   {cmp.Compare[int], [][]int{{1, 3, 2}, {5}}},
		"direction": {Reverse(cmp.Compare[int]), [][]int{{1, 2}, {1, 2}}},
	} {
		m, err := NewMerger(c.cmp, NewSliceCursor(c.runs[0]), NewSliceCursor(c.runs[1]))
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range m.All() {
			last = err
		}
		if !errors.Is(last, ErrUnsorted) {
			t.Errorf("%s: got %v", name, last)
		}
	}
}

func TestBadMergesAreRefused(t *testing.T) {
	if _, err := NewMerger(nil, NewSliceCursor([]int{1})); !errors.Is(err, ErrMerge) {
		t.Errorf("no comparison: got %v", err)
	}
	if _, err := NewMerger(cmp.Compare[int], NewSliceCursor([]int{1}), nil); !errors.Is(err, ErrMerge) {
		t.Errorf("no source: got %v", err)
	}
	if _, err := NewMerger(cmp.Compare[int], slices.Repeat([]Cursor[int]{NewSliceCursor[int](nil)}, MaxSalts+1)...); !errors.Is(err, ErrMerge) {
		t.Errorf("too many: got %v", err)
	}
	m, err := NewMerger[int](cmp.Compare[int])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := m.Next(); ok || err != nil {
		t.Errorf("no sources: got %v, %v", ok, err)
	}
	m, err = NewMerger(cmp.Compare[int], NewSeqCursor[int](nil), NewPageCursor[int](nil), NewSliceCursor[int](nil))
	if err != nil {
		t.Fatal(err)
	}
	for x, err := range m.All() {
		t.Errorf("empty sources: got %v, %v", x, err)
	}
}

func TestMergeSaltsClosesWhatItOpenedWhenOneFails(t *testing.T) {
	boom := errors.New("boom")
	var opened []*countingCursor
	for name, fail := range map[string]func() (Cursor[record], error){
		"error": func() (Cursor[record], error) { return nil, boom },
		"nil":   func() (Cursor[record], error) { return nil, nil },
	} {
		_, err := NewSaltMerger(4, byKey, func(salt int) (Cursor[record], error) {
			if salt == 2 {
				return fail()
			}
			opened = append(opened, &countingCursor{})
			return opened[len(opened)-1], nil
		})
		if !errors.Is(err, boom) && !errors.Is(err, ErrMerge) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := NewSaltMerger(1, nil, func(int) (Cursor[record], error) {
		opened = append(opened, &countingCursor{})
		return opened[len(opened)-1], nil
	}); !errors.Is(err, ErrMerge) {
		t.Errorf("no comparison: got %v", err)
	}
	for i, s := range opened {
		if s.closed != 1 {
			t.Errorf("cursor %d of %d was closed %d times", i, len(opened), s.closed)
		}
	}
	if _, err := NewSaltMerger(0, byKey, nil); !errors.Is(err, ErrSalt) {
		t.Errorf("no salts: got %v", err)
	}
	if _, err := NewSaltMerger(1, byKey, nil); !errors.Is(err, ErrMerge) {
		t.Errorf("no open: got %v", err)
	}
}

func TestLeavingTheLoopEndsTheSequences(t *testing.T) {
	ended := 0
	seq := func(yield func(int, error) bool) {
		defer func() { ended++ }()
		for i := 0; yield(i, nil); i++ {
		}
	}
	m, err := NewMerger(cmp.Compare[int], NewSeqCursor(iter.Seq2[int, error](seq)), NewSeqCursor(iter.Seq2[int, error](seq)))
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for x := range m.All() {
		if got = append(got, x); len(got) == 5 {
			break
		}
	}
	if fmt.Sprint(got) != "[0 0 1 1 2]" || ended != 2 {
		t.Errorf("got %v, %d sequences ended", got, ended)
	}
}

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

func (m *heapMerger[T]) siftDown(i int) {
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
			m.siftDown(i)
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
		m.siftDown(0)
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
		{"slice", NewSliceCursor[T]},
		{"seq", func(r []T) Cursor[T] { return NewSeqCursor(seqOf(r)) }},
	} {
		b.Run(fmt.Sprintf("impl=losers/item=%s/k=%d/source=%s", name, len(runs), source.name), func(b *testing.B) {
			for b.Loop() {
				m, _ := NewMerger(compare, cursors(source.open)...)
				drain(b, m.Next)
				m.Close()
			}
			perItem(b)
		})
	}
	b.Run(fmt.Sprintf("impl=heap/item=%s/k=%d/source=slice", name, len(runs)), func(b *testing.B) {
		for b.Loop() {
			m := &heapMerger[T]{cmp: compare, sources: cursors(NewSliceCursor[T])}
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
		m.sources = append(m.sources, NewSliceCursor(r))
	}
	var got []uint64
	for x, ok, _ := m.Next(); ok; x, ok, _ = m.Next() {
		got = append(got, x)
	}
	if len(got) != 1<<15 || !slices.IsSorted(got) {
		t.Errorf("%d items, sorted %v", len(got), slices.IsSorted(got))
	}
}
