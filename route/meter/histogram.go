package meter

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts latencies in bins whose width is an eighth of a power of two, so that a
// quantile is at most an eighth too high. Latencies from 2^40 ns, 18 minutes, on share one.
type histogram struct{ bins [binCount]atomic.Uint64 }

const (
	binBits    = 3 // bins for each power of two: 1<<binBits
	maxLatency = 1<<40 - 1
	binCount   = (40-binBits)<<binBits + 1<<binBits
)

// binOf returns the bin of a latency. A negative one, of a clock that was set back, counts as 0.
func binOf(d time.Duration) int {
	n := uint64(min(max(d, 0), maxLatency))
	shift := max(bits.Len64(n)-1-binBits, 0)
	return shift<<binBits + int(n>>shift)
}

// upperBound returns the longest latency of a bin.
func upperBound(bin int) time.Duration {
	shift := max(bin>>binBits-1, 0)
	return time.Duration((bin-shift<<binBits+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) { h.bins[binOf(d)].Add(1) }

// counts is a histogram that does not change.
type counts [binCount]uint64

// addTo adds what has been counted to a sum.
func (h *histogram) addTo(sum *counts) {
	for i := range h.bins {
		sum[i] += h.bins[i].Load()
	}
}

func (c *counts) total() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

// quantile returns what a share of all latencies are not above, 0 if there are none.
func (c *counts) quantile(share float64) time.Duration {
	total := c.total()
	rank := max(uint64(share*float64(total)+0.999999), 1) // the smallest that reaches the share
	seen := uint64(0)
	for bin, n := range c {
		if seen += n; n > 0 && seen >= min(rank, total) {
			return upperBound(bin)
		}
	}
	return 0
}
