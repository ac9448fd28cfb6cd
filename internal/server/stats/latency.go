package stats

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The events that are measured.
const (
	// EventBatch is a batch of requests that a group has executed, until it is as
	// durable as it has to be.
	EventBatch = "batch"
	// EventCommand is requests of a client that wait for the disk, for a lock, or for several
	// groups.
	EventCommand = "command"
)

// LatencyMonitor are the longest times of each second in which an event took long, from the
// setting latency-monitor-threshold on.
type LatencyMonitor struct {
	threshold atomic.Int64 // in nanoseconds, 0 for off
	mu        sync.Mutex
	events    map[string]*LatencySeries
}

// LatencySeries is what is known of one event.
type LatencySeries struct {
	Samples []LatencySample // the oldest first
	Max     time.Duration
}

// LatencySample is the longest time of a second.
type LatencySample struct {
	Second int64 // Unix
	Took   time.Duration
}

// maxSamples is how many seconds are kept of an event, as in Redis.
const maxSamples = 160

// SetThreshold changes from how long on an event is noted, 0 for never.
func (l *LatencyMonitor) SetThreshold(least time.Duration) { l.threshold.Store(int64(least)) }

// IsOn reports whether anything is noted.
func (l *LatencyMonitor) IsOn() bool { return l.threshold.Load() != 0 }

// Record notes that an event took so long, if that is long.
func (l *LatencyMonitor) Record(event string, now time.Time, took time.Duration) {
	if least := l.threshold.Load(); least == 0 || int64(took) < least {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[string]*LatencySeries{}
	}
	s := l.events[event]
	if s == nil {
		s = &LatencySeries{}
		l.events[event] = s
	}
	s.Max = max(s.Max, took)
	if n := len(s.Samples); n > 0 && s.Samples[n-1].Second == now.Unix() {
		s.Samples[n-1].Took = max(s.Samples[n-1].Took, took)
		return
	}
	if len(s.Samples) == maxSamples {
		s.Samples = slices.Delete(s.Samples, 0, 1)
	}
	s.Samples = append(s.Samples, LatencySample{now.Unix(), took})
}

// Snapshot returns what is known, by event.
func (l *LatencyMonitor) Snapshot() map[string]LatencySeries {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]LatencySeries{}
	for event, s := range l.events {
		all[event] = LatencySeries{slices.Clone(s.Samples), s.Max}
	}
	return all
}

// Reset forgets events, all if none are named, and returns how many there were.
func (l *LatencyMonitor) Reset(events ...string) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(events) == 0 {
		events = slices.Collect(maps.Keys(l.events))
	}
	for _, e := range events {
		if l.events[e] != nil {
			delete(l.events, e)
			n++
		}
	}
	return n
}
