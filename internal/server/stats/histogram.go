package stats

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// timeHistogram are how long the calls of a command took: the sum is for INFO commandstats, the counts
// are for INFO latencystats and LATENCY HISTOGRAM.
type timeHistogram struct {
	sum    atomic.Int64 // in nanoseconds
	counts atomic.Pointer[timeCounts]
}

// timeCounts are how many calls took how long. Each power of two of a microsecond is divided
// into bucketsPerDoubling: a time is known to an eighth of itself.
type timeCounts [timeBuckets]atomic.Uint64

const (
	bucketsPerDoubling = 1 << bucketsPerDoublingBits
	// The last bucket has all that took longer than nine minutes.
	timeBuckets            = (40 - bucketsPerDoublingBits) * bucketsPerDoubling
	bucketsPerDoublingBits = 3
	// unitsPerMicro is how many units, a little less than nanoseconds, a microsecond has, so that
	// buckets end at its powers of two.
	unitsPerMicro = 1 << 10
)

// timeBucket is the number of the bucket of a time.
func timeBucket(d time.Duration) int {
	x := uint64(max(0, d)) * unitsPerMicro / 1000
	if x < bucketsPerDoubling {
		return int(x)
	}
	shift := bits.Len64(x) - 1 - bucketsPerDoublingBits
	return min(shift*bucketsPerDoubling+int(x>>shift), timeBuckets-1)
}

// timeBucketBound is what all times of a bucket are less than, in microseconds.
func timeBucketBound(bucket int) float64 {
	shift := max(0, bucket/bucketsPerDoubling-1)
	return math.Ldexp(float64(bucket-shift*bucketsPerDoubling+1), shift) / unitsPerMicro
}

// add notes that n calls took so long each, and so long together.
func (t *timeHistogram) add(n int, each, together time.Duration, counts bool) {
	t.sum.Add(int64(together))
	if !counts {
		return
	}
	c := t.counts.Load()
	if c == nil {
		t.counts.CompareAndSwap(nil, new(timeCounts))
		c = t.counts.Load()
	}
	c[timeBucket(each)].Add(uint64(n))
}

// estimateQuantiles are times in microseconds that so many percent of the calls did not exceed, nil if
// there were none.
func (t *timeHistogram) estimateQuantiles(percent []float64) (micros []float64) {
	counts, all := t.snapshot()
	if all == 0 {
		return nil
	}
	for _, p := range percent {
		rank, seen, i := uint64(max(1, math.Ceil(p/100*float64(all)))), counts[0], 0
		for ; seen < rank; seen += counts[i] {
			i++
		}
		micros = append(micros, timeBucketBound(i))
	}
	return micros
}

func (t *timeHistogram) snapshot() (counts [timeBuckets]uint64, all uint64) {
	c := t.counts.Load()
	if c == nil {
		return counts, 0
	}
	for i := range c {
		counts[i] = c[i].Load()
		all += counts[i]
	}
	return counts, all
}

// reset forgets all. What is noted at the same time may be kept in part.
func (t *timeHistogram) reset() {
	t.sum.Store(0)
	t.counts.Store(nil)
}
