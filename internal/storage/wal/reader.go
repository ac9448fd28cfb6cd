package wal

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// readWindowBytes is how much of a segment the feed reads at once.
const readWindowBytes = 256 << 10

// readBuffers has what readers read into: one that keeps up reads a little at a time, and
// often.
var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

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
	room := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(room)
	for pos < to {
		s, begin, err := l.pinSegmentAfter(pos)
		if err != nil {
			return pos, err
		}
		end := min(s.end, to)
		r := frameReader{s: s, salt: l.salt, offset: begin.offset(), end: end.offset(), prev: pos, buffer: *room}
		if r.offset == blockBytes {
			r.prev = s.prev
		}
		before := pos
		pos, err = r.visitFrames(visit)
		if errors.Is(err, ErrCorrupt) && pos == before && !l.isFrameEnd(s, pos) {
			err = fmt.Errorf("%w: no entry ends at %s", ErrGone, pos)
		}
		if cap(r.buffer) <= readWindowBytes { // a large one is not worth keeping
			*room = r.buffer[:0]
		}
		l.mu.Lock()
		l.unpinSegment(s.segment)
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

// isFrameEnd reports whether a frame of a segment, or the log before it, ends at a
// position. It reads all that is before it, for callers with a position that nothing
// follows.
func (l *Log) isFrameEnd(s pinnedSegment, pos Position) bool {
	if pos == s.prev || pos.sequence() != s.sequence {
		return true
	}
	image := make([]byte, pos.offset())
	if _, err := s.file.ReadAt(image, 0); err != nil && !errors.Is(err, io.EOF) {
		return true // the error that the caller has is as good
	}
	sc := newFrameScanner(image, header{id: l.o.ID, sequence: s.sequence, prev: s.prev})
	for sc.endPosition() < pos {
		if _, _, ok := sc.next(); !ok {
			return false
		}
	}
	return sc.endPosition() == pos
}

// pinnedSegment is a segment that cannot be recycled now, and its end at that time.
type pinnedSegment struct {
	*segment
	end Position
}

// pinSegmentAfter pins the segment in which the frame after pos begins, and returns
// where.
func (l *Log) pinSegmentAfter(pos Position) (pinnedSegment, Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return pinnedSegment{}, 0, ErrClosed
	}
	for _, s := range l.segments {
		if s.isEmpty() && s.prev == pos {
			pos = s.end // nothing lies in between
		}
		begin := max(pos, makePosition(s.sequence, blockBytes))
		if s.end <= begin {
			continue // it ends at or before pos, or is empty
		}
		if pos < s.prev || pos > s.prev && pos < begin {
			break
		}
		l.pinSegment(s)
		return pinnedSegment{s, s.end}, begin, nil
	}
	return pinnedSegment{}, 0, fmt.Errorf("%w: %s", ErrGone, pos)
}

// frameReader reads a stretch of frames of one segment.
type frameReader struct {
	s           pinnedSegment
	salt        salt
	offset, end int
	prev        Position
	buffer      []byte
	entries     []Entry
}

// visitFrames visits the entries of all frames and returns the end of the last that was
// visited whole.
func (r *frameReader) visitFrames(visit func(Entry) error) (Position, error) {
	for want := readWindowBytes; r.offset < r.end; {
		window, err := r.readWindow(want)
		if err != nil {
			return r.prev, err
		}
		n, reason, err := r.visitWindow(window, visit)
		switch {
		case err != nil:
			return r.prev, err
		case n > 0:
			// The last frame of the window may be cut: read again from its start.
		case len(window) < r.end-r.blockStart():
			want *= 2 // not even one frame fits
		default:
			return r.prev, &CorruptError{Segment: r.s.name, At: makePosition(r.s.sequence, r.offset), Reason: reason}
		}
	}
	return r.prev, nil
}

// visitWindow visits the whole frames of a window and returns how many there were,
// and why there is no more.
func (r *frameReader) visitWindow(window []byte, visit func(Entry) error) (n int, reason string, err error) {
	sc := frameScanner{image: window, base: r.blockStart(), salt: r.salt, sequence: r.s.sequence, prev: r.prev, offset: r.offset}
	for ; r.offset < r.end; n++ {
		f, b, ok := sc.next()
		if !ok {
			return n, sc.reason, nil
		}
		r.entries = appendEntries(r.entries[:0], b, f, sc.endPosition())
		for _, e := range r.entries {
			if err := visit(e); err != nil {
				return n, "", err
			}
		}
		r.offset, r.prev = sc.offset, sc.endPosition()
	}
	return n, "", nil
}

// blockStart is where the block begins that the reader is in.
func (r *frameReader) blockStart() int { return r.offset &^ (blockBytes - 1) }

// readWindow fills a window from the block on that the reader is in.
func (r *frameReader) readWindow(want int) ([]byte, error) {
	n := min(want, r.end-r.blockStart())
	if cap(r.buffer) < n {
		r.buffer = make([]byte, n)
	}
	window := r.buffer[:n]
	if _, err := r.s.file.ReadAt(window, int64(r.blockStart())); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", r.s.name, err)
	}
	return window, nil
}
