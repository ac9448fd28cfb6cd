package group

import "sync/atomic"

// clock is the one clock by which a group judges expiry, in Unix milliseconds.
// It never goes back, not even over a restart: it stays at or below a ceiling
// that was made durable before, and starts at the ceiling it finds. So a key
// that was seen expired is never seen alive again.
type clock struct {
	wall    func() int64 // what the machine says; may jump
	last    atomic.Int64 // the highest time given out
	ceiling atomic.Int64 // durable
}

// startAt sets a clock that continues one whose ceiling was found on disk.
func (c *clock) startAt(ceiling int64) {
	c.last.Store(ceiling)
	c.ceiling.Store(ceiling)
}

// now returns the time. It stands still while the ceiling is in the way.
func (c *clock) now() int64 {
	t := min(c.wall(), c.ceiling.Load())
	for {
		last := c.last.Load()
		if t <= last {
			return last
		}
		if c.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

// raise moves the ceiling, once the new one is durable.
func (c *clock) raise(ceiling int64) { c.ceiling.Store(ceiling) }

// short tells whether less than margin is left below the ceiling.
func (c *clock) short(margin int64) bool { return c.wall()+margin > c.ceiling.Load() }
