package server

import (
	"bytes"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
)

// stats are what the server counts.
type stats struct {
	connections, refusedClients, closedClients atomic.Uint64
	largeRequests                              atomic.Uint64  // requests that were refused for their size
	bytesIn, bytesOut                          atomic.Uint64  // bytes that came and went
	expiredAtReset                             atomic.Uint64  // when it was reset
	commands                                   []commandStats // by Spec.Number

	rates trafficRates

	// tracksLatency reports whether it is counted how many calls took how long.
	tracksLatency atomic.Bool

	mu     sync.Mutex
	errors map[string]uint64 // by the word that they begin with
}

// commandStats are of one command: requests, those refused before they were begun, and those
// that failed.
type commandStats struct {
	calls, rejected, failed atomic.Uint64
	times                   timeHistogram
}

func (s *stats) init() {
	s.commands = make([]commandStats, len(redis.AllSpecs()))
	s.errors = map[string]uint64{}
}

// recordCall counts a request, or one that was refused before it was begun.
func (s *stats) recordCall(spec *redis.Spec, refused error) {
	if refused != nil {
		s.commands[spec.Index].rejected.Add(1)
		return
	}
	s.commands[spec.Index].calls.Add(1)
}

// recordTime notes that n calls of a command took so long each, and so long together.
func (s *stats) recordTime(spec *redis.Spec, n int, each, together time.Duration) {
	s.commands[spec.Index].times.add(n, each, together, s.tracksLatency.Load())
}

// totalCalls is how many requests there were.
func (s *stats) totalCalls() (n uint64) {
	for i := range s.commands {
		n += s.commands[i].calls.Load()
	}
	return n
}

// maxErrorWords is how many kinds of errors are counted apart: clients choose some of
// the words.
const maxErrorWords = 128

// recordError counts the answer to a request, given as it is sent, if it is an error. There is no
// command if the request was refused before it was begun.
func (s *stats) recordError(spec *redis.Spec, reply []byte) {
	if !isError(reply) {
		return
	}
	if spec != nil {
		s.commands[spec.Index].failed.Add(1)
	}
	word, _, _ := bytes.Cut(bytes.TrimSuffix(reply[1:], []byte("\r\n")), []byte(" "))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.errors[string(word)]; ok || len(s.errors) < maxErrorWords {
		s.errors[string(word)]++
	}
}

// reset is CONFIG RESETSTAT.
func (s *stats) reset(expired uint64) {
	s.expiredAtReset.Store(expired)
	s.connections.Store(0)
	s.refusedClients.Store(0)
	s.closedClients.Store(0)
	s.largeRequests.Store(0)
	s.bytesIn.Store(0)
	s.bytesOut.Store(0)
	for i := range s.commands {
		c := &s.commands[i]
		c.calls.Store(0)
		c.rejected.Store(0)
		c.failed.Store(0)
		c.times.reset()
	}
	s.rates.reset(s.sampleTraffic(monotonicNow()))
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.errors)
}

// trafficRates are how much was done in the last second or so.
type trafficRates struct {
	mu             sync.Mutex
	previous, last trafficSample
}

// trafficSample is how much was done up to a time: requests, and bytes that came and went.
type trafficSample struct {
	at                time.Duration
	requests, in, out uint64
}

// sampleTraffic is that up to a time.
func (s *stats) sampleTraffic(at time.Duration) trafficSample {
	return trafficSample{at, s.totalCalls(), s.bytesIn.Load(), s.bytesOut.Load()}
}

// record is called about once a second.
func (r *trafficRates) record(t trafficSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.previous, r.last = r.last, t
}

// reset is called when counting begins anew.
func (r *trafficRates) reset(t trafficSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.previous, r.last = trafficSample{}, t
}

// perSecond is how many requests, and bytes that came and went, there were in a second.
func (r *trafficRates) perSecond() (requests, in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := (r.last.at - r.previous.at).Seconds()
	if r.previous.at == 0 || took <= 0 {
		return 0, 0, 0
	}
	per := func(before, last uint64) float64 {
		return float64(last-min(before, last)) / took // they may just have been counted anew
	}
	return per(r.previous.requests, r.last.requests), per(r.previous.in, r.last.in), per(r.previous.out, r.last.out)
}

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

// monotonicNow is a time that only goes on, and costs less than time.Now.
func monotonicNow() time.Duration { return time.Since(processStart) }

var processStart = time.Now()

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
