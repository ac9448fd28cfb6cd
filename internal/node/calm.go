package node

import (
	"context"
	"sync"
)

// calm is a lock that many share, or one has alone, as that of package sync. But
// whoever waits to have it alone and leaves is in nobody's way from then on: a backup
// that gave up must not keep jobs from going on until one that hangs has ended.
type calm struct {
	mu sync.Mutex
	// shared is how many share it, alone whether one has it alone, and waiting how
	// many want to: until they have left, nobody else begins to share it.
	// Invariant: shared is 0 if alone.
	shared, waiting int
	alone           bool
	changed         bell
}

// share takes the lock together with others.
func (c *calm) share(ctx context.Context) error {
	return c.until(ctx, func() bool {
		if c.alone || c.waiting > 0 {
			return false
		}
		c.shared++
		return true
	})
}

// unshare gives it back.
func (c *calm) unshare() { c.change(func() { c.shared-- }) }

// take takes the lock alone.
func (c *calm) take(ctx context.Context) error {
	c.change(func() { c.waiting++ })
	defer c.change(func() { c.waiting-- })
	return c.until(ctx, func() bool {
		if c.alone || c.shared > 0 {
			return false
		}
		c.alone = true
		return true
	})
}

// release gives it back.
func (c *calm) release() { c.change(func() { c.alone = false }) }

func (c *calm) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	c.changed.ring()
}

// until tries to take it until that succeeds, or ctx ends.
func (c *calm) until(ctx context.Context, try func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		changed := c.changed.listen()
		c.mu.Lock()
		ok := try()
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
