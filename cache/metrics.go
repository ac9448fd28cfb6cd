package cache

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Metrics are figures of a cache. Counters count since New.
type Metrics struct {
	// Hits are answers from memory, those that say that there is no value, or why it
	// could not be loaded, included; Stale are those of them past their TTL. Misses
	// are all others.
	Hits, Stale, Misses uint64
	// Loads are calls of the loader, those for several keys at once counted once;
	// LoadErrors those that failed, but not for want of a value. Joined are callers that
	// waited for a load of another.
	Loads, LoadErrors, Joined uint64
	// LoadTime is how long all loads together took.
	LoadTime time.Duration
	// Discarded are values that were not kept, as the key had been invalidated since
	// their load began, or nothing was kept at all.
	Discarded uint64
	// Evictions are entries that made room for others.
	Evictions uint64
	// Invalidations are keys that were invalidated, in the cache or not, and Flushes how
	// often all of them were.
	Invalidations, Flushes uint64
	// Entries are kept now, about. Bytes are what they take with MaxBytes, else 0.
	Entries int
	Bytes   int64
	// Following reports whether the cache follows a feed, and FeedErr why it does not, if it
	// should; then every Get loads.
	Following bool
	FeedErr   error
}

// HitRate is the share of hits among all answers, 0 if there were none.
func (m Metrics) HitRate() float64 {
	if m.Hits+m.Misses == 0 {
		return 0
	}
	return float64(m.Hits) / float64(m.Hits+m.Misses)
}

// Metrics returns the figures of now. They are not all of one moment.
func (c *Cache[K, V]) Metrics() Metrics {
	n := &c.counters
	m := Metrics{
		Hits: n.hits.sum(), Stale: n.stale.Load(), Misses: n.misses.sum(),
		Loads: n.loads.Load(), LoadErrors: n.loadErrors.Load(), Joined: n.joined.Load(), LoadTime: time.Duration(n.loadNS.Load()),
		Discarded: n.discarded.Load(), Evictions: n.evictions.Load(),
		Invalidations: n.invalidations.Load(), Flushes: n.flushes.Load(),
		Entries: c.entries.EstimatedSize(), Bytes: int64(c.entries.WeightedSize()),
	}
	m.Following, m.FeedErr = c.feed.loadStatus()
	return m
}

type counters struct {
	hits, misses                                stripedCounter
	stale, loads, loadErrors, joined, discarded atomic.Uint64
	evictions, invalidations, flushes           atomic.Uint64
	loadNS                                      atomic.Int64
}

// startLoadTimer counts a load from now until what it returns is called, with what became of it.
func (c *Cache[K, V]) startLoadTimer() func(err *error) {
	n, began := &c.counters, time.Now()
	return func(err *error) {
		n.loads.Add(1)
		n.loadNS.Add(int64(time.Since(began)))
		if *err != nil && !c.isNotFound(*err) {
			n.loadErrors.Add(1)
		}
	}
}

// counterStripes is over how many cache lines a counter of every Get is spread, so that cores
// do not wait for each other's.
const counterStripes = 16

type stripedCounter [counterStripes]struct {
	n atomic.Uint64
	_ [56]byte
}

// add counts one, wherever: the generator is the processor's own, and cheaper than a
// line that others write.
func (s *stripedCounter) add() { s[rand.Uint32()%counterStripes].n.Add(1) }

func (s *stripedCounter) sum() (n uint64) {
	for i := range s {
		n += s[i].n.Load()
	}
	return n
}
