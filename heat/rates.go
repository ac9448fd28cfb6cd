package heat

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// ErrOptions means that an option is out of its range: the text says which one and what to use.
var ErrOptions = errors.New("heat: bad options")

// Counts is what a shard has been asked since some beginning. They only grow.
type Counts struct {
	Reads, Writes uint64
	// ScanReads are those of Reads that are rows of scans.
	ScanReads uint64
	// CrossShard is operations of transactions over several shards, and Conflicts how often a transaction was repeated, or
	// waited, because of another one on a key of this shard.
	CrossShard, Conflicts uint64
	// BytesIn and BytesOut are those of requests and of replies.
	BytesIn, BytesOut uint64
	// Errors are operations whose reply is an error.
	Errors uint64
	// Service is the time that was spent on the operations.
	Service time.Duration
}

// Rate is what a shard is asked in a second.
type Rate struct {
	Reads, Writes, BytesIn, BytesOut, Errors float64
	// ScanReads, CrossShard and Conflicts are those of Counts.
	ScanReads, CrossShard, Conflicts float64
	// Service is the seconds of work in a second: 1 is a processor that does nothing else.
	Service float64
}

// Ops is how many operations there are in a second.
func (r Rate) Ops() float64 { return r.Reads + r.Writes }

// rateBetween returns the mean rate of an interval. A count that has fallen, as that of a process that was started
// again, begins at zero.
func rateBetween(from, to Counts, interval time.Duration) Rate {
	seconds := interval.Seconds()
	perSecond := func(from, to uint64) float64 {
		if to < from {
			from = 0
		}
		return float64(to-from) / seconds
	}
	return Rate{
		Reads: perSecond(from.Reads, to.Reads), Writes: perSecond(from.Writes, to.Writes),
		BytesIn: perSecond(from.BytesIn, to.BytesIn), BytesOut: perSecond(from.BytesOut, to.BytesOut),
		ScanReads: perSecond(from.ScanReads, to.ScanReads), CrossShard: perSecond(from.CrossShard, to.CrossShard), Conflicts: perSecond(from.Conflicts, to.Conflicts),
		Errors: perSecond(from.Errors, to.Errors), Service: perSecond(uint64(max(from.Service, 0)), uint64(max(to.Service, 0))) / 1e9,
	}
}

// blend returns a + share*(b-a), figure by figure.
func blend(a, b Rate, share float64) Rate {
	mix := func(a, b float64) float64 { return a + share*(b-a) }
	return Rate{
		Reads: mix(a.Reads, b.Reads), Writes: mix(a.Writes, b.Writes), BytesIn: mix(a.BytesIn, b.BytesIn),
		ScanReads: mix(a.ScanReads, b.ScanReads), CrossShard: mix(a.CrossShard, b.CrossShard), Conflicts: mix(a.Conflicts, b.Conflicts),
		BytesOut: mix(a.BytesOut, b.BytesOut), Errors: mix(a.Errors, b.Errors), Service: mix(a.Service, b.Service),
	}
}

// ShardRates keeps the rates of shards over exponential windows. In a window of half-life h, what was asked h ago
// counts half as much as what is asked at the moment. It is no clock, and belongs to one goroutine at a time.
//
// It takes about 80 bytes for each shard and window, and forgets shards that [ShardRates.Record] is not given.
type ShardRates[ID comparable] struct {
	halfLives []time.Duration
	at        time.Duration // of the last Record
	started   bool
	shards    map[ID]*shardWindows
}

type shardWindows struct {
	counts Counts
	begin  time.Duration // the shard has been measured since
	rates  []Rate        // by half-life; nil before the second record
}

// NewShardRates returns rates over windows of the half-lives, 1 to 8 of them. It fails with [ErrOptions] if one is not
// positive.
func NewShardRates[ID comparable](halfLives ...time.Duration) (*ShardRates[ID], error) {
	if len(halfLives) < 1 || len(halfLives) > maxWindows {
		return nil, fmt.Errorf("%w: %d half-lives: use 1 to %d", ErrOptions, len(halfLives), maxWindows)
	}
	for _, h := range halfLives {
		if h <= 0 {
			return nil, fmt.Errorf("%w: a half-life is %v: use a positive time", ErrOptions, h)
		}
	}
	return &ShardRates[ID]{halfLives: append([]time.Duration(nil), halfLives...), shards: map[ID]*shardWindows{}}, nil
}

// Record hands in what all shards have been asked up to a time since any beginning. A time that is not later than the
// last is left out. A shard that is new since the last Record, but for the first, began at zero then; one that is no
// longer there is forgotten.
func (s *ShardRates[ID]) Record(at time.Duration, counts iter.Seq2[ID, Counts]) {
	if s.started && at <= s.at {
		return
	}
	old := s.shards
	s.shards = make(map[ID]*shardWindows, len(old))
	for id, to := range counts {
		w := old[id]
		switch {
		case !s.started:
			w = &shardWindows{begin: at}
		case w == nil:
			w = &shardWindows{begin: s.at}
			fallthrough
		default:
			s.advance(w, to, at)
		}
		w.counts = to
		s.shards[id] = w
	}
	s.at, s.started = at, true
}

// advance takes the mean rate since the last record into each window.
//
// A rate that is constant over an interval of length d weighs 1-2^(-d/h) in a window, and all that was before it
// weighs the rest. Of a shard that is younger than its window the weights do not add up to 1: the share of the interval
// is that of the weights there are.
func (s *ShardRates[ID]) advance(w *shardWindows, to Counts, at time.Duration) {
	interval := at - s.at
	rate := rateBetween(w.counts, to, interval)
	if w.rates == nil {
		w.rates = make([]Rate, len(s.halfLives))
	}
	for i, h := range s.halfLives {
		weight, all := weightOf(interval, h), weightOf(at-w.begin, h)
		w.rates[i] = blend(w.rates[i], rate, weight/all)
	}
}

// weightOf is the weight of the last stretch of a time in a window: 1 if it is far longer than the half-life.
func weightOf(stretch, halfLife time.Duration) float64 {
	return -math.Expm1(-math.Ln2 * float64(stretch) / float64(halfLife))
}

// Of returns the rates of a shard by half-life, in the order in which NewShardRates was given them. They are nil for a
// shard of which there are not two records.
func (s *ShardRates[ID]) Of(id ID) []Rate {
	if w := s.shards[id]; w != nil {
		return append([]Rate(nil), w.rates...)
	}
	return nil
}

// All yields the rates of all shards over the window of one half-life, by its index, in no order.
func (s *ShardRates[ID]) All(window int) iter.Seq2[ID, Rate] {
	return func(yield func(ID, Rate) bool) {
		for id, w := range s.shards {
			if w.rates != nil && !yield(id, w.rates[window]) {
				return
			}
		}
	}
}

// Len is how many shards there are.
func (s *ShardRates[ID]) Len() int { return len(s.shards) }
