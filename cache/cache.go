package cache

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
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

// beginTask counts something that Close waits for, unless it was called.
func (c *Cache[K, V]) beginTask() error {
	c.closeMu.RLock()
	defer c.closeMu.RUnlock()
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	c.wg.Add(1)
	return nil
}

// elapsed is the time since the cache was made: it never goes back.
func (c *Cache[K, V]) elapsed() time.Duration { return time.Since(c.createdAt) }

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
		l := c.flightShardOf(key)
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

// forever is longer than any cache lives.
const forever = time.Duration(math.MaxInt64)

// newEntry makes an entry of what a load has come to, nil if that is not to be kept. old
// is what was known before, or nil. The value may be as old as its load, so that is when
// its TTL begins.
func (c *Cache[K, V]) newEntry(old *entry[V], f *flight[V]) *entry[V] {
	o, now, err := &c.opts, c.elapsed(), f.err
	switch {
	case err == nil:
		e := &entry[V]{value: f.value, hasValue: true, size: f.size, freshUntil: addDuration(f.startedAt, c.withJitter(o.TTL, o.Jitter))}
		e.staleUntil = addDuration(e.freshUntil, o.StaleFor)
		if o.TTL == 0 {
			e.freshUntil, e.staleUntil = forever, forever
		}
		return e
	case c.isNotFound(err):
		if o.NotFoundTTL == 0 {
			return nil
		}
		return &entry[V]{err: err, size: f.size, freshUntil: addDuration(f.startedAt, c.withJitter(o.NotFoundTTL, o.Jitter))}
	case o.Backoff == 0:
		return old // a stale value may be better than none
	}
	failures := 1
	if old != nil {
		failures = old.failures + 1
	}
	wait := min(o.Backoff<<min(failures-1, 30), o.MaxBackoff)
	if wait <= 0 { // shifted out
		wait = o.MaxBackoff
	}
	retry := addDuration(now, c.withJitter(wait, 0.5))
	if old != nil && old.hasValue && now < old.staleUntil {
		e := *old
		e.retryAt, e.failures = retry, failures
		return &e
	}
	return &entry[V]{err: err, size: f.size, freshUntil: retry, failures: failures}
}

// withJitter shortens d by up to a share of it.
func (c *Cache[K, V]) withJitter(d time.Duration, share float64) time.Duration {
	return d - time.Duration(c.random()*share*float64(d))
}

func addDuration(now, d time.Duration) time.Duration {
	if now > forever-d {
		return forever
	}
	return now + d
}
