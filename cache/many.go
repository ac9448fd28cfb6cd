package cache

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/cleavekv/cleave"
)

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
		_ = flights[key] // one that cannot be hashed panics before anybody waits for the load of another
	}
	for _, key := range keys {
		if _, ok := flights[key]; ok {
			continue
		}
		if e := c.known(ctx, key); e != nil {
			errs = result(found, errs, key, e.value, e.err)
			continue
		}
		f, mine, err := c.fly(ctx, key)
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
		errs = result(found, errs, key, value, err)
	}
	return found, errors.Join(errs...)
}

// fly returns the load of a key, and whether the caller is to bring it to LoadMany.
func (c *Cache[K, V]) fly(ctx context.Context, key K) (f *flight[V], mine bool, err error) {
	if c.opts.LoadMany != nil {
		return c.claim(ctx, key)
	}
	f, err = c.join(ctx, key)
	return f, false, err
}

// result adds what is known of a key to what was found, or to what went wrong.
func result[K comparable, V any](found map[K]V, errs []error, key K, value V, err error) []error {
	switch {
	case err == nil:
		found[key] = value
	case errors.Is(err, cleave.ErrNotFound):
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
				failed = cleave.ErrNotFound
			}
			c.land(key, flights[i], value, failed)
			c.done.Done()
		}
	}()
	ctx, cancel := c.loadContext(flights[0].ctx)
	defer cancel()
	defer c.count.load()(&err)
	many, err = c.opts.LoadMany(ctx, keys)
	for i, key := range keys {
		flights[i].size = c.size(key, many[key])
	}
}
