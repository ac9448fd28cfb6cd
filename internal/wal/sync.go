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
	err := s.file.Sync()
	l.mu.Lock()
	l.unpin(s)
	if err != nil {
		// Never tried again: the next call could succeed without the lost pages.
		l.fail(err)
		return l.failed
	}
	l.count.Syncs++
	l.durable = max(l.durable, upTo)
	return nil
}

func (l *Log) syncEverySecond() {
	tick := l.o.Tick
	if tick == nil {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-tick:
			if l.Sync() != nil {
				return // the failure is remembered, and told to the next caller
			}
		}
	}
}
