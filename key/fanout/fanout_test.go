package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/key"
)

// gate lets readers through when so many of them are there at the same time.
type gate struct {
	mu   sync.Mutex
	here int
	want int
	open chan struct{}
}

func newGate(want int) *gate { return &gate{want: want, open: make(chan struct{})} }

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.here++; g.here == g.want {
		close(g.open)
	}
	g.mu.Unlock()
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Each read waits until all are under way: one after another they would wait for ever.
func TestRead_Partitions_AreReadAtTheSameTime(t *testing.T) {
	const partitions = 120
	g := newGate(partitions)
	got, err := Read(t.Context(), 0, partitions, func(ctx context.Context, i int) (int, error) { return i * i, g.wait(ctx) })
	if err != nil || len(got) != partitions {
		t.Fatalf("%d results, %v", len(got), err)
	}
	for i, v := range got {
		if v != i*i {
			t.Errorf("result %d is %d: not in the order of partitions", i, v)
		}
	}
}

// In a bubble time goes on when all wait: so latency is counted, and not measured.
func TestRead_120Partitions_TakeAsLongAsOne(t *testing.T) {
	const latency = 10 * time.Millisecond
	took := func(limit, n int) (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := Read(t.Context(), limit, n, func(ctx context.Context, _ int) (int, error) {
				time.Sleep(latency)
				return 0, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			d = time.Since(began)
		})
		return d
	}
	if one, all := took(0, 1), took(0, 120); one != latency || all > 2*one {
		t.Errorf("one takes %v, 120 take %v", one, all)
	}
	if d := took(60, 120); d != 2*latency {
		t.Errorf("60 at a time take %v, want %v", d, 2*latency)
	}
	if d := took(1, 120); d != 120*latency {
		t.Errorf("one at a time take %v, want %v", d, 120*latency)
	}
}

func TestRead_Limit_IsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, n := rapid.IntRange(1, 9).Draw(t, "limit"), rapid.IntRange(0, 40).Draw(t, "n")
		var under, most atomic.Int64
		got, err := Read(context.Background(), limit, n, func(context.Context, int) (struct{}, error) {
			now := under.Add(1)
			for {
				was := most.Load()
				if now <= was || most.CompareAndSwap(was, now) {
					break
				}
			}
			under.Add(-1)
			return struct{}{}, nil
		})
		if err != nil || len(got) != n || most.Load() > int64(limit) || under.Load() != 0 {
			t.Fatalf("%d results, %v, %d at once with a limit of %d", len(got), err, most.Load(), limit)
		}
	})
}

func TestRead_FirstError_EndsTheOthers(t *testing.T) {
	broken := errors.New("disk on fire")
	g := newGate(8)
	var begun atomic.Int64
	got, err := Read(t.Context(), 8, 1000, func(ctx context.Context, i int) (int, error) {
		begun.Add(1)
		if err := g.wait(ctx); err != nil {
			return 0, err
		}
		if i == 5 {
			return 0, broken
		}
		<-ctx.Done() // all others are under way until they are told to end
		return 0, ctx.Err()
	})
	if !errors.Is(err, broken) || got != nil || begun.Load() != 8 {
		t.Errorf("%v, %v, %d reads begun", got, err, begun.Load())
	}
}

func TestRead_EndOfTheContext_EndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Read(ctx, 4, 100, func(ctx context.Context, i int) (int, error) {
		if i == 3 {
			cancel()
		}
		if i >= 3 {
			<-ctx.Done()
		}
		return i, nil // one that does not look
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := Read(ctx, 4, 1, func(context.Context, int) (int, error) { t.Error("a read begun"); return 0, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	last := context.CancelFunc(nil)
	ctx, last = context.WithCancel(t.Context())
	got, err := Read(ctx, 1, 3, func(_ context.Context, i int) (int, error) {
		if i == 2 {
			last()
		}
		return i, nil
	})
	if err != nil || !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("all was read when the context ended, and yet: %v, %v", got, err)
	}
}

// Pages of a merge: whatever the pages and the limit, the result is the sorted whole.
func TestPages_Merged_AreTheSortedWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := make([][]int, rapid.IntRange(0, 12).Draw(t, "sources"))
		var want []int
		for i := range sources {
			sources[i] = rapid.SliceOfN(rapid.IntRange(0, 50), 0, 60).Draw(t, fmt.Sprint(i))
			slices.Sort(sources[i])
			want = append(want, sources[i]...)
		}
		slices.Sort(want)
		size := rapid.IntRange(1, 9).Draw(t, "page")
		read := func(_ context.Context, i int) (page []int, err error) {
			n := min(size, len(sources[i]))
			page, sources[i] = sources[i][:n:n], sources[i][n:]
			return page, nil
		}
		m, err := key.NewPageMerger(cmp.Compare[int], len(sources), Pages(context.Background(), rapid.IntRange(0, 4).Draw(t, "limit"), read))
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for v, err := range m.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// The first pages of all partitions are read at the same time, and later ones by turns that are about as many as
// one partition has pages.
func TestPages_120Partitions_WaitAboutAsOftenAsOne(t *testing.T) {
	const partitions, pages, size = 120, 8, 64
	rounds := 0
	var left [partitions]int
	for i := range left {
		left[i] = pages
	}
	items := 0
	read := func(sources []int) ([][]int, error) {
		rounds++
		return Read(t.Context(), 0, len(sources), func(_ context.Context, n int) ([]int, error) {
			i := sources[n]
			if left[i] == 0 {
				return nil, nil
			}
			left[i]--
			page := make([]int, size)
			for k := range page { // items take turns, so that all partitions run dry at about the same time
				page[k] = ((pages-left[i]-1)*size+k)*partitions + (i*7+k*13)%partitions
			}
			return page, nil
		})
	}
	m, err := key.NewPageMerger(cmp.Compare[int], partitions, read)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.All() {
		if err != nil {
			t.Fatal(err)
		}
		items++
	}
	if one := pages + 1; items != partitions*pages*size || rounds > 2*one {
		t.Errorf("%d items in %d rounds, where one partition needs %d", items, rounds, one)
	}
}

// BenchmarkRead waits a millisecond for each partition.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1, 120} {
		for _, limit := range []int{1, DefaultLimit / 2, DefaultLimit, 2 * DefaultLimit} {
			if n == 1 && limit != DefaultLimit || n > 1 && limit == 1 && testing.Short() {
				continue
			}
			b.Run(fmt.Sprintf("partitions=%d/limit=%d", n, limit), func(b *testing.B) {
				for b.Loop() {
					_, err := Read(b.Context(), limit, n, func(context.Context, int) (int, error) {
						time.Sleep(time.Millisecond)
						return 0, nil
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
