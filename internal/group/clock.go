package group

import "sync/atomic"

// clock is the one clock by which a group judges expiry, in Unix milliseconds.
// It never goes back, not even over a restart: it stays at or below a ceiling
// that was made durable before, and starts at the ceiling it finds. So a key
// that was seen expired is never seen alive again.
//
// It stands still from the moment at which a batch reads it until the batch is
// visible. Otherwise a reader could see a key expire that a batch on its way to
// the disk has found alive and goes on with.
type clock struct {
	wall    func() int64 // what the machine says; may jump
	word    atomic.Int64 // the highest time given out, times two, plus one while it is held
	ceiling atomic.Int64 // durable
}

const held = 1

// startAt sets a clock that continues one whose ceiling was found on disk.
func (c *clock) startAt(ceiling int64) {
	c.word.Store(ceiling << 1)
	c.ceiling.Store(ceiling)
}

// now returns the time. It stands still while it is held or the ceiling is in
// the way.
func (c *clock) now() int64 {
	for {
		w := c.word.Load()
		if w&held != 0 {
			return w >> 1
		}
		t := min(c.wall(), c.ceiling.Load())
		if t <= w>>1 {
			return w >> 1
		}
		if c.word.CompareAndSwap(w, t<<1) {
			return t
		}
	}
}

// hold returns the time and keeps it until release. Only the holder of the
// mailbox holds.
func (c *clock) hold() int64 {
	for {
		c.now()
		if w := c.word.Load(); c.word.CompareAndSwap(w, w|held) {
			return w >> 1
		}
	}
}

// release lets the time go on.
func (c *clock) release() { c.word.And(^int64(held)) }

// advance moves the time to at least t, which is not above the ceiling. It is not
// held.
func (c *clock) advance(t int64) {
	for {
		w := c.word.Load()
		if w>>1 >= t || c.word.CompareAndSwap(w, t<<1) {
			return
		}
	}
}

// raise moves the ceiling, once the new one is durable.
func (c *clock) raise(ceiling int64) { c.ceiling.Store(ceiling) }

// short tells whether less than margin is left below the ceiling.
func (c *clock) short(margin int64) bool { return c.wall()+margin > c.ceiling.Load() }
