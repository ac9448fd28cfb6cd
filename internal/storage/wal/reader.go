package wal

import (
	"bytes"
	"encoding/binary"
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

// BytesAfter returns how many bytes of the log that is kept are behind a position.
func (l *Log) BytesAfter(pos Position) (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		if begin := max(pos, makePosition(s.sequence, blockBytes)); s.end > begin {
			bytes += int64(s.end - begin)
		}
	}
	return bytes
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

// frameScanner walks the frames of a segment's image. It decides nothing but where the
// readable frames end; judge says what that means.
type frameScanner struct {
	image    []byte // of the segment from base on
	base     int    // a multiple of the block size
	salt     salt
	sequence uint32
	prev     Position // what the next frame must name as the one before
	offset   int      // in the segment, where the frame before ends
	closed   bool     // the last frame says that the log was closed
	reason   string   // why there is no next frame
}

func newFrameScanner(image []byte, h header) frameScanner {
	return frameScanner{image: image, salt: saltOf(h.id), sequence: h.sequence, prev: h.prev, offset: blockBytes}
}

// next returns the next frame and its bytes, or false at the first place that is
// not a frame of this segment in this use of its file.
func (s *frameScanner) next() (f frameInfo, b []byte, ok bool) {
	if s.closed {
		s.reason = "the log was closed here"
		return f, nil, false
	}
	// It begins at once, or in the next block: behind a fence, behind a large frame,
	// and whenever each frame is durable. In both places it names the one before, so
	// that none is passed over.
	at := s.offset
	f, b, s.reason = s.parseFrameAt(at)
	if fresh := alignToBlock(at); s.reason != "" && fresh != at {
		reason := s.reason
		at = fresh
		if f, b, s.reason = s.parseFrameAt(at); s.reason != "" && reason != reasonUnwritten {
			s.reason = reason
		}
	}
	if s.reason != "" {
		return f, nil, false
	}
	s.offset = at + alignToFrame(f.bytes)
	s.prev = s.endPosition()
	s.closed = f.kind == kindClose
	return f, b, true
}

// parseFrameAt returns the frame at an offset, or the reason why there is none that
// follows the one before.
func (s *frameScanner) parseFrameAt(offset int) (f frameInfo, b []byte, reason string) {
	if offset-s.base >= len(s.image) {
		return f, nil, "the segment ends here"
	}
	b = s.image[offset-s.base:]
	f, reason = parseFrame(b, s.salt)
	if reason == "" {
		reason = s.checkFrame(f)
	}
	if reason != "" {
		return f, nil, reason
	}
	return f, b[:f.bytes], ""
}

// checkFrame distinguishes bytes of an earlier use of the file, which are whole frames too,
// from those of this one.
func (s *frameScanner) checkFrame(f frameInfo) (reason string) {
	switch {
	case f.sequence != s.sequence:
		return fmt.Sprintf("frame is left over from segment %08x", f.sequence)
	case f.prev != s.prev:
		return fmt.Sprintf("frame follows %s, not %s", f.prev, s.prev)
	}
	return ""
}

func (s *frameScanner) endPosition() Position { return makePosition(s.sequence, s.offset) }

// findProofInImage returns the highest watermark among frames of the segment at or
// behind an offset: up to there the log is known to have been durable. Frames that
// survived a crash while one before them did not claim less than the lost one's end,
// because it was not durable when they were written.
func findProofInImage(image []byte, salt salt, sequence uint32, offset int) Position {
	var proof Position
	magic := binary.LittleEndian.AppendUint32(nil, salt.magic())
	for step := 0; offset+frameHeader <= len(image); offset += step {
		// Cheap refusals first: most places are zeros, stale, or inside of a frame.
		next := bytes.Index(image[offset:], magic)
		if next < 0 {
			break
		}
		if step = alignToFrame(next); step > 0 {
			continue
		}
		b := image[offset:]
		step = frameAlign
		if binary.LittleEndian.Uint32(b[12:]) != sequence {
			continue
		}
		// A frame that is not where it says it is was put there by something else:
		// a copy of this log in a value, say.
		if !canFollow(Position(binary.LittleEndian.Uint64(b[16:])), sequence, offset) {
			continue
		}
		if f, reason := parseFrame(b, salt); reason == "" {
			proof = max(proof, f.watermark)
			step = alignToFrame(f.bytes)
		}
	}
	return proof
}

// canFollow reports whether a frame at an offset may name prev as the end of the one
// before: its own place, or one in the block before if it begins a block. The first
// frame names another segment's end.
func canFollow(prev Position, sequence uint32, offset int) bool {
	at := makePosition(sequence, offset)
	return offset == blockBytes || prev == at || offset%blockBytes == 0 && at-prev < blockBytes
}

// checkScanEnd decides what the end of a scan means, given how far the log is known to
// have been durable: an end is a tail unless something durable should lie behind.
func checkScanEnd(s *frameScanner, proof Position) error {
	if s.closed || proof <= s.endPosition() {
		return nil
	}
	return &CorruptError{
		Segment: segmentName(s.sequence), At: s.endPosition(),
		Reason: fmt.Sprintf("%s, but the log was durable up to %s", s.reason, proof),
	}
}
