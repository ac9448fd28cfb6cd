package workload

import (
	"slices"
	"sync"
	"testing"
)

func TestParallelDividesAllOperations(t *testing.T) {
	for _, c := range []struct{ goroutines, ops int }{{1, 10}, {3, 10}, {4, 2}, {7, 0}} {
		var mu sync.Mutex
		var workers []int
		total := 0
		Parallel(c.goroutines, c.ops, func(w, ops int) {
			mu.Lock()
			defer mu.Unlock()
			workers = append(workers, w)
			total += ops
		})
		slices.Sort(workers)
		if total != c.ops || len(slices.Compact(workers)) != c.goroutines {
			t.Errorf("%+v: workers %v did %d operations", c, workers, total)
		}
	}
}

func TestParallelHandsAPanicToTheCaller(t *testing.T) {
	defer func() {
		if p := recover(); p != "from worker 1" {
			t.Errorf("recovered %v", p)
		}
	}()
	Parallel(3, 3, func(w, _ int) {
		if w == 1 {
			panic("from worker 1")
		}
	})
}

func TestDrawsAreReproducibleAndInRange(t *testing.T) {
	const n, length = 1000, 50_000
	for _, d := range []Distribution{Uniform, Zipf} {
		draw := d.Draw(n, length, 7)
		if !slices.Equal(draw, d.Draw(n, length, 7)) {
			t.Errorf("%s: equal seeds drew differently", d)
		}
		if slices.Equal(draw, d.Draw(n, length, 8)) {
			t.Errorf("%s: different seeds drew alike", d)
		}
		if m := slices.Max(draw); m >= n {
			t.Errorf("%s drew %d, want below %d", d, m, n)
		}
	}
}

// hottest returns the share of the most frequent item.
func hottest(draw []uint32) float64 {
	count := map[uint32]int{}
	most := 0
	for _, i := range draw {
		count[i]++
		most = max(most, count[i])
	}
	return float64(most) / float64(len(draw))
}

func TestZipfIsSkewedAndUniformIsNot(t *testing.T) {
	const n, length = 1000, 50_000
	if got := hottest(Uniform.Draw(n, length, 1)); got > 0.003 {
		t.Errorf("uniform: hottest of %d items has %.4f of the draws", n, got)
	}
	if got := hottest(Zipf.Draw(n, length, 1)); got < 0.08 {
		t.Errorf("zipf: hottest of %d items has only %.4f of the draws", n, got)
	}
}

func TestStreamsWriteTheShareAskedFor(t *testing.T) {
	for _, percent := range []int{0, 5, 50, 100} {
		writes := 0
		for _, s := range Stream(Uniform, 100, 20_000, percent, 1, func(i uint32) uint32 { return i }) {
			if s.Write {
				writes++
			}
		}
		if got := float64(writes) / 200; got < float64(percent)-1.5 || got > float64(percent)+1.5 {
			t.Errorf("%d %% asked for, %.1f %% written", percent, got)
		}
	}
}

func TestScrambleIsOneToOne(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range uint64(100_000) {
		seen[Scramble(i)] = true
	}
	if len(seen) != 100_000 {
		t.Errorf("%d different values of 100000", len(seen))
	}
}
