package cache

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/patterns/freshness"
)

// flightShards is over how many locks loads are spread. A lock is held for a lookup.
const flightShards = 64

// flightShard has the loads of some of the keys.
type flightShard[K comparable, V any] struct {
	mu sync.Mutex
	// flights are the loads under way. Invariant: of each key at most one.
	flights map[K]*flight[V]
}

// flight is one load.
type flight[V any] struct {
	ctx  context.Context // of the first caller: its values are the loader's
	done chan struct{}   // closed when value and err are there
	// load reports whether its value may be kept. If not it goes only to the callers that
	// wait for it, all of which came before. Under the lane's lock.
	load      freshness.Load
	startedAt time.Duration
	// next is the load that begins when this one ends, for callers that came after it had
	// become stale. Under the lane's lock.
	next *flight[V]

	value V
	err   error
	size  int // as Options.Size has it
}

func newFlight[V any](ctx context.Context) *flight[V] {
	return &flight[V]{ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
}

// wait returns what the load comes to, unless ctx ends or the cache is closed first.
func (f *flight[V]) wait(ctx, closing context.Context) (V, error) {
	var none V
	select {
	case <-f.done:
		return f.value, f.err
	default:
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-closing.Done():
		return none, ErrClosed
	}
}

func (c *Cache[K, V]) findFlightShard(key K) *flightShard[K, V] {
	return &c.flights[maphash.Comparable(c.seed, key)%flightShards]
}

// joinFlight returns the load of a key that a caller of now may wait for, and begins it if
// there is none.
func (c *Cache[K, V]) joinFlight(ctx context.Context, key K) (*flight[V], error) {
	f, mine, err := c.getOrCreateFlight(ctx, key)
	if mine && err == nil {
		go c.runLoad(key, f)
	}
	return f, err
}

// getOrCreateFlight returns the load of a key that a caller of now may wait for, and whether it is
// the caller's to run.
func (c *Cache[K, V]) getOrCreateFlight(ctx context.Context, key K) (f *flight[V], mine bool, err error) {
	if same := key; same != key {
		return nil, false, ErrKey
	}
	l := c.findFlightShard(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	epoch := c.epochs.Current()
	if f := l.flights[key]; f != nil {
		if f.load.IsFresh(epoch) {
			c.counters.joined.Add(1)
			return f, false, nil
		}
		// What it brings may be older than the call. There is one load at a time, so
		// the next one waits for it.
		if f.next == nil {
			f.next = newFlight[V](ctx)
		}
		c.counters.joined.Add(1)
		return f.next, false, nil
	}
	// The load that the caller has missed may just have ended.
	if e, ok := c.entries.GetIfPresent(key); ok && e.epoch == epoch && c.elapsed() < e.freshUntil {
		f := newFlight[V](ctx)
		f.value, f.err = e.value, e.err
		close(f.done)
		return f, false, nil
	}
	if err := c.beginTask(); err != nil {
		return nil, false, err
	}
	f = newFlight[V](ctx)
	f.load.Epoch, f.startedAt = epoch, c.elapsed()
	l.flights[key] = f
	return f, true, nil
}

// refreshInBackground loads a key again, unless a load is under way, and does not wait for it.
func (c *Cache[K, V]) refreshInBackground(ctx context.Context, key K) {
	l := c.findFlightShard(key)
	l.mu.Lock()
	wait := l.flights[key] != nil
	if e, ok := c.entries.GetIfPresent(key); ok && c.elapsed() < e.retryAt {
		wait = true // a load has just ended in vain
	}
	l.mu.Unlock()
	if !wait {
		_, _ = c.joinFlight(ctx, key) // of a closed cache the value is as good as before
	}
}

// runLoad loads a key.
func (c *Cache[K, V]) runLoad(key K, f *flight[V]) {
	defer c.wg.Done()
	var value V
	err := errExit
	defer func() {
		if p := recover(); p != nil {
			var none V
			value, err = none, &PanicError{Value: p, Stack: debug.Stack()}
		}
		c.finishLoad(key, f, value, err)
	}()
	ctx, cancel := c.loadContext(f.ctx)
	defer cancel()
	defer c.startLoadTimer()(&err)
	value, err = c.callLoader(ctx, key)
	f.size = c.measureEntry(key, value)
}

// measureEntry is what a key with its value takes. It is asked where a panic is an error of the
// load, and not where locks are held.
func (c *Cache[K, V]) measureEntry(key K, value V) int {
	if c.opts.Size == nil {
		return 0
	}
	return max(c.opts.Size(key, value), 0)
}

// callLoader asks the loader for one key.
func (c *Cache[K, V]) callLoader(ctx context.Context, key K) (V, error) {
	if c.opts.Load != nil {
		return c.opts.Load(ctx, key)
	}
	many, err := c.opts.LoadMany(ctx, []K{key})
	value, ok := many[key]
	if err == nil && !ok {
		err = c.opts.notFound()
	}
	return value, err
}

// loadContext is the context of a loader: it has the values of the first caller's context, but does not
// end with it.
func (c *Cache[K, V]) loadContext(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if c.opts.LoadTimeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.opts.LoadTimeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	detach := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { detach(); cancel() }
}

// finishLoad ends a load: it keeps what it has come to, if nothing happened to the key since
// it began, gives it to the waiting callers, and begins the next.
func (c *Cache[K, V]) finishLoad(key K, f *flight[V], value V, err error) {
	if err != nil && c.ctx.Err() != nil {
		err = ErrClosed // which is why its context has ended
	}
	f.value, f.err = value, err
	l := c.findFlightShard(key)
	l.mu.Lock()
	// If there is a flush right after this the entry is of an older epoch, and not seen.
	if f.load.IsFresh(c.epochs.Current()) {
		c.storeResult(key, f)
	} else {
		c.counters.discarded.Add(1)
	}
	next := f.next
	if next != nil && c.beginTask() != nil {
		next.err = ErrClosed
		close(next.done)
		next = nil
	}
	if next != nil {
		next.load.Epoch, next.startedAt = c.epochs.Current(), c.elapsed()
		l.flights[key] = next
	} else if l.flights[key] == f {
		delete(l.flights, key)
	}
	l.mu.Unlock()
	close(f.done)
	if next != nil {
		go c.runLoad(key, next)
	}
}

// storeResult puts what a load has come to into the cache. The lane is locked.
func (c *Cache[K, V]) storeResult(key K, f *flight[V]) {
	old, ok := c.entries.GetIfPresent(key)
	if !ok || old.epoch != f.load.Epoch {
		old = nil
	}
	e := c.newEntry(old, f)
	switch {
	case e == nil:
		c.entries.Invalidate(key)
	case e != old:
		e.epoch = f.load.Epoch
		c.entries.Set(key, e)
	}
}

// GetMany returns the values of several keys by key. Those that are not found are left
// out. Keys that are not in memory are loaded by one call of LoadMany, or all at once if
// there is none. If some could not be loaded, the error is theirs, all of them joined, and
// the others are returned.
func (c *Cache[K, V]) GetMany(ctx context.Context, keys ...K) (map[K]V, error) {
	found := make(map[K]V, len(keys))
	flights := map[K]*flight[V]{}
	var load []K
	var errs []error
	for _, key := range keys {
		_ = flights[key] // one that cannot be hashed panics before a caller waits for the load of another
	}
	for _, key := range keys {
		if _, ok := flights[key]; ok {
			continue
		}
		if e := c.lookupEntry(ctx, key); e != nil {
			errs = c.addResult(found, errs, key, e.value, e.err)
			continue
		}
		f, mine, err := c.joinForMany(ctx, key)
		if err != nil {
			errs = append(errs, err)
			break
		}
		if flights[key] = f; mine {
			load = append(load, key)
		}
	}
	if len(load) > 0 {
		mine := make([]*flight[V], len(load))
		for i, key := range load {
			mine[i] = flights[key]
		}
		go c.runMany(load, mine)
	}
	for key, f := range flights {
		value, err := f.wait(ctx, c.ctx)
		errs = c.addResult(found, errs, key, value, err)
	}
	return found, errors.Join(errs...)
}

// joinForMany returns the load of a key, and whether the caller is to bring it to LoadMany.
func (c *Cache[K, V]) joinForMany(ctx context.Context, key K) (f *flight[V], mine bool, err error) {
	if c.opts.LoadMany != nil {
		return c.getOrCreateFlight(ctx, key)
	}
	f, err = c.joinFlight(ctx, key)
	return f, false, err
}

// addResult adds what is known of a key to what was found, or to what went wrong.
func (c *Cache[K, V]) addResult(found map[K]V, errs []error, key K, value V, err error) []error {
	switch {
	case err == nil:
		found[key] = value
	case c.isNotFound(err):
	case len(errs) == 0 || !errors.Is(errs[len(errs)-1], err): // that of one load once
		errs = append(errs, err)
	}
	return errs
}

// runMany loads several keys at once.
func (c *Cache[K, V]) runMany(keys []K, flights []*flight[V]) {
	var many map[K]V
	err := errExit
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		for i, key := range keys {
			value, ok := many[key]
			failed := err
			if failed == nil && !ok {
				failed = c.opts.notFound()
			}
			c.finishLoad(key, flights[i], value, failed)
			c.wg.Done()
		}
	}()
	ctx, cancel := c.loadContext(flights[0].ctx)
	defer cancel()
	defer c.startLoadTimer()(&err)
	many, err = c.opts.LoadMany(ctx, keys)
	for i, key := range keys {
		flights[i].size = c.measureEntry(key, many[key])
	}
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
