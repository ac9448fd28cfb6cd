package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

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
