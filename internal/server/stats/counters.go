package stats

import (
	"bytes"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
)

// ServerCounters are what the server counts.
type ServerCounters struct {
	Connections, RefusedClients, ClosedClients atomic.Uint64
	LargeRequests                              atomic.Uint64  // requests that were refused for their size
	BytesIn, BytesOut                          atomic.Uint64  // bytes that came and went
	ExpiredAtReset                             atomic.Uint64  // when it was reset
	commands                                   []commandStats // by Spec.Number

	rates trafficRates

	// TracksLatency reports whether it is counted how many calls took how long.
	TracksLatency atomic.Bool

	mu     sync.Mutex
	errors map[string]uint64 // by the word that they begin with
}

// commandStats are of one command: requests, those refused before they were begun, and those
// that failed.
type commandStats struct {
	calls, rejected, failed atomic.Uint64
	times                   timeHistogram
}

// NewCounters returns counters of all commands.
func NewCounters() *ServerCounters {
	return &ServerCounters{commands: make([]commandStats, len(redis.AllSpecs())), errors: map[string]uint64{}}
}

// CommandStats is what was counted of one command.
type CommandStats struct {
	Calls, Rejected, Failed uint64
	// Took is how long all calls took together.
	Took time.Duration
}

// CountsOf returns what was counted of a command.
func (s *ServerCounters) CountsOf(spec *redis.Spec) CommandStats {
	c := &s.commands[spec.Index]
	return CommandStats{c.calls.Load(), c.rejected.Load(), c.failed.Load(), time.Duration(c.times.sum.Load())}
}

// QuantilesOf returns times in microseconds that so many percent of the calls of a command did not exceed, nil if
// there were none.
func (s *ServerCounters) QuantilesOf(spec *redis.Spec, percent []float64) (micros []float64) {
	return s.commands[spec.Index].times.estimateQuantiles(percent)
}

// doublingCount is how many calls took less than a number of microseconds, which is a power of two.
type doublingCount struct{ Micros, Calls int64 }

// DoublingsOf returns how many calls of a command took up to how long, for the powers of two up to which there are
// more of them than up to the one before, and how many calls there were.
func (s *ServerCounters) DoublingsOf(spec *redis.Spec) (steps []doublingCount, calls uint64) {
	counts, calls := s.commands[spec.Index].times.snapshot()
	seen, told := uint64(0), uint64(0)
	for i, n := range counts {
		seen += n
		// A power of two ends with every bucketsPerDoubling buckets.
		if micros := timeBucketBound(i); i%bucketsPerDoubling == bucketsPerDoubling-1 && micros >= 1 && seen > told {
			steps = append(steps, doublingCount{int64(micros), int64(seen)})
			told = seen
		}
	}
	return steps, calls
}

// ErrorCounts returns how many errors were answered, by the words that they begin with.
func (s *ServerCounters) ErrorCounts() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.errors)
}

// Sample notes how much was done up to now, for the rates. It is called about once a second.
func (s *ServerCounters) Sample() { s.rates.record(s.sampleTraffic(MonotonicNow())) }

// PerSecond is how many requests, and bytes that came and went, there were in a second.
func (s *ServerCounters) PerSecond() (requests, in, out float64) { return s.rates.perSecond() }

// RecordRejected counts a request that was refused before it was begun.
func (s *ServerCounters) RecordRejected(spec *redis.Spec) { s.commands[spec.Index].rejected.Add(1) }

// CallBuffer counts requests for one goroutine, which adds them to those of the server now and then: several that
// count each request in one place slow each other down.
type CallBuffer struct {
	counters *ServerCounters
	counts   []uint32 // by Spec.Index
	counted  []int    // the indexes of those that are not 0
}

// NewCallBuffer returns an empty buffer.
func (s *ServerCounters) NewCallBuffer() CallBuffer {
	return CallBuffer{counters: s, counts: make([]uint32, len(s.commands))}
}

// Record counts a request.
func (b *CallBuffer) Record(spec *redis.Spec) {
	if b.counts[spec.Index] == 0 {
		b.counted = append(b.counted, spec.Index)
	}
	b.counts[spec.Index]++
}

// Flush adds what was counted to the counters of the server.
func (b *CallBuffer) Flush() {
	for _, i := range b.counted {
		b.counters.commands[i].calls.Add(uint64(b.counts[i]))
		b.counts[i] = 0
	}
	b.counted = b.counted[:0]
}

// RecordTime notes that n calls of a command took so long each, and so long together.
func (s *ServerCounters) RecordTime(spec *redis.Spec, n int, each, together time.Duration) {
	s.commands[spec.Index].times.add(n, each, together, s.TracksLatency.Load())
}

// TotalCalls is how many requests there were.
func (s *ServerCounters) TotalCalls() (n uint64) {
	for i := range s.commands {
		n += s.commands[i].calls.Load()
	}
	return n
}

// maxErrorWords is how many kinds of errors are counted apart: clients choose some of
// the words.
const maxErrorWords = 128

// RecordError counts the answer to a request, given as it is sent, if it is an error. There is no
// command if the request was refused before it was begun.
func (s *ServerCounters) RecordError(spec *redis.Spec, reply []byte) {
	if !resp.IsError(reply) {
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

// Reset is CONFIG RESETSTAT.
func (s *ServerCounters) Reset(expired uint64) {
	s.ExpiredAtReset.Store(expired)
	s.Connections.Store(0)
	s.RefusedClients.Store(0)
	s.ClosedClients.Store(0)
	s.LargeRequests.Store(0)
	s.BytesIn.Store(0)
	s.BytesOut.Store(0)
	for i := range s.commands {
		c := &s.commands[i]
		c.calls.Store(0)
		c.rejected.Store(0)
		c.failed.Store(0)
		c.times.reset()
	}
	s.rates.reset(s.sampleTraffic(MonotonicNow()))
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.errors)
}

// sampleTraffic is that up to a time.
func (s *ServerCounters) sampleTraffic(at time.Duration) trafficSample {
	return trafficSample{at, s.TotalCalls(), s.BytesIn.Load(), s.BytesOut.Load()}
}

// MonotonicNow is a time that only goes on, and costs less than time.Now.
func MonotonicNow() time.Duration { return time.Since(processStart) }

var processStart = time.Now()
