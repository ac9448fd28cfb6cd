// Package freshness answers one question: may a value that was loaded be kept, when it may
// have changed while it was on its way?
//
// Promise: what is kept was current when the last invalidation of its key, flush or
// interruption was over.
//
// Choice: time is divided into epochs, and a load belongs to the one in which it began. An
// invalidation marks the load of its key; a flush begins a new epoch, in which nothing of
// older ones counts; and while no changes are received there is an epoch in which nothing
// is kept. Package cache decides by it, and so does the simulator.
package freshness

import (
	"sync/atomic"
)

// Epoch is a time in which nothing was flushed. In odd ones nothing is kept.
type Epoch uint64

// EpochClock say which one it is. The zero value is one in which values are kept. Flush may be
// called by any goroutine at any time, the others by one at a time.
type EpochClock struct{ current atomic.Uint64 }

// Current is the present one.
func (e *EpochClock) Current() Epoch { return Epoch(e.current.Load()) }

// Flush begins a new one of the same kind.
func (e *EpochClock) Flush() { e.current.Add(2) }

// Interrupt begins one in which nothing is kept, after one in which values are.
func (e *EpochClock) Interrupt() {
	e.current.Add(1)
}

// Resume begins one in which values are kept. The caller first has the place from
// which it will receive changes: a load of the new epoch reads what was there at that
// place, or something newer of which it will be notified.
func (e *EpochClock) Resume() {
	e.current.Add(2 - e.current.Load()%2)
}

// Load is a load under way.
type Load struct {
	Epoch Epoch // in which it began
	stale bool
}

// Invalidate notes that what is loaded has changed since the load began.
func (l *Load) Invalidate() { l.stale = true }

// IsFresh reports whether what the load brings is good for a caller that asks now, and, when it is
// there, whether it may be kept.
func (l *Load) IsFresh(now Epoch) bool { return !l.stale && l.Epoch == now && now%2 == 0 }
