package heat

import (
	"math"
	"slices"
)

// Skew is how unevenly something is spread over shards: bytes, operations, or what else.
type Skew struct {
	// MaxByMean is how many times the mean the largest has: 1 is even.
	MaxByMean float64
	// MaxByMedian is the same by the median, which a few large ones do not move.
	MaxByMedian float64
	// TopShare is the part of all that the largest has, and Top its index. -1 if there is nothing.
	TopShare float64
	Top      int
	// Variation is the standard deviation by the mean.
	Variation float64
}

// SkewOf returns the skew of what shards have. All figures are 0 if they have nothing. If the median is 0,
// MaxByMedian is infinite.
func SkewOf(of []float64) Skew {
	s, sum := Skew{Top: -1}, 0.0
	for i, n := range of {
		sum += n
		if n > 0 && (s.Top < 0 || n > of[s.Top]) {
			s.Top = i
		}
	}
	if s.Top < 0 {
		return s
	}
	mean, squares := sum/float64(len(of)), 0.0
	for _, n := range of {
		squares += (n - mean) * (n - mean)
	}
	sorted := slices.Sorted(slices.Values(of))
	median := (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	largest := of[s.Top]
	s.MaxByMean, s.MaxByMedian, s.TopShare = largest/mean, largest/median, largest/sum
	s.Variation = math.Sqrt(squares/float64(len(of))) / mean
	return s
}

// Fanout counts on how many shards requests are executed.
type Fanout struct {
	// Single is requests on one shard, Cross those on several but fewer than half of all, and Scatter those on half
	// of all or more.
	Single, Cross, Scatter uint64
}

// Record counts a request on some of all shards. Where there is one shard, each request is on one.
func (f *Fanout) Record(shards, all int) {
	switch {
	case shards <= 1:
		f.Single++
	case 2*shards < all:
		f.Cross++
	default:
		f.Scatter++
	}
}

// Merge adds what another has counted.
func (f *Fanout) Merge(o Fanout) {
	f.Single, f.Cross, f.Scatter = f.Single+o.Single, f.Cross+o.Cross, f.Scatter+o.Scatter
}

// Shares returns the parts of all requests that are on several shards, fewer than half of them, and on half of them
// or more.
func (f Fanout) Shares() (cross, scatter float64) {
	all := float64(f.Single + f.Cross + f.Scatter)
	if all == 0 {
		return 0, 0
	}
	return float64(f.Cross) / all, float64(f.Scatter) / all
}
