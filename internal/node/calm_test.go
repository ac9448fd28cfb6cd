package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// One that has it alone is alone, whatever others do, give up or wait for.
func TestCalmIsSharedOrHadAlone(t *testing.T) {
	var c calm
	var sharing, alone atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(ctx, time.Duration(n%5)*50*time.Microsecond)
				if n%3 == 0 {
					ctx = context.WithoutCancel(ctx)
				}
				if i%3 > 0 {
					if c.share(ctx) == nil {
						if sharing.Add(1); alone.Load() > 0 {
							t.Error("it is shared while one has it alone")
						}
						sharing.Add(-1)
						c.unshare()
					}
				} else if c.take(ctx) == nil {
					if alone.Add(1) > 1 || sharing.Load() > 0 {
						t.Error("one has it alone with others")
					}
					alone.Add(-1)
					c.release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if c.shared != 0 || c.waiting != 0 || c.alone {
		t.Errorf("it is left as %d shared, %d waiting, alone %v", c.shared, c.waiting, c.alone)
	}
}

// A backup that waits for a job keeps others from beginning, and no longer than that.
func TestABackupThatGaveUpIsInNobodysWay(t *testing.T) {
	n := open(t, small(1))
	if err := n.jobs.quiet.share(ctx); err != nil { // as a job does that hangs
		t.Fatal(err)
	}
	defer n.jobs.quiet.unshare()
	limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := n.quieten(limited); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it did not wait: %v", err)
	}
	limited, cancel = context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := n.jobs.quiet.share(limited); err != nil {
		t.Fatalf("another job does not go on: %v", err)
	}
	n.jobs.quiet.unshare()
}
