package duel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{7}, 7},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 100}, 1},
	} {
		before := slices.Clone(c.in)
		if got := Median(c.in); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.in, got, c.want)
		}
		if !slices.Equal(c.in, before) {
			t.Errorf("Median changed its input to %v", c.in)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestBootstrapOfEqualValuesHasNoWidth(t *testing.T) {
	got := Bootstrap([]float64{2, 2, 2, 2}, 1)
	if want := (Estimate{2, 2, 2, 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBootstrapIsReproducibleAndEnclosesTheMedian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		xs := make([]float64, 1+rng.IntN(20))
		for i := range xs {
			xs[i] = rng.Float64()
		}
		got := Bootstrap(xs, 9)
		if again := Bootstrap(xs, 9); again != got {
			t.Fatalf("two estimates of %v differ: %+v, %+v", xs, got, again)
		}
		if got.Lo > got.Median || got.Median > got.Hi {
			t.Fatalf("%v: %+v does not enclose its median", xs, got)
		}
		if got.Lo < slices.Min(xs) || got.Hi > slices.Max(xs) {
			t.Fatalf("%v: %+v leaves the data", xs, got)
		}
	}
}

// The interval must cover the true median about as often as it says. The
// percentile bootstrap of a small sample is known to fall a little short of
// 95 %, hence the wide acceptance.
func TestBootstrapCoversTheTrueMedian(t *testing.T) {
	const seed1, seed2, trials = 5, 6, 200
	rng := rand.New(rand.NewPCG(seed1, seed2))
	covered := 0
	for range trials {
		xs := make([]float64, 11)
		for i := range xs {
			xs[i] = rng.NormFloat64()
		}
		if e := Bootstrap(xs, rng.Uint64()); e.Lo <= 0 && 0 <= e.Hi {
			covered++
		}
	}
	if share := float64(covered) / trials; share < 0.90 || share > 0.995 {
		t.Errorf("interval covers the median in %.1f %% of trials (seed %d, %d), want about 95 %%", 100*share, seed1, seed2)
	}
}

func TestRatiosArePairedByRound(t *testing.T) {
	// Both slow down tenfold in the second round: paired ratios do not see it.
	got := ratios([]float64{2, 20, 2}, []float64{1, 10, 1})
	if !slices.Equal(got, []float64{2, 2, 2}) {
		t.Errorf("got %v", got)
	}
}
