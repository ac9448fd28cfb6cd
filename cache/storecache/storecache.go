// Package storecache makes caches of package cache that forget what is written to a store.
//
//	prices, err := storecache.New(db, storecache.Keys(changed), cache.Options[string, Price]{Load: fromDatabase})
//	if err != nil { … }
//	defer prices.Close()
//	price, err := prices.Get(ctx, "tea")
//
// It stands apart so that a user of package cache alone does not import the store.
//
// # Limits
//
// Keys of a keyspace that was dropped are not in the feed: they stay until their TTL ends, or
// call Flush. A key of the store that expires is there when it is removed, some tenths of a
// second later.
package storecache

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/cache"
)

// New makes a cache that follows the feed of a store: see [Follow]. What Load returns of the
// store, cleave.ErrNotFound, means that there is no value, unless Options.NotFound says
// otherwise. Close the cache.
func New[K comparable, V any](db *cleave.DB, keys func(cleave.ChangeOp) []K, o cache.Options[K, V]) (*cache.Cache[K, V], error) {
	if o.NotFound == nil {
		o.NotFound = cleave.ErrNotFound
	}
	c, err := cache.New(o)
	if err != nil {
		return nil, err
	}
	if err := Follow(c, db, keys); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Follow makes a cache forget everything, and from then on what the feed of a store names: keys
// returns the keys of the cache that a change is about, of any keyspace, or nil. It is called by
// one goroutine, and must not wait for this cache. Follow returns at once; what it began ends
// with Close of the cache or of the store. A cache follows one feed.
//
// If the feed breaks off, or has gone further than it is kept, everything is forgotten, and
// until it goes on every Get loads.
func Follow[K comparable, V any](c *cache.Cache[K, V], db *cleave.DB, keys func(cleave.ChangeOp) []K) error {
	if db == nil || keys == nil {
		return fmt.Errorf("%w: Follow needs a store and a function for keys", cache.ErrOptions)
	}
	return c.Follow(feed[K]{db, keys})
}

// Keys returns a function for Follow, for a cache whose keys are those of a keyspace.
func Keys(k *cleave.Keyspace) func(cleave.ChangeOp) []string {
	name := k.Name()
	return func(op cleave.ChangeOp) []string {
		if op.Keyspace != name {
			return nil
		}
		return []string{string(op.Key)}
	}
}

// Wait returns when the cache has received all that was committed before a place in the feed of
// the store that it follows: a Get after that returns nothing older. After a write of one's own
// the place is cleave.DB.StableHead.
func Wait[K comparable, V any](ctx context.Context, c *cache.Cache[K, V], place cleave.Cursor) error {
	return c.Wait(ctx, cache.Place(place))
}

// feed is the feed of a store as a cache follows it.
type feed[K comparable] struct {
	db   *cleave.DB
	keys func(cleave.ChangeOp) []K
}

// Now implements [cache.Source].
func (f feed[K]) Now() cache.Place { return cache.Place(f.db.Head()) }

// Covers implements [cache.Source].
func (f feed[K]) Covers(at, place cache.Place) bool {
	return cleave.Cursor(at).Covers(cleave.Cursor(place))
}

// Changes implements [cache.Source].
func (f feed[K]) Changes(ctx context.Context, from cache.Place) iter.Seq2[cache.Change[K], error] {
	return func(yield func(cache.Change[K], error) bool) {
		var keys []K
		for change, err := range f.db.Feed(ctx, cleave.FeedOptions{From: cleave.Cursor(from), Progress: true}) {
			if errors.Is(err, cleave.ErrClosed) || errors.Is(err, cleave.ErrFailed) {
				err = fmt.Errorf("%w: %w", cache.ErrSourceEnded, err)
			}
			keys = keys[:0]
			for _, op := range change.Ops {
				keys = append(keys, f.keys(op)...)
			}
			if !yield(cache.Change[K]{Keys: keys, After: cache.Place(change.After)}, err) || err != nil {
				return
			}
		}
	}
}
