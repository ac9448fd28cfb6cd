package sim

import (
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/patterns/freshness"
)

// A cache of registers, loaded by reads and invalidated by the feed, as package cache has
// them: whether a load is good for a given caller, and may be kept, is decided by package
// fresh. One load at a time for each key, what waits for it, and that a key is invalidated
// before its place counts as passed follows cache/flight.go and cache/follow.go, whose
// loads are goroutines and whose values are in a library.

type cacheModel struct {
	w      *world
	rng    *rand.Rand
	epochs freshness.EpochClock
	// cursor is the place up to which all was received; nil while no feed is followed.
	cursor feedCursor
	// heardCommits are the last commits that it was notified of, by position. No caller may get
	// something older.
	heardCommits map[string]uint64
	values       map[string]cachedValue
	loads        map[string]*cachedLoad
}

// cachedValue is a value by the commit that it is of.
type cachedValue struct {
	epoch  freshness.Epoch
	serial uint64
}

// cachedLoad is a load under way, with its waiters.
type cachedLoad struct {
	freshness.Load
	waiters []uint64 // what had been received when each of them came
	next    *cachedLoad
}

func newCacheModel(w *world) *cacheModel {
	c := &cacheModel{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xcac)), heardCommits: map[string]uint64{}}
	c.values, c.loads = map[string]cachedValue{}, map[string]*cachedLoad{}
	return c
}

// interrupt interrupts the feed: the cache is in a process that does not notice the crash of
// stores but by that.
func (c *cacheModel) interrupt() {
	if c.cursor == nil {
		return
	}
	c.cursor = nil
	c.epochs.Interrupt()
	c.w.addCount("caches interrupted")
}

// runCache follows the feed, and asks for some keys.
func (c *cacheModel) runCache() {
	if c.cursor == nil {
		if c.rng.IntN(3) == 0 {
			c.resumeFeed()
		}
	} else if c.rng.IntN(40) == 0 {
		c.interrupt()
	} else {
		for i := range c.cursor {
			if c.rng.IntN(2) == 0 {
				c.readChanges(i, 1+c.rng.IntN(8))
			}
		}
	}
	for range 3 {
		c.getRegister(makeKey(pickWith(c.rng, letters[:3]), "reg", c.rng.IntN(2))) // where most write
	}
}

// resumeFeed follows the feed from now on. A waiter for a place before it waits no more.
func (c *cacheModel) resumeFeed() {
	here, ok := c.w.endCursor()
	if !ok {
		return
	}
	c.epochs.Resume()
	c.cursor = here
	for k, serial := range c.w.lastCommits {
		c.heardCommits[k] = serial
	}
}

// readChanges receives changes.
func (c *cacheModel) readChanges(from, limit int) {
	t := feedTail{w: c.w, cursor: c.cursor}
	t.readStore(from, limit, func(x *observedCommit) bool {
		for _, row := range x.rows {
			if l := c.loads[row.key]; l != nil {
				l.Invalidate()
			}
			delete(c.values, row.key)
		}
		for _, row := range x.rows {
			c.heardCommits[row.key] = x.serial
		}
		return true
	})
}

// checkValue checks that a caller that came when so much had been received gets nothing older.
func (c *cacheModel) checkValue(k string, serial, heard uint64, what string) {
	if serial < heard {
		c.w.failf("a cache gives %q as of commit %d, %s, and had heard of %d", k, serial, what, heard)
	}
	c.w.addCount("values of a cache, " + what)
}

// getRegister asks for a register.
func (c *cacheModel) getRegister(k string) {
	p := string(positionOf(k))
	now := c.epochs.Current()
	if v, ok := c.values[p]; ok && v.epoch == now {
		c.checkValue(k, v.serial, c.heardCommits[p], "from memory")
		return
	}
	l := c.loads[p]
	switch {
	case l == nil:
		l = &cachedLoad{Load: freshness.Load{Epoch: now}}
		c.loads[p] = l
		c.startLoad(k, l)
	case !l.IsFresh(now): // there is one load at a time, so the next waits for it
		if l.next == nil {
			l.next = new(cachedLoad)
		}
		l = l.next
	}
	l.waiters = append(l.waiters, c.heardCommits[p])
}

// startLoad reads a register. It fails if no answer comes.
func (c *cacheModel) startLoad(k string, l *cachedLoad) {
	w, p, over := c.w, string(positionOf(k)), false
	land := func(serial uint64, ok bool) {
		if over {
			return
		}
		over = true
		c.finishLoad(k, l, serial, ok)
	}
	w.scheduleAfter(100*millisecond, func() { land(0, false) })
	w.scheduleAfter(c.rng.Int64N(10*millisecond), func() {
		place, err := w.findHost(w.router.Owner(positionOf(k)).Group)
		if err != nil {
			return
		}
		// What it reads is of the last commit to the key, or newer: of a transaction
		// that is decided.
		serial := w.lastCommits[p]
		if _, err := makeReadVisit(k)(place); err != nil {
			return
		}
		w.scheduleAfter(c.rng.Int64N(60*millisecond), func() { land(serial, true) })
	})
}

// finishLoad ends a load.
func (c *cacheModel) finishLoad(k string, l *cachedLoad, serial uint64, ok bool) {
	p := string(positionOf(k))
	if ok {
		for _, heard := range l.waiters {
			c.checkValue(k, serial, heard, "from a load")
		}
		if now := c.epochs.Current(); l.IsFresh(now) {
			c.values[p] = cachedValue{now, serial}
		} else {
			c.w.addCount("loads of a cache that were not kept")
		}
	}
	delete(c.loads, p)
	if next := l.next; next != nil {
		next.Epoch = c.epochs.Current()
		c.loads[p] = next
		c.startLoad(k, next)
	}
}
