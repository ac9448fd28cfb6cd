package group

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// slow is the ranges whose writers are held up.
type slow struct {
	mu   sync.Mutex // of those who change it
	list atomic.Pointer[[]slowed]
}

type slowed struct {
	span partition.Span
	wait time.Duration
}

// Slow lets each caller of Do or Joint who writes to a range wait for so long before he
// takes his turn, until it is called again with another time, or with 0. It is for jobs: a
// range that is written faster than it can be carried elsewhere would never get there.
// Transactions of several stores are not held up: they take long enough.
func (g *Group) Slow(s partition.Span, wait time.Duration) {
	g.slow.mu.Lock()
	defer g.slow.mu.Unlock()
	var list []slowed
	if old := g.slow.list.Load(); old != nil {
		list = slices.DeleteFunc(slices.Clone(*old), func(x slowed) bool { return bytes.Equal(x.span.Start, s.Start) })
	}
	if wait > 0 {
		list = append(list, slowed{s, wait})
	}
	if len(list) == 0 {
		g.slow.list.Store(nil)
		return
	}
	g.slow.list.Store(&list)
}

// wait is for how long a writer of a position is held up.
func (s *slow) wait(at partition.Position) time.Duration {
	list := s.list.Load()
	if list == nil || len(at) == 0 {
		return 0
	}
	for _, x := range *list {
		if x.span.Contains(at) {
			return x.wait
		}
	}
	return 0
}

// hold holds up a writer of a position.
func (s *slow) hold(ctx context.Context, at partition.Position) error {
	wait := s.wait(at)
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
