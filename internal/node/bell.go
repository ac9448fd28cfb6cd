package node

import (
	"sync"
	"sync/atomic"
)

// bell wakes those who wait for something to have happened. Ringing it when
// nobody waits is one atomic load.
type bell struct {
	waiting atomic.Bool
	mu      sync.Mutex
	next    chan struct{} // closed by the next ring
}

// listen returns a channel that the next ring closes. Look after that whether
// it has happened already.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	b.waiting.Store(true)
	return b.next
}

func (b *bell) ring() {
	if !b.waiting.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Store(false)
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
