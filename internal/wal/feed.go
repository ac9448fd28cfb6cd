package wal

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// feedBytes is how much of a segment the feed reads at once.
const feedBytes = 256 << 10

// feedRoom has what readers read into: one that keeps up reads a little at a time, and
// often.
var feedRoom = sync.Pool{New: func() any { return new([]byte) }}

// ReadFrom visits the committed entries after a position, in order, up to the end
// of the log at the time of the call, and returns where to read on. It is meant to
// be called again and again, while others append. An entry is valid during the
// visit.
//
// If visit fails, its error is returned with the position before the frame that was
// being visited. [ErrGone] means that the entries are not retained.
func (l *Log) ReadFrom(pos Position, visit func(Entry) error) (Position, error) {
	to := l.Committed()
	if pos == to {
		return pos, nil
	}
	room := feedRoom.Get().(*[]byte)
	defer feedRoom.Put(room)
	for pos < to {
		s, begin, err := l.segmentAfter(pos)
		if err != nil {
			return pos, err
		}
		end := min(s.end, to)
		r := frameReader{s: s, salt: l.salt, offset: begin.offset(), end: end.offset(), prev: pos, buffer: *room}
		if r.offset == blockBytes {
			r.prev = s.prev
		}
		before := pos
		pos, err = r.visit(visit)
		if errors.Is(err, ErrCorrupt) && pos == before && !l.frameEnds(s, pos) {
			err = fmt.Errorf("%w: no entry ends at %s", ErrGone, pos)
		}
		if cap(r.buffer) <= feedBytes { // a large one is not worth keeping
			*room = r.buffer[:0]
		}
		l.mu.Lock()
		l.unpin(s.segment)
		l.mu.Unlock()
		if err != nil {
			return pos, err
		}
	}
	if pos > to {
		return pos, fmt.Errorf("%w: %s is behind the end of the log, %s", ErrGone, pos, to)
	}
	return pos, nil
}

// frameEnds tells whether a frame of a segment, or the log before it, ends at a
// position. It reads all that is before it, for whoever has a position that nothing
// follows.
func (l *Log) frameEnds(s pinned, pos Position) bool {
	if pos == s.prev || pos.sequence() != s.sequence {
		return true
	}
	image := make([]byte, pos.offset())
	if _, err := s.file.ReadAt(image, 0); err != nil && !errors.Is(err, io.EOF) {
		return true // the error that the caller has is as good
	}
	sc := newScan(image, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	for sc.end() < pos {
		if _, _, ok := sc.next(); !ok {
			return false
		}
	}
	return sc.end() == pos
}

// pinned is a segment that cannot be recycled now, and its end at that time.
type pinned struct {
	*segment
	end Position
}

// segmentAfter pins the segment in which the frame after pos begins, and returns
// where.
func (l *Log) segmentAfter(pos Position) (pinned, Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return pinned{}, 0, ErrClosed
	}
	for _, s := range l.segments {
		if s.empty() && s.prev == pos {
			pos = s.end // nothing lies in between
		}
		begin := max(pos, position(s.sequence, blockBytes))
		if s.end <= begin {
			continue // it ends at or before pos, or is empty
		}
		if pos < s.prev || pos > s.prev && pos < begin {
			break
		}
		l.pin(s)
		return pinned{s, s.end}, begin, nil
	}
	return pinned{}, 0, fmt.Errorf("%w: %s", ErrGone, pos)
}

// frameReader reads a stretch of frames of one segment.
type frameReader struct {
	s           pinned
	salt        salt
	offset, end int
	prev        Position
	buffer      []byte
	entries     []Entry
}

// visit visits the entries of all frames and returns the end of the last that was
// visited whole.
func (r *frameReader) visit(visit func(Entry) error) (Position, error) {
	for want := feedBytes; r.offset < r.end; {
		window, err := r.read(want)
		if err != nil {
			return r.prev, err
		}
		n, reason, err := r.visitWindow(window, visit)
		switch {
		case err != nil:
			return r.prev, err
		case n > 0:
			// The last frame of the window may be cut: read again from its start.
		case len(window) < r.end-r.base():
			want *= 2 // not even one frame fits
		default:
			return r.prev, &CorruptError{Segment: r.s.name, At: position(r.s.sequence, r.offset), Reason: reason}
		}
	}
	return r.prev, nil
}

// visitWindow visits the whole frames of a window and returns how many there were,
// and why there is no more.
func (r *frameReader) visitWindow(window []byte, visit func(Entry) error) (n int, reason string, err error) {
	sc := scan{image: window, base: r.base(), salt: r.salt, sequence: r.s.sequence, prev: r.prev, offset: r.offset}
	for ; r.offset < r.end; n++ {
		f, b, ok := sc.next()
		if !ok {
			return n, sc.reason, nil
		}
		r.entries = appendEntries(r.entries[:0], b, f, sc.end())
		for _, e := range r.entries {
			if err := visit(e); err != nil {
				return n, "", err
			}
		}
		r.offset, r.prev = sc.offset, sc.end()
	}
	return n, "", nil
}

// base is where the block begins that the reader is in.
func (r *frameReader) base() int { return r.offset &^ (blockBytes - 1) }

// read fills a window from the block on that the reader is in.
func (r *frameReader) read(want int) ([]byte, error) {
	n := min(want, r.end-r.base())
	if cap(r.buffer) < n {
		r.buffer = make([]byte, n)
	}
	window := r.buffer[:n]
	if _, err := r.s.file.ReadAt(window, int64(r.base())); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", r.s.name, err)
	}
	return window, nil
}
