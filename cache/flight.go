package cache

import (
	"context"
	"hash/maphash"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/fresh"
	"github.com/cleavekv/cleave/internal/plant"
)

// lanes is over how many locks loads are spread. A lock is held for a lookup.
const lanes = 64

// lane has the loads of some of the keys.
type lane[K comparable, V any] struct {
	mu sync.Mutex
	// flights are the loads under way. Invariant: of each key at most one.
	flights map[K]*flight[V]
}

// flight is one load.
type flight[V any] struct {
	ctx  context.Context // of who asked first: its values are the loader's
	done chan struct{}   // closed when value and err are there
	// load tells whether its value may be kept. If not it goes to those who wait for it,
	// who came before, and to nobody else. Under the lane's lock.
	load  fresh.Load
	began time.Duration
	// next is the load that begins when this one ends, for those who came after it had
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

func (c *Cache[K, V]) lane(key K) *lane[K, V] {
	return &c.lanes[maphash.Comparable(c.seed, key)%lanes]
}

// join returns the load of a key that a caller of now may wait for, and begins it if
// there is none.
func (c *Cache[K, V]) join(ctx context.Context, key K) (*flight[V], error) {
	f, mine, err := c.claim(ctx, key)
	if mine && err == nil {
		go c.run(key, f)
	}
	return f, err
}

// claim returns the load of a key that a caller of now may wait for, and whether it is
// the caller's to run.
func (c *Cache[K, V]) claim(ctx context.Context, key K) (f *flight[V], mine bool, err error) {
	if same := key; same != key {
		return nil, false, ErrKey
	}
	l := c.lane(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	epoch := c.epochs.Now()
	if f := l.flights[key]; f != nil && !plant.Bug("cache-two-loads") {
		if f.load.Fresh(epoch) {
			c.count.joined.Add(1)
			return f, false, nil
		}
		// What it brings may be older than the call. There is one load at a time, so
		// the next one waits for it.
		if f.next == nil {
			f.next = newFlight[V](ctx)
		}
		c.count.joined.Add(1)
		return f.next, false, nil
	}
	// The load that the caller has missed may just have ended.
	if e, ok := c.kept.GetIfPresent(key); ok && e.epoch == epoch && c.now() < e.fresh {
		f := newFlight[V](ctx)
		f.value, f.err = e.value, e.err
		close(f.done)
		return f, false, nil
	}
	if err := c.begin(); err != nil {
		return nil, false, err
	}
	f = newFlight[V](ctx)
	f.load.Epoch, f.began = epoch, c.now()
	l.flights[key] = f
	return f, true, nil
}

// refresh loads a key again, if nobody does, and does not wait for it.
func (c *Cache[K, V]) refresh(ctx context.Context, key K) {
	l := c.lane(key)
	l.mu.Lock()
	wait := l.flights[key] != nil
	if e, ok := c.kept.GetIfPresent(key); ok && c.now() < e.retry {
		wait = true // a load has just ended in vain
	}
	l.mu.Unlock()
	if !wait {
		_, _ = c.join(ctx, key) // of a closed cache the value is as good as before
	}
}

// run loads a key.
func (c *Cache[K, V]) run(key K, f *flight[V]) {
	defer c.done.Done()
	var value V
	err := errExit
	defer func() {
		if p := recover(); p != nil {
			var none V
			value, err = none, &PanicError{Value: p, Stack: debug.Stack()}
		}
		c.land(key, f, value, err)
	}()
	ctx, cancel := c.loadContext(f.ctx)
	defer cancel()
	defer c.count.load()(&err)
	value, err = c.load(ctx, key)
	f.size = c.size(key, value)
}

// size is what a key with its value takes. It is asked where a panic is an error of the
// load, and not where locks are held.
func (c *Cache[K, V]) size(key K, value V) int {
	if c.opts.Size == nil {
		return 0
	}
	return max(c.opts.Size(key, value), 0)
}

// load asks the loader for one key.
func (c *Cache[K, V]) load(ctx context.Context, key K) (V, error) {
	if c.opts.Load != nil {
		return c.opts.Load(ctx, key)
	}
	many, err := c.opts.LoadMany(ctx, []K{key})
	value, ok := many[key]
	if err == nil && !ok {
		err = cleave.ErrNotFound
	}
	return value, err
}

// loadContext is what a loader is given: the values of who asked first, but no end of
// theirs.
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

// land ends a load: it keeps what it has come to, if nothing happened to the key since
// it began, gives it to those who wait, and begins the next.
func (c *Cache[K, V]) land(key K, f *flight[V], value V, err error) {
	if err != nil && c.ctx.Err() != nil {
		err = ErrClosed // which is why its context has ended
	}
	f.value, f.err = value, err
	l := c.lane(key)
	l.mu.Lock()
	// If there is a flush right after this the entry is of an older epoch, and not seen.
	if f.load.Fresh(c.epochs.Now()) {
		c.keep(key, f)
	} else {
		c.count.discarded.Add(1)
	}
	next := f.next
	if next != nil && c.begin() != nil {
		next.err = ErrClosed
		close(next.done)
		next = nil
	}
	if next != nil {
		next.load.Epoch, next.began = c.epochs.Now(), c.now()
		l.flights[key] = next
	} else if l.flights[key] == f {
		delete(l.flights, key)
	}
	l.mu.Unlock()
	close(f.done)
	if next != nil {
		go c.run(key, next)
	}
}

// keep puts what a load has come to into the cache. The lane is locked.
func (c *Cache[K, V]) keep(key K, f *flight[V]) {
	old, ok := c.kept.GetIfPresent(key)
	if !ok || old.epoch != f.load.Epoch {
		old = nil
	}
	e := c.entryOf(old, f)
	switch {
	case e == nil:
		c.kept.Invalidate(key)
	case e != old:
		e.epoch = f.load.Epoch
		c.kept.Set(key, e)
	}
}
