package wal

import "time"

// Sync returns when everything committed before is on stable storage.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if l.written <= l.durable {
		return nil
	}
	// Segments are synced before the next one is begun, so only the last is not.
	s, upTo := l.segments[len(l.segments)-1], l.written
	l.pin(s)
	l.mu.Unlock()
	err := l.flush(s.file, upTo)
	l.mu.Lock()
	l.unpin(s)
	if err != nil {
		return l.failed
	}
	return nil
}

// flush makes a file durable of which everything up to a position was written. One
// at a time does so: the system tells of lost pages only once, so of two that wait
// for the same pages one would not hear of them. For the same reason nothing is
// synced after a failure.
func (l *Log) flush(file File, upTo Position) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || l.durable >= upTo {
		return l.failed
	}
	l.mu.Unlock()
	err := file.Sync()
	l.mu.Lock()
	if err != nil {
		l.fail(err)
		return l.failed
	}
	l.count.Syncs++
	l.durable = max(l.durable, upTo)
	return nil
}

// flushAhead is how much may be unsynced before the background sync is asked for
// more. Rotation waits for a sync; so it has little left to do.
func (l *Log) flushAhead() int { return max(l.o.SegmentBytes/4, 1<<20) }

// syncInBackground is the one goroutine that syncs for EverySec and Never.
func (l *Log) syncInBackground() {
	tick := l.o.Tick
	switch {
	case l.o.Durability == Never:
		tick = nil
	case tick == nil:
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-tick:
		case <-l.kick:
		}
		if l.Sync() != nil {
			return // the failure is remembered, and told to the next caller
		}
	}
}
