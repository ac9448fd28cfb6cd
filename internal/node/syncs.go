package node

import (
	"sync"
	"time"
)

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
	led   bool          // somebody begins it
	timer *time.Timer   // begins it if nobody else does; nil if nobody has asked for that
	done  chan struct{} // closed at its end
	err   error         // of the sync, when it is done
}

// idle is how long those who are in no hurry wait for a sync that others need.
const idle = 500 * time.Microsecond

// do returns when a sync that began after the call has ended.
func (s *syncs) do(sync func() error) error {
	r := s.join()
	return s.lead(r, sync)
}

// later is do, but leaves it to others to sync for a moment.
func (s *syncs) later(sync func() error) error {
	r := s.join()
	s.mu.Lock()
	if !r.led && r.timer == nil {
		r.timer = time.AfterFunc(idle, func() { _ = s.lead(r, sync) })
	}
	s.mu.Unlock()
	<-r.done
	return r.err
}

// join returns the next round.
func (s *syncs) join() *syncRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &syncRound{done: make(chan struct{})}
	}
	return s.next
}

// lead brings a round to its end, or waits for who does.
func (s *syncs) lead(r *syncRound, sync func() error) error {
	s.mu.Lock()
	led := r.led
	r.led = true
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
	s.next = nil // whoever comes from here on may have written something since
	s.mu.Unlock()
	r.err = sync()
	s.running.Unlock()
	close(r.done)
	return r.err
}
