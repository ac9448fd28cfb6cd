package sim

import (
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/fresh"
)

// A cache of registers, loaded by reads and invalidated by the feed, as package cache has
// them: whether a load is good for one who asks, and may be kept, is decided by package
// fresh. One load at a time for each key, what waits for it, and that a key is invalidated
// before its place counts as passed follows cache/flight.go and cache/follow.go, whose
// loads are goroutines and whose values are in a library.

type cached struct {
	w      *world
	rng    *rand.Rand
	epochs fresh.Epochs
	// passed is the place up to which all was heard; nil while no feed is followed.
	passed places
	// heard are the last commits that it has heard of, by position. Nobody may be given
	// something older.
	heard map[string]uint64
	kept  map[string]cachedValue
	loads map[string]*cachedLoad
}

// cachedValue is a value by the commit that it is of.
type cachedValue struct {
	epoch  fresh.Epoch
	serial uint64
}

// cachedLoad is a load under way, with those who wait for it.
type cachedLoad struct {
	fresh.Load
	waiters []uint64 // what had been heard when each of them came
	next    *cachedLoad
}

func newCached(w *world) *cached {
	c := &cached{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xcac)), heard: map[string]uint64{}}
	c.kept, c.loads = map[string]cachedValue{}, map[string]*cachedLoad{}
	return c
}

// die interrupts the feed: the cache is in a process that does not notice the crash of
// stores but by that.
func (c *cached) die() {
	if c.passed == nil {
		return
	}
	c.passed = nil
	c.epochs.Interrupt()
	c.w.count("caches interrupted")
}

// look follows the feed, and asks for some keys.
func (c *cached) look() {
	if c.passed == nil {
		if c.rng.IntN(3) == 0 {
			c.resume()
		}
	} else if c.rng.IntN(40) == 0 {
		c.die()
	} else {
		for i := range c.passed {
			if c.rng.IntN(2) == 0 {
				c.follow(i, 1+c.rng.IntN(8))
			}
		}
	}
	for range 3 {
		c.get(key(pick2(c.rng, letters[:3]), "reg", c.rng.IntN(2))) // where most write
	}
}

// resume follows the feed from now on. Who waits for a place before it waits no more.
func (c *cached) resume() {
	here, ok := c.w.here()
	if !ok {
		return
	}
	c.epochs.Resume()
	c.passed = here
	for k, serial := range c.w.latest {
		c.heard[k] = serial
	}
}

// follow hears of changes.
func (c *cached) follow(from, limit int) {
	t := tail{w: c.w, at: c.passed}
	t.read(from, limit, func(x *witnessed) bool {
		for _, row := range x.rows {
			if l := c.loads[row.key]; l != nil {
				l.Invalidate()
			}
			delete(c.kept, row.key)
		}
		for _, row := range x.rows {
			c.heard[row.key] = x.serial
		}
		return true
	})
}

// give checks that somebody who came when so much had been heard is given nothing older.
func (c *cached) give(k string, serial, heard uint64, what string) {
	if serial < heard {
		c.w.failf("a cache gives %q as of commit %d, %s, and had heard of %d", k, serial, what, heard)
	}
	c.w.count("values of a cache, " + what)
}

// get asks for a register.
func (c *cached) get(k string) {
	p := string(at(k))
	now := c.epochs.Now()
	if v, ok := c.kept[p]; ok && v.epoch == now {
		c.give(k, v.serial, c.heard[p], "from memory")
		return
	}
	l := c.loads[p]
	switch {
	case l == nil:
		l = &cachedLoad{Load: fresh.Load{Epoch: now}}
		c.loads[p] = l
		c.load(k, l)
	case !l.Fresh(now): // there is one load at a time, so the next waits for it
		if l.next == nil {
			l.next = new(cachedLoad)
		}
		l = l.next
	}
	l.waiters = append(l.waiters, c.heard[p])
}

// load reads a register. It fails if no answer comes.
func (c *cached) load(k string, l *cachedLoad) {
	w, p, over := c.w, string(at(k)), false
	land := func(serial uint64, ok bool) {
		if over {
			return
		}
		over = true
		c.land(k, l, serial, ok)
	}
	w.after(100*millisecond, func() { land(0, false) })
	w.after(c.rng.Int64N(10*millisecond), func() {
		place, err := w.find(w.router.Owner(at(k)).Group)
		if err != nil {
			return
		}
		// What it reads is of the last commit to the key, or newer: of a transaction
		// that is decided.
		serial := w.latest[p]
		if _, err := read(k)(place); err != nil {
			return
		}
		w.after(c.rng.Int64N(60*millisecond), func() { land(serial, true) })
	})
}

// land ends a load.
func (c *cached) land(k string, l *cachedLoad, serial uint64, ok bool) {
	p := string(at(k))
	if ok {
		for _, heard := range l.waiters {
			c.give(k, serial, heard, "from a load")
		}
		if now := c.epochs.Now(); l.Fresh(now) {
			c.kept[p] = cachedValue{now, serial}
		} else {
			c.w.count("loads of a cache that were not kept")
		}
	}
	delete(c.loads, p)
	if next := l.next; next != nil {
		next.Epoch = c.epochs.Now()
		c.loads[p] = next
		c.load(k, next)
	}
}
