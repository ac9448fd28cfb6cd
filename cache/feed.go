package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
)

// feedState is how far a cache has come with a feed.
type feedState struct {
	mu            sync.Mutex
	started       bool
	err           error         // why it follows no more for now, or nil
	invalidatedTo cleave.Cursor // all up to here is invalidated
	changed       chan struct{} // closed at the next change of the above; nil if nobody waits
	source        changeFeed
}

// setProgress notes a change, and wakes those who wait for one.
func (f *feedState) setProgress(passed cleave.Cursor, ended error) {
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

// Follow forgets everything, and from then on what the feed of a store tells of: keys
// returns the keys of the cache that a change is about, of any keyspace, or nil. It is
// called by one goroutine, and must not wait for this cache. Follow returns at once; what
// it began ends with Close of the cache or of the store. A cache follows one feed.
func (c *Cache[K, V]) Follow(db *cleave.DB, keys func(cleave.ChangeOp) []K) error {
	if db == nil || keys == nil {
		return fmt.Errorf("%w: Follow needs a store and a function for keys", ErrOptions)
	}
	return c.followFeed(newChangeFeed(db), keys)
}

// changeFeed is what is followed: a store's.
type changeFeed struct {
	now      func() cleave.Cursor
	progress func(context.Context, cleave.Cursor) iter.Seq2[cleave.Change, error]
}

func newChangeFeed(db *cleave.DB) changeFeed { return changeFeed{db.Head, db.Progress} }

func (c *Cache[K, V]) followFeed(from changeFeed, keys func(cleave.ChangeOp) []K) error {
	c.feed.mu.Lock()
	begun := c.feed.started
	if !begun {
		c.feed.started, c.feed.source = true, from
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
			err := c.readFeed(from, at, keys)
			c.interruptFeed(err)
			if c.ctx.Err() != nil || errors.Is(err, cleave.ErrClosed) || errors.Is(err, cleave.ErrFailed) {
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

// readFeed invalidates what the feed tells of, until it breaks off.
func (c *Cache[K, V]) readFeed(from changeFeed, at cleave.Cursor, keys func(cleave.ChangeOp) []K) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: the function for keys panicked: %v", p)
		}
	}()
	for change, err := range from.progress(c.ctx, at) {
		if err != nil {
			return err
		}
		for _, op := range change.Ops {
			c.Invalidate(keys(op)...)
		}
		// Only now: who waits for this place reads what is told before it.
		c.feed.setProgress(change.After, nil)
	}
	return errors.New("cache: the feed has ended")
}

// interruptFeed forgets everything and keeps nothing: what is told meanwhile is not heard.
func (c *Cache[K, V]) interruptFeed(err error) {
	if plant.Bug("cache-gap-without-flush") {
		return
	}
	c.epochs.Interrupt()
	c.discardEntries()
	c.feed.setProgress("", err)
}

// resumeFeed begins to keep what is loaded from now on, and returns the place from which the
// feed is to be read. The place comes first: a load of the new epoch reads what was
// there at that place, or something newer that the feed tells of.
func (c *Cache[K, V]) resumeFeed(from changeFeed) cleave.Cursor {
	at := from.now()
	if plant.Bug("cache-gap-without-flush") {
		c.feed.setProgress(at, nil)
		return at
	}
	c.epochs.Resume()
	c.discardEntries()
	c.feed.setProgress(at, nil)
	return at
}

// Wait returns when the cache has heard of all that was committed before a place in the
// feed that it follows: a Get after that returns nothing older. After a write of one's own
// the place is cleave.DB.Settled. While the feed is interrupted nothing is kept, so that there
// is nothing to wait for.
func (c *Cache[K, V]) Wait(ctx context.Context, place cleave.Cursor) error {
	f := &c.feed
	for {
		f.mu.Lock()
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		begun, ended, passed, moved, from := f.started, f.err, f.invalidatedTo, f.changed, f.source
		f.mu.Unlock()
		switch {
		case c.ctx.Err() != nil:
			return ErrClosed
		case !begun:
			return ErrNotFollowing
		case ended != nil || passed.Covers(place):
			return nil
		case !from.now().Covers(place):
			return fmt.Errorf("%w: %q is no place in the feed that the cache follows: use one of its Now", ErrOptions, place)
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
