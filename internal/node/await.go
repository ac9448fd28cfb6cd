package node

import (
	"context"
	"sync"
	"time"
)

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error { return await(ctx, nil, d) }

// await waits until something has changed, but not for long, or until ctx ends.
func await(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
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

// lock takes a lock, unless ctx ends first. Whoever leaves is not in the way of others:
// the lock is given back when its turn comes.
func lock(ctx context.Context, l sync.Locker) error {
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
