package wal

import (
	"time"

	"github.com/cleavekv/cleave/internal/plant"
)

// Sync returns when everything committed before is on stable storage.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.cur == nil && l.failed == nil && l.written > l.durable {
		l.room.Wait() // for who is ending the chunk, with a sync
	}
	if l.failed != nil || l.written <= l.durable {
		return l.failed
	}
	// Segments are synced before the next one is begun, so only this is not.
	s := l.cur.seg
	l.pin(s)
	if !plant.Bug("wal-sync-without-fence") {
		l.fence()
	}
	t := &turn{chunk: l.cur}
	l.enter(t)
	l.run(t)
	err := t.err
	if err == nil {
		err = l.flush(s.file, t.pos)
	}
	l.mu.Lock()
	l.unpin(s)
	return err
}

// fence lets the next frame begin in a block of its own: what is before it is about
// to be synced, and a block with something durable in it is not written again. l.mu
// is held.
func (l *Log) fence() {
	if l.open != nil {
		l.open, l.next = nil, padded(l.open.end)
	}
	l.next = padded(l.next)
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
