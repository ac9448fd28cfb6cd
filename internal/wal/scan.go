package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/plant"
)

// scan walks the frames of a segment's image. It decides nothing but where the
// readable frames end; judge says what that means.
type scan struct {
	image    []byte
	salt     salt
	sequence uint32
	prev     Position // what the next frame must name as the one before
	offset   int      // where the next frame must begin
	closed   bool     // the last frame says that the log was closed
	reason   string   // why there is no next frame
}

func newScan(image []byte, h header) scan {
	return scan{image: image, salt: saltOf(h.id), sequence: h.sequence, prev: h.prev, offset: blockBytes}
}

// next returns the next frame and its bytes, or false at the first place that is
// not a frame of this segment in this use of its file.
func (s *scan) next() (f frameInfo, b []byte, ok bool) {
	if s.closed {
		s.reason = "the log was closed here"
		return f, nil, false
	}
	if s.offset >= len(s.image) {
		s.reason = "the segment ends here"
		return f, nil, false
	}
	b = s.image[s.offset:]
	f, s.reason = parseFrame(b, s.salt)
	if s.reason == "" && padded(f.bytes) > len(b) {
		s.reason = "the file ends in the frame"
	}
	if s.reason == "" && !plant.Bug("wal-stale-bytes-replayed") {
		s.reason = s.belongs(f)
	}
	if s.reason != "" {
		return f, nil, false
	}
	s.offset += padded(f.bytes)
	s.prev = s.end()
	s.closed = f.kind == kindClose
	return f, b[:f.bytes], true
}

// belongs tells bytes of an earlier use of the file, which are whole frames too,
// from those of this one.
func (s *scan) belongs(f frameInfo) (reason string) {
	switch {
	case f.sequence != s.sequence:
		return fmt.Sprintf("frame is left over from segment %08x", f.sequence)
	case f.prev != s.prev:
		return fmt.Sprintf("frame follows %s, not %s", f.prev, s.prev)
	}
	return ""
}

func (s *scan) end() Position { return position(s.sequence, s.offset) }

// proofBehind returns the highest watermark among frames of the segment at or
// behind an offset: up to there the log is known to have been durable. Frames that
// survived a crash while one before them did not claim less than the lost one's end,
// because it was not durable when they were written.
func proofBehind(image []byte, salt salt, sequence uint32, offset int) Position {
	var proof Position
	for ; offset+frameHeader <= len(image); offset += blockBytes {
		b := image[offset:]
		// Cheap refusals first: most blocks are zeros, stale, or inside of a frame.
		if binary.LittleEndian.Uint32(b) != frameMagic || binary.LittleEndian.Uint32(b[12:]) != sequence {
			continue
		}
		// A frame that is not where it says it is was put there by something else,
		// such as a client whose value looks like many long frames: each would be
		// checksummed to its end.
		prev := Position(binary.LittleEndian.Uint64(b[16:]))
		if offset != blockBytes && prev != position(sequence, offset) {
			continue
		}
		if f, reason := parseFrame(b, salt); reason == "" {
			proof = max(proof, f.watermark)
		}
	}
	return proof
}

// judge decides what the end of a scan means, given how far the log is known to
// have been durable: an end is a tail unless something durable should lie behind.
func judge(s *scan, proof Position) error {
	if s.closed || proof <= s.end() {
		return nil
	}
	return &CorruptError{
		Segment: segmentName(s.sequence), At: s.end(),
		Reason: fmt.Sprintf("%s, but the log was durable up to %s", s.reason, proof),
	}
}
