package node

import (
	"context"
	"sync"
	"time"
)

// gathering lets those who are in no hurry go together, so that their groups execute
// them in one batch and write it to the log once.
type gathering struct {
	mu sync.Mutex
	// start is closed when those who wait may go; nil if nobody does.
	start chan struct{}
}

// gatherFor is how long the first waits for others. At any rate of transactions that
// matters it is many of them, and what is left of one meanwhile is a record of some
// dozens of bytes that nobody looks at.
const gatherFor = time.Millisecond

// wait waits for others, or until ctx ends.
func (g *gathering) wait(ctx context.Context) {
	g.mu.Lock()
	start := g.start
	if start == nil {
		start = make(chan struct{})
		g.start = start
		time.AfterFunc(gatherFor, func() {
			g.mu.Lock()
			g.start = nil
			g.mu.Unlock()
			close(start)
		})
	}
	g.mu.Unlock()
	select {
	case <-start:
	case <-ctx.Done():
	}
}

// syncs lets all who wait for a store to be synced share it: one sync runs, and those
// who come meanwhile wait for the next one together.
type syncs struct {
	// running is held by whoever syncs.
	running sync.Mutex
	mu      sync.Mutex
	// next is the round that begins when the running one has ended; nil if nobody
	// waits for one.
	next *syncRound
}

type syncRound struct {
	done chan struct{}
	err  error // of the sync, when it is done
}

// do returns when a sync that began after the call has ended.
func (s *syncs) do(sync func() error) error {
	s.mu.Lock()
	r := s.next
	if r != nil {
		s.mu.Unlock()
		<-r.done
		return r.err
	}
	r = &syncRound{done: make(chan struct{})}
	s.next = r
	s.mu.Unlock()
	s.running.Lock()
	s.mu.Lock()
	s.next = nil // whoever comes from here on may have written something since
	s.mu.Unlock()
	r.err = sync()
	s.running.Unlock()
	close(r.done)
	return r.err
}
