package cache

import (
	"errors"
	"math"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/fresh"
)

// entry is what is known of a key. It never changes; times are since the cache was made.
type entry[V any] struct {
	value V
	// err is what to return while the entry is fresh: nil for a value, else that there
	// is none, or why it could not be loaded.
	err   error
	found bool // value is one
	epoch fresh.Epoch
	// fresh is until when it is returned as it is, end until when its value is returned
	// while it is loaded again, but not before retry.
	fresh, end, retry time.Duration
	failures          int // in a row
	size              int // as Options.Size has it
}

// forever is longer than any cache lives.
const forever = time.Duration(math.MaxInt64)

// entryOf makes an entry of what a load has come to, nil if that is not to be kept. old
// is what was known before, or nil. The value may be as old as its load, so that is when
// its TTL begins.
func (c *Cache[K, V]) entryOf(old *entry[V], f *flight[V]) *entry[V] {
	o, now, err := &c.opts, c.now(), f.err
	switch {
	case err == nil:
		e := &entry[V]{value: f.value, found: true, size: f.size, fresh: after(f.began, c.cut(o.TTL, o.Jitter))}
		e.end = after(e.fresh, o.StaleFor)
		if o.TTL == 0 {
			e.fresh, e.end = forever, forever
		}
		return e
	case errors.Is(err, cleave.ErrNotFound):
		if o.NotFoundTTL == 0 {
			return nil
		}
		return &entry[V]{err: err, size: f.size, fresh: after(f.began, c.cut(o.NotFoundTTL, o.Jitter))}
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
	retry := after(now, c.cut(wait, 0.5))
	if old != nil && old.found && now < old.end {
		e := *old
		e.retry, e.failures = retry, failures
		return &e
	}
	return &entry[V]{err: err, size: f.size, fresh: retry, failures: failures}
}

// cut shortens d by up to a share of it.
func (c *Cache[K, V]) cut(d time.Duration, share float64) time.Duration {
	return d - time.Duration(c.random()*share*float64(d))
}

func after(now, d time.Duration) time.Duration {
	if now > forever-d {
		return forever
	}
	return now + d
}
