package wal

import (
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/plant"
)

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

// spareOfUse takes a spare file that is worth a new name, if there is one. As many
// are kept as one burst of the consumer can give back. l.mu is held.
func (l *Log) spareOfUse() *segment {
	if len(l.ready) >= l.o.Reserve+l.o.Chunks {
		return nil
	}
	i := slices.IndexFunc(l.spare, func(s *segment) bool { return s.bytes == l.o.SegmentBytes })
	if i < 0 {
		return nil
	}
	s := l.spare[i]
	l.spare = slices.Delete(l.spare, i, i+1)
	return s
}

// reuse makes a file that was given back ready under a new name. l.mu is held, and
// released meanwhile.
func (l *Log) reuse(s *segment) error {
	sequence, err := l.claim()
	if err != nil {
		return err
	}
	l.mu.Unlock()
	err = s.close() // before it is renamed, as some systems demand
	var fresh *segment
	if err == nil {
		fresh, err = l.rename(s.name, sequence, s.bytes)
	}
	l.mu.Lock()
	switch {
	case err == nil:
		l.arrive(fresh)
	case LackOf(err) == nil:
	case fresh != nil: // it has its new name
		l.spare = append(l.spare, fresh)
	default:
		l.spare = append(l.spare, s)
	}
	return err
}

// useless returns which of the spare files can be removed, -1 for none. One that has the last
// name of all stays: without it the next Open could bring its sequence, and positions that a
// reader has seen, back into use. l.mu is held.
func (l *Log) useless() int {
	if len(l.ready) == 0 && !l.full {
		return -1
	}
	last := uint32(0)
	for _, s := range slices.Concat(l.segments, l.ready, l.spare) {
		last = max(last, s.sequence)
	}
	return slices.IndexFunc(l.spare, func(s *segment) bool { return s.sequence < last })
}

// discard removes a file that is of no more use. l.mu is held, and released
// meanwhile.
func (l *Log) discard() error {
	i := l.useless()
	s := l.spare[i]
	l.spare = slices.Delete(l.spare, i, i+1)
	l.mu.Unlock()
	defer l.mu.Lock()
	return errors.Join(s.close(), l.o.FS.Remove(s.name))
}

func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
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
