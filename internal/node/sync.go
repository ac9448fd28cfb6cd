package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sleepContext waits, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) error { return waitContext(ctx, nil, d) }

// waitContext waits until something has changed, but not for long, or until ctx ends.
func waitContext(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	}
}

// lockContext takes a lock, unless ctx ends first. A caller that leaves blocks no other: the
// lock is released when its turn comes.
func lockContext(ctx context.Context, l sync.Locker) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	held := make(chan struct{})
	go func() {
		l.Lock()
		select {
		case held <- struct{}{}:
		case <-ctx.Done():
			l.Unlock()
		}
	}()
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notifier wakes goroutines that wait for something to have happened. A notify when none waits
// is one atomic load.
type notifier struct {
	hasWaiters atomic.Bool
	mu         sync.Mutex
	next       chan struct{} // closed by the next notify
}

// subscribe returns a channel that the next notify closes. Check after subscribe whether the
// event has happened already.
func (b *notifier) subscribe() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	b.hasWaiters.Store(true)
	return b.next
}

func (b *notifier) notify() {
	if !b.hasWaiters.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hasWaiters.Store(false)
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// ctxRWMutex is a lock that many share, or one has alone, as that of package sync. But a caller
// that waits to have it alone and leaves blocks no other from then on: a backup that gave up
// must not keep jobs from going on until one that hangs has ended.
type ctxRWMutex struct {
	mu sync.Mutex
	// readers is how many share it, hasWriter whether one has it alone, and waitingWriters how
	// many want to: until they have left, no other begins to share it. Invariant: readers is 0
	// if hasWriter.
	readers, waitingWriters int
	hasWriter               bool
	changed                 notifier
}

// lockShared takes the lock together with others.
func (c *ctxRWMutex) lockShared(ctx context.Context) error {
	return c.waitUntil(ctx, func() bool {
		if c.hasWriter || c.waitingWriters > 0 {
			return false
		}
		c.readers++
		return true
	})
}

// unlockShared gives it back.
func (c *ctxRWMutex) unlockShared() { c.updateState(func() { c.readers-- }) }

// lock takes the lock alone.
func (c *ctxRWMutex) lock(ctx context.Context) error {
	c.updateState(func() { c.waitingWriters++ })
	defer c.updateState(func() { c.waitingWriters-- })
	return c.waitUntil(ctx, func() bool {
		if c.hasWriter || c.readers > 0 {
			return false
		}
		c.hasWriter = true
		return true
	})
}

// unlock gives it back.
func (c *ctxRWMutex) unlock() { c.updateState(func() { c.hasWriter = false }) }

func (c *ctxRWMutex) updateState(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	c.changed.notify()
}

// waitUntil tries to take it until that succeeds, or ctx ends.
func (c *ctxRWMutex) waitUntil(ctx context.Context, try func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		changed := c.changed.subscribe()
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

// sharedSyncer lets all that wait for a store to be synced share a sync: one runs, and those
// that come meanwhile wait for the next one together.
type sharedSyncer struct {
	// running is held during a sync.
	running sync.Mutex
	mu      sync.Mutex
	// next is the round that begins when the running one has ended; nil if no caller waits for
	// one.
	next *syncRound
}

type syncRound struct {
	hasLeader bool          // a caller begins it
	timer     *time.Timer   // begins it if no caller does before; nil if not asked for
	done      chan struct{} // closed at its end
	err       error         // of the sync, when it is done
}

// lazySyncDelay is how long callers in no hurry wait for a sync that others need.
const lazySyncDelay = 500 * time.Microsecond

// syncNow returns when a sync that began after the call has ended.
func (s *sharedSyncer) syncNow(sync func() error) error {
	r := s.joinRound()
	return s.finishRound(r, sync)
}

// syncLater is syncNow, but leaves it to others to sync for a moment.
func (s *sharedSyncer) syncLater(sync func() error) error {
	r := s.joinRound()
	s.mu.Lock()
	if !r.hasLeader && r.timer == nil {
		r.timer = time.AfterFunc(lazySyncDelay, func() { _ = s.finishRound(r, sync) })
	}
	s.mu.Unlock()
	<-r.done
	return r.err
}

// joinRound returns the next round.
func (s *sharedSyncer) joinRound() *syncRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &syncRound{done: make(chan struct{})}
	}
	return s.next
}

// finishRound syncs if the caller leads the round, or waits for the leader.
func (s *sharedSyncer) finishRound(r *syncRound, sync func() error) error {
	s.mu.Lock()
	led := r.hasLeader
	r.hasLeader = true
	if r.timer != nil {
		r.timer.Stop()
	}
	s.mu.Unlock()
	if led {
		<-r.done
		return r.err
	}
	s.running.Lock()
	s.mu.Lock()
	s.next = nil // a caller from here on may have written something since
	s.mu.Unlock()
	r.err = sync()
	s.running.Unlock()
	close(r.done)
	return r.err
}
