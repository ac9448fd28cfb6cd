// Package cache answers one question: how do many readers of a value that lives
// elsewhere cost that place one read?
//
//	prices, err := cache.New(cache.Options[string, Price]{Load: fromDatabase})
//	if err != nil { … }
//	defer prices.Close()
//	price, err := prices.Get(ctx, "tea")
//
// # Promises
//
//   - Of one key there is one load at a time, however many callers ask for it. A caller
//     whose context ends leaves alone; the load goes on for the others. A loader
//     that fails or panics is an error to the callers that wait for it, and to no other.
//   - A [Cache.Get] that begins after [Cache.Invalidate] or [Cache.Flush] has returned
//     does not return what was loaded before: a load that began earlier does not put its
//     value in later.
//   - A cache that follows a [Source] of changes ([Cache.Follow]), such as the feed of a store
//     (package storecache), returns values no staler than the source is behind, and no
//     staler than the TTL. If the source breaks off, everything is forgotten, and until it
//     goes on every Get loads. A stale answer of the loader itself is stale here too.
//   - [Cache.Wait] returns when the cache has received all that changed before a place in
//     what it follows: a writer that waits for the place behind its write reads it.
//   - It holds at most as many entries or bytes as Options allow, up to what is just being
//     evicted.
//
// # Choices
//
// Values are kept by how often and how lately they were used, so that a sweep over many
// keys does not evict those that are asked for all the time. Absent keys are remembered
// too, and so are, for a short and growing while, keys that could not be loaded. A value
// lives for a TTL that is cut at random, so that values loaded together are not loaded
// again together.
//
// # Limits
//
// The cache is one process's and is gone with it. Two caches that follow one feed read it
// twice. A value is shared by all callers that get it: do not change it.
package cache

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/cleavekv/cleave/internal/patterns/freshness"
)

// Cache is a read-through cache. Its methods may be called by any goroutine.
type Cache[K comparable, V any] struct {
	opts      Options[K, V]
	createdAt time.Time
	entries   *otter.Cache[K, *entry[V]]
	// epochs decide what may be kept: nothing while a feed that should be followed is not.
	// Entries of older ones are there no more.
	epochs freshness.EpochClock

	seed maphash.Seed
	// random returns a number in [0, 1). Tests replay theirs.
	random   func() float64
	flights  [flightShards]flightShard[K, V]
	counters counters

	feed feedState

	// ctx ends with Close, and done waits for what was begun by then.
	ctx     context.Context
	cancel  context.CancelFunc
	closeMu sync.RWMutex // held to add to done, and to end ctx
	wg      sync.WaitGroup
}

// New makes an empty cache. Close it: it may have loads under way, and a feed.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{opts: o, createdAt: time.Now(), seed: maphash.MakeSeed(), random: rand.Float64}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for i := range c.flights {
		c.flights[i].flights = map[K]*flight[V]{}
	}
	bounds := otter.Options[K, *entry[V]]{OnAtomicDeletion: func(e otter.DeletionEvent[K, *entry[V]]) {
		if e.WasEvicted() {
			c.counters.evictions.Add(1)
		}
	}}
	if o.MaxBytes == 0 {
		bounds.MaximumSize = o.MaxEntries
	} else {
		bounds.MaximumWeight = uint64(o.MaxBytes)
		bounds.Weigher = func(_ K, e *entry[V]) uint32 {
			return uint32(min(e.size+entryOverhead, math.MaxUint32))
		}
	}
	if c.entries, err = otter.New(&bounds); err != nil {
		return nil, errors.Join(ErrOptions, err)
	}
	return c, nil
}

// Close ends the feed and all loads, and waits for them. A caller that waits for a load gets
// ErrClosed, and so do later calls. Do not call it from a loader.
func (c *Cache[K, V]) Close() error {
	c.closeMu.Lock()
	closed := c.ctx.Err() != nil
	c.cancel()
	c.closeMu.Unlock()
	if closed {
		return ErrClosed
	}
	c.wg.Wait()
	c.Flush()
	return nil
}

// Get returns the value of a key, from memory or from the loader. The error is that of
// the loader, of ctx, or one of this package.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	if e := c.lookupEntry(ctx, key); e != nil {
		return e.value, e.err
	}
	f, err := c.joinFlight(ctx, key)
	if err != nil {
		var none V
		return none, err
	}
	return f.wait(ctx, c.ctx)
}

// lookupEntry returns what is kept of a key if it may be returned, else nil.
func (c *Cache[K, V]) lookupEntry(ctx context.Context, key K) *entry[V] {
	e, ok := c.entries.GetIfPresent(key)
	if !ok || e.epoch != c.epochs.Current() {
		c.counters.misses.add()
		return nil
	}
	switch now := c.elapsed(); {
	case now < e.freshUntil:
		c.counters.hits.add()
		return e
	case e.hasValue && now < e.staleUntil:
		c.counters.hits.add()
		c.counters.stale.Add(1)
		if now >= e.retryAt {
			c.refreshInBackground(ctx, key)
		}
		return e
	}
	c.counters.misses.add()
	return nil
}

// Invalidate forgets keys. Call it after a change to what the loader reads, never
// before.
func (c *Cache[K, V]) Invalidate(keys ...K) {
	for _, key := range keys {
		l := c.findFlightShard(key)
		l.mu.Lock()
		if f := l.flights[key]; f != nil {
			f.load.Invalidate()
		}
		c.entries.Invalidate(key)
		l.mu.Unlock()
	}
	c.counters.invalidations.Add(uint64(len(keys)))
}

// Flush forgets everything.
func (c *Cache[K, V]) Flush() {
	c.epochs.Flush()
	c.discardEntries()
}

// discardEntries gives back the memory of what an older epoch has left.
func (c *Cache[K, V]) discardEntries() {
	c.counters.flushes.Add(1)
	c.entries.InvalidateAll()
}

// entry is what is known of a key. It never changes; times are since the cache was made.
type entry[V any] struct {
	value V
	// err is what to return while the entry is fresh: nil for a value, else that there
	// is none, or why it could not be loaded.
	err      error
	hasValue bool // value is one
	epoch    freshness.Epoch
	// freshUntil is until when it is returned as it is, end until when its value is returned
	// while it is loaded again, but not before retry.
	freshUntil, staleUntil, retryAt time.Duration
	failures                        int // in a row
	size                            int // as Options.Size has it
}

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
