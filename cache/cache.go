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

	"github.com/cleavekv/cleave/internal/fresh"
)

// Cache is a read-through cache. Its methods may be called by any goroutine.
type Cache[K comparable, V any] struct {
	opts  Options[K, V]
	began time.Time
	kept  *otter.Cache[K, *entry[V]]
	// epochs say what may be kept: nothing while a feed that should be followed is not.
	// Entries of older ones are there no more.
	epochs fresh.Epochs

	seed maphash.Seed
	// random returns a number in [0, 1). Tests replay theirs.
	random func() float64
	lanes  [lanes]lane[K, V]
	count  counters

	feed follower

	// ctx ends with Close, and done waits for what was begun by then.
	ctx  context.Context
	stop context.CancelFunc
	life sync.RWMutex // held by whoever adds to done, or ends ctx
	done sync.WaitGroup
}

// New makes an empty cache. Close it: it may have loads under way, and a feed.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{opts: o, began: time.Now(), seed: maphash.MakeSeed(), random: rand.Float64}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for i := range c.lanes {
		c.lanes[i].flights = map[K]*flight[V]{}
	}
	bounds := otter.Options[K, *entry[V]]{OnAtomicDeletion: func(e otter.DeletionEvent[K, *entry[V]]) {
		if e.WasEvicted() {
			c.count.evictions.Add(1)
		}
	}}
	if o.MaxBytes == 0 {
		bounds.MaximumSize = o.MaxEntries
	} else {
		bounds.MaximumWeight = uint64(o.MaxBytes)
		bounds.Weigher = func(_ K, e *entry[V]) uint32 {
			return uint32(min(e.size+entryBytes, math.MaxUint32))
		}
	}
	if c.kept, err = otter.New(&bounds); err != nil {
		return nil, errors.Join(ErrOptions, err)
	}
	return c, nil
}

// Close ends the feed and all loads, and waits for them. Whoever waits for a load gets
// ErrClosed, and so do later calls. Do not call it from a loader.
func (c *Cache[K, V]) Close() error {
	c.life.Lock()
	closed := c.ctx.Err() != nil
	c.stop()
	c.life.Unlock()
	if closed {
		return ErrClosed
	}
	c.done.Wait()
	c.Flush()
	return nil
}

// begin counts something that Close waits for, unless it was called.
func (c *Cache[K, V]) begin() error {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	c.done.Add(1)
	return nil
}

// now is the time since the cache was made: it never goes back.
func (c *Cache[K, V]) now() time.Duration { return time.Since(c.began) }

// Get returns the value of a key, from memory or from the loader. The error is that of
// the loader, of ctx, or one of this package.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	if e := c.known(ctx, key); e != nil {
		return e.value, e.err
	}
	f, err := c.join(ctx, key)
	if err != nil {
		var none V
		return none, err
	}
	return f.wait(ctx, c.ctx)
}

// known returns what is kept of a key if it may be returned, else nil.
func (c *Cache[K, V]) known(ctx context.Context, key K) *entry[V] {
	e, ok := c.kept.GetIfPresent(key)
	if !ok || e.epoch != c.epochs.Now() {
		c.count.misses.add()
		return nil
	}
	switch now := c.now(); {
	case now < e.fresh:
		c.count.hits.add()
		return e
	case e.found && now < e.end:
		c.count.hits.add()
		c.count.stale.Add(1)
		if now >= e.retry {
			c.refresh(ctx, key)
		}
		return e
	}
	c.count.misses.add()
	return nil
}

// Invalidate forgets keys. It is for whoever changes what the loader reads: change it
// first, then call this.
func (c *Cache[K, V]) Invalidate(keys ...K) {
	for _, key := range keys {
		l := c.lane(key)
		l.mu.Lock()
		if f := l.flights[key]; f != nil {
			f.load.Invalidate()
		}
		c.kept.Invalidate(key)
		l.mu.Unlock()
	}
	c.count.invalidations.Add(uint64(len(keys)))
}

// Flush forgets everything.
func (c *Cache[K, V]) Flush() {
	c.epochs.Flush()
	c.forget()
}

// forget gives back the memory of what an older epoch has left.
func (c *Cache[K, V]) forget() {
	c.count.flushes.Add(1)
	c.kept.InvalidateAll()
}
