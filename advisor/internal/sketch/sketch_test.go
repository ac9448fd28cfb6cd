package sketch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// coverage counts how often intervals hold the truth.
type coverage struct{ held, tried int }

func (c *coverage) add(i Interval, truth float64) {
	c.tried++
	if i.Low <= truth && truth <= i.High {
		c.held++
	}
}

// check fails if intervals of 95 % hold the truth less often than luck explains: the count of those
// that do is binomial, and four standard deviations below its mean come once in 30,000 runs.
func (c *coverage) check(t *testing.T, name string) {
	t.Helper()
	n := float64(c.tried)
	if least := 0.95*n - 4*math.Sqrt(n*0.95*0.05); float64(c.held) < least {
		t.Errorf("%s: %d of %d intervals hold the truth, want at least %.0f", name, c.held, c.tried, least)
	}
	t.Logf("%s: %d of %d intervals hold the truth", name, c.held, c.tried)
}

func TestDistinct_CountIsWithinItsInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c coverage
	for range 400 {
		n := 10_000 + r.IntN(60_000)
		d := NewDistinct()
		for range n {
			d.Add(r.Uint64())
		}
		c.add(d.Count(), float64(n))
	}
	c.check(t, "distinct values")
}

func TestDistinct_IsExactUntilItDropsValues(t *testing.T) {
	d := NewDistinct()
	for i := range uint64(5000) {
		for range 1 + i%3 {
			d.Add(mix(i))
		}
	}
	if got := d.Count(); got != Exactly(5000) {
		t.Errorf("got %v distinct values, want exactly 5000", got)
	}
	if got := d.Repeats(); got != Exactly(2) {
		t.Errorf("got %v repeats, want exactly 2", got)
	}
}

func TestDistinct_MedianOfRepeatsIsWithinItsInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var c coverage
	for range 100 {
		const values = 20_000
		d := NewDistinct()
		repeats := make([]int, values)
		middle := 5 + r.IntN(20)
		below := 0
		for i := range repeats {
			repeats[i] = 1 + r.IntN(2*middle)
			hash := r.Uint64()
			for range repeats[i] {
				d.Add(hash)
			}
		}
		// The truth is the smallest count that at least half of the values have at most.
		truth := 0
		for below*2 < values {
			truth++
			below = 0
			for _, n := range repeats {
				if n <= truth {
					below++
				}
			}
		}
		c.add(d.Repeats(), float64(truth))
	}
	c.check(t, "median of repeats")
}

func TestHeavyHitters_CountIsWithinItsBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(r, 1.1, 1, 1<<20)
	h := NewHeavyHitters()
	truth := map[uint64]uint64{}
	const rows = 300_000
	for range rows {
		v := zipf.Uint64()
		truth[v]++
		h.Add(mix(v), 1, fmt.Append(nil, v))
	}
	seen := map[string]bool{}
	for _, top := range h.Top(heavyKept) {
		var v uint64
		fmt.Sscan(top.Text, &v)
		seen[top.Text] = true
		if n := truth[v]; n < top.Count || n > top.Count+top.Missed {
			t.Errorf("value %d came %d times, want %d to %d", v, n, top.Count, top.Count+top.Missed)
		}
	}
	for v, n := range truth {
		if n > h.Missed() && !seen[fmt.Sprint(v)] {
			t.Errorf("value %d came %d times and is not listed, though only %d can be missed", v, n, h.Missed())
		}
	}
	if bound := uint64(2 * rows / heavyKept); h.Missed() > bound {
		t.Errorf("up to %d may be missed, want at most %d", h.Missed(), bound)
	}
}

func TestProportion_HoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, p := range []float64{0.003, 0.02, 0.3, 0.9} {
		var c coverage
		for range 500 {
			hits := 0
			for range 2000 {
				if r.Float64() < p {
					hits++
				}
			}
			c.add(Proportion(float64(hits), 2000), p)
		}
		c.check(t, fmt.Sprint("share ", p))
	}
}

func TestProportionOf_HoldsForAllSharesTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var c coverage
	const shards, rows = 64, 20_000
	for range 200 {
		var counts [shards]int
		for range rows {
			counts[r.IntN(shards)]++
		}
		most := Interval{}
		for _, n := range counts {
			i := ProportionOf(shards, float64(n), rows)
			most = Interval{max(most.Low, i.Low), max(most.Value, i.Value), max(most.High, i.High)}
		}
		c.add(most, 1.0/shards)
	}
	c.check(t, "largest of 64 shares")
}

func TestMean_HoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var c coverage
	for range 500 {
		values := make([]float64, 64)
		for i := range values {
			values[i] = r.Float64() * 10
		}
		c.add(Mean(values), 5)
	}
	c.check(t, "mean")
}

func TestSample_ChoosesEveryPlaceAlike(t *testing.T) {
	const rows, limit = 100_000, 4096
	var first, kept int
	for seed := range uint64(50) {
		s := NewSample[uint64](limit, 1<<30, seed)
		for i := range uint64(rows) {
			if s.Chooses(i) {
				s.Add(i, i, 8)
			}
		}
		items := s.Items()
		if len(items) > limit || len(items) < limit/3 {
			t.Fatalf("seed %d keeps %d items, want at most %d and not far less", seed, len(items), limit)
		}
		for i, place := range items {
			if i > 0 && items[i-1] >= place {
				t.Fatal("the sample is not in the order of the stream")
			}
			if place < rows/2 {
				first++
			}
		}
		kept += len(items)
	}
	half, deviation := float64(kept)/2, math.Sqrt(float64(kept))/2
	if math.Abs(float64(first)-half) > 5*deviation {
		t.Errorf("%d of %d items are of the first half", first, kept)
	}
}

func TestSample_KeepsToItsBytes(t *testing.T) {
	s := NewSample[int](1000, 10_000, 1)
	for i := range uint64(100_000) {
		if s.Chooses(i) {
			s.Add(i, 0, 100)
		}
		if s.bytes > 10_000 {
			t.Fatalf("%d bytes kept, want at most 10,000", s.bytes)
		}
	}
	if len(s.items) < 30 {
		t.Errorf("only %d items kept", len(s.items))
	}
}

func TestBursts_CoverTheStreamEvenly(t *testing.T) {
	b := Bursts{Length: 100, Limit: 16}
	bursts := map[uint64]int{}
	for i := range uint64(100_000) {
		if burst, kept := b.BurstOf(i); kept {
			bursts[burst]++
		}
	}
	kept := 0
	for burst, n := range bursts {
		if b.Keeps(burst) {
			kept++
			if n != 100 {
				t.Errorf("burst %d has %d items, want 100", burst, n)
			}
		}
	}
	if kept < 8 || kept > 16 {
		t.Errorf("%d bursts kept, want 8 to 16", kept)
	}
}

func BenchmarkHeavyHitters(b *testing.B) {
	for _, values := range []uint64{100, 1 << 40} {
		b.Run(fmt.Sprintf("values=%d", values), func(b *testing.B) {
			h := NewHeavyHitters()
			text := []byte("0123456789abcdef")
			i := uint64(0)
			for b.Loop() {
				i++
				h.Add(mix(i%values), 1, text)
			}
		})
	}
}

func BenchmarkDistinct(b *testing.B) {
	for _, values := range []uint64{100, 1 << 40} {
		b.Run(fmt.Sprintf("values=%d", values), func(b *testing.B) {
			d := NewDistinct()
			i := uint64(0)
			for b.Loop() {
				i++
				d.Add(mix(i % values))
			}
		})
	}
}
