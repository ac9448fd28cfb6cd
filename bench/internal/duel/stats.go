package duel

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Estimate is a median with its 95 % bootstrap interval.
type Estimate struct {
	Median, Lo, Hi float64
	// Rounds is the number of values behind it.
	Rounds int
}

// Median returns the middle of xs, or the mean of the two middle values. It
// is NaN for none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	return middle(slices.Sorted(slices.Values(xs)))
}

// middle is the median of values that are sorted.
func middle(s []float64) float64 {
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

// resamples is how often the bootstrap draws: with 2000 the 2.5 % tail still
// rests on 50 draws, and a cell costs well under a millisecond.
const resamples = 2000

// Bootstrap estimates the median of xs. The interval is the percentile one:
// draw len(xs) values with replacement, take their median, repeat, cut 2.5 %
// off each end. Equal seeds give equal intervals.
func Bootstrap(xs []float64, seed uint64) Estimate {
	est := Estimate{Median: Median(xs), Lo: math.NaN(), Hi: math.NaN(), Rounds: len(xs)}
	if len(xs) == 0 {
		return est
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(xs))))
	medians := make([]float64, resamples)
	draw := make([]float64, len(xs))
	for i := range medians {
		for j := range draw {
			draw[j] = xs[rng.IntN(len(xs))]
		}
		slices.Sort(draw)
		medians[i] = middle(draw)
	}
	slices.Sort(medians)
	const tail = resamples * 25 / 1000
	est.Lo, est.Hi = medians[tail], medians[resamples-1-tail]
	return est
}

// ratios divides element by element: how many times more a costs than b, in
// each round.
func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}
