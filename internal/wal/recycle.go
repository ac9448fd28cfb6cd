package wal

import "github.com/cleavekv/cleave/internal/plant"

// Recycle says that everything up to a position is durable elsewhere, and that Open
// will be told so. Segments below it serve ReadFrom until Retain is used up, and
// are then used again.
func (l *Log) Recycle(upTo Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied = max(l.applied, min(upTo, l.tail))
	l.retire()
}

// recyclable tells whether nothing in the segment is needed by a replay. The last
// segment that is known to be durable stays even if all of it was applied: without
// it an Open could not tell a log that was applied from one that was lost. l.mu is
// held.
func (l *Log) recyclable(s *segment) bool {
	if !s.sealed || l.durable.sequence() <= s.sequence {
		return false
	}
	return s.end <= l.applied || plant.Bug("wal-recycle-early")
}

// retire gives back the oldest segments until no more than Retain bytes of
// recyclable ones are left. l.mu is held.
func (l *Log) retire() {
	var bytes int64
	for _, s := range l.segments {
		if l.recyclable(s) {
			bytes += int64(s.bytes)
		}
	}
	for len(l.segments) > 0 && bytes > l.o.Retain {
		s := l.segments[0]
		// The log is one piece: a segment that is still read keeps all behind it.
		if !l.recyclable(s) || s.readers > 0 {
			return
		}
		bytes -= int64(s.bytes)
		l.segments = l.segments[1:]
		l.spare = append(l.spare, s)
		l.work.Signal()
	}
}

// reuse makes a segment that was given back ready under a new name, or removes it.
// l.mu is held, and released meanwhile.
func (l *Log) reuse(s *segment, wanted bool) error {
	wanted = wanted && s.bytes == l.o.SegmentBytes
	sequence := l.claim()
	l.mu.Unlock()
	fresh, err := l.exchange(s, sequence, wanted)
	l.mu.Lock()
	switch {
	case isFull(err):
		l.spare = append(l.spare, s)
	case err == nil && fresh != nil:
		l.arrive(fresh)
	case err == nil:
		l.count.Removed++
	}
	return err
}

func (l *Log) exchange(s *segment, sequence uint32, wanted bool) (*segment, error) {
	if s.file != nil {
		// Closed before it is renamed, as some systems demand.
		if err := s.file.Close(); err != nil {
			return nil, err
		}
		s.file = nil
	}
	if !wanted {
		return nil, l.o.FS.Remove(s.name)
	}
	return l.rename(s.name, sequence, s.bytes)
}

// pin keeps a segment from being recycled until unpin. l.mu is held.
func (l *Log) pin(s *segment) { s.readers++ }

// unpin lets a segment be recycled again. l.mu is held.
func (l *Log) unpin(s *segment) {
	s.readers--
	l.retire()
	if l.closed {
		l.room.Broadcast()
	}
}
