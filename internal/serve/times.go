package serve

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// times are how long the calls of a command took: the sum is for INFO commandstats, the counts
// are for INFO latencystats and LATENCY HISTOGRAM.
type times struct {
	sum    atomic.Int64 // in nanoseconds
	counts atomic.Pointer[timeCounts]
}

// timeCounts are how many calls took how long. Each power of two of a microsecond is divided
// into timeParts: a time is known to an eighth of itself.
type timeCounts [timeBuckets]atomic.Uint64

const (
	timeParts = 1 << timePartBits
	// The last bucket has all that took longer than nine minutes.
	timeBuckets  = (40 - timePartBits) * timeParts
	timePartBits = 3
	// perMicro is how many units, a little less than nanoseconds, a microsecond has, so that
	// buckets end at its powers of two.
	perMicro = 1 << 10
)

// timeBucket is the number of the bucket of a time.
func timeBucket(d time.Duration) int {
	x := uint64(max(0, d)) * perMicro / 1000
	if x < timeParts {
		return int(x)
	}
	shift := bits.Len64(x) - 1 - timePartBits
	return min(shift*timeParts+int(x>>shift), timeBuckets-1)
}

// timeBelow is what all times of a bucket are less than, in microseconds.
func timeBelow(bucket int) float64 {
	shift := max(0, bucket/timeParts-1)
	return math.Ldexp(float64(bucket-shift*timeParts+1), shift) / perMicro
}

// clock is a time that only goes on, and costs less than time.Now.
func clock() time.Duration { return time.Since(processBegan) }

var processBegan = time.Now()

// add notes that n calls took so long each, and so long together.
func (t *times) add(n int, each, together time.Duration, counts bool) {
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

// quantiles are times in microseconds that so many percent of the calls did not exceed, nil if
// there were none.
func (t *times) quantiles(percent []float64) (micros []float64) {
	counts, all := t.snapshot()
	if all == 0 {
		return nil
	}
	for _, p := range percent {
		rank, seen, i := uint64(max(1, math.Ceil(p/100*float64(all)))), counts[0], 0
		for ; seen < rank; seen += counts[i] {
			i++
		}
		micros = append(micros, timeBelow(i))
	}
	return micros
}

func (t *times) snapshot() (counts [timeBuckets]uint64, all uint64) {
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
func (t *times) reset() {
	t.sum.Store(0)
	t.counts.Store(nil)
}
