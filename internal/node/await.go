package node

import (
	"context"
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
