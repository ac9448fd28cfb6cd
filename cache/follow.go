package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// feedState is how far a cache has come with a feed.
type feedState struct {
	mu            sync.Mutex
	started       bool
	err           error         // why it follows no more for now, or nil
	invalidatedTo Place         // all up to here is invalidated
	changed       chan struct{} // closed at the next change of the above; nil without waiters
	place         func() Place  // of the source, as covers
	covers        func(at, place Place) bool
}

// setProgress notes a change, and wakes the goroutines that wait for one.
func (f *feedState) setProgress(passed Place, ended error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.invalidatedTo, f.err = passed, ended
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *feedState) loadStatus() (following bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started && f.err == nil, f.err
}

// Place is a place in what a source yields, in an encoding of its own.
type Place string

// Change is what a source yields: keys of the cache whose values have changed.
type Change[K comparable] struct {
	// Keys may be none. The cache is done with the slice when it asks for the next change.
	Keys []K
	// After is the place behind the change.
	After Place
}

// Source notifies a cache of what has changed: see [Cache.Follow]. Package storecache has that of a
// store.
type Source[K comparable] interface {
	// Now returns the place behind all that has changed so far.
	Now() Place
	// Changes yields what changes behind a place, in an order in which no change comes before
	// one that a reader of the other could have seen, until ctx ends. An error ends it: then the
	// cache forgets everything, and begins again at Now, unless it is [ErrSourceEnded].
	Changes(ctx context.Context, from Place) iter.Seq2[Change[K], error]
	// Covers reports whether all that comes before a place comes before at, too.
	Covers(at, place Place) bool
}

// Follow forgets everything, and from then on what a source yields. The source is used by one
// goroutine, and must not wait for this cache. Follow returns at once; what it began ends with
// Close of the cache, or when the source ends. A cache follows one source.
func (c *Cache[K, V]) Follow(from Source[K]) error {
	if from == nil {
		return fmt.Errorf("%w: Follow needs a source", ErrOptions)
	}
	c.feed.mu.Lock()
	begun := c.feed.started
	if !begun {
		c.feed.started, c.feed.place, c.feed.covers = true, from.Now, from.Covers
	}
	c.feed.mu.Unlock()
	if begun {
		return ErrFollowing
	}
	if err := c.beginTask(); err != nil {
		return err
	}
	at := c.resumeFeed(from)
	go func() {
		defer c.wg.Done()
		for attempt := 0; ; attempt++ {
			began := time.Now()
			err := c.readFeed(from, at)
			c.interruptFeed(err)
			if c.ctx.Err() != nil || errors.Is(err, ErrSourceEnded) {
				return // for good
			}
			if time.Since(began) > time.Second {
				attempt = 0
			}
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(c.withJitter(minFeedRetryPause<<min(attempt, 7), 0.5)):
			}
			at = c.resumeFeed(from)
		}
	}()
	return nil
}

// minFeedRetryPause is how long it takes at first to follow a feed again that broke off.
const minFeedRetryPause = 10 * time.Millisecond

// readFeed invalidates the keys of the feed, until it breaks off.
func (c *Cache[K, V]) readFeed(from Source[K], at Place) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: the source of changes panicked: %v", p)
		}
	}()
	for change, err := range from.Changes(c.ctx, at) {
		if err != nil {
			return err
		}
		c.Invalidate(change.Keys...)
		// Only now: a caller that waits for this place sees every change before it.
		c.feed.setProgress(change.After, nil)
	}
	return errors.New("cache: the feed has ended")
}

// interruptFeed forgets everything and keeps nothing: changes meanwhile are missed.
func (c *Cache[K, V]) interruptFeed(err error) {
	c.epochs.Interrupt()
	c.discardEntries()
	c.feed.setProgress("", err)
}

// resumeFeed begins to keep what is loaded from now on, and returns the place from which the
// feed is to be read. The place comes first: a load of the new epoch reads what was
// there at that place, or something newer that the feed reports.
func (c *Cache[K, V]) resumeFeed(from Source[K]) Place {
	at := from.Now()
	c.epochs.Resume()
	c.discardEntries()
	c.feed.setProgress(at, nil)
	return at
}

// Wait returns when the cache has received all that has changed before a place in the
// source that it follows: a Get after that returns nothing older. While the feed is interrupted nothing is kept, so that there
// is nothing to wait for.
func (c *Cache[K, V]) Wait(ctx context.Context, place Place) error {
	f := &c.feed
	for {
		f.mu.Lock()
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		begun, ended, passed, moved := f.started, f.err, f.invalidatedTo, f.changed
		now, covers := f.place, f.covers
		f.mu.Unlock()
		switch {
		case c.ctx.Err() != nil:
			return ErrClosed
		case !begun:
			return ErrNotFollowing
		case ended != nil || covers(passed, place):
			return nil
		case !covers(now(), place):
			return fmt.Errorf("%w: %q is no place in what the cache follows: use one of its Now", ErrOptions, place)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
}
