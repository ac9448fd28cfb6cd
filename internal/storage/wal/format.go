package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
)

// Position is a place in the log: the segment's sequence in the upper 32 bits, the
// offset in it in the lower. Its order is that of the log. Zero is before
// everything.
type Position uint64

func makePosition(sequence uint32, offset int) Position {
	return Position(sequence)<<32 | Position(uint32(offset))
}

func (p Position) sequence() uint32 { return uint32(p >> 32) }
func (p Position) offset() int      { return int(uint32(p)) }

// String returns the position as segment:offset in hexadecimal, as in file names.
func (p Position) String() string { return fmt.Sprintf("%08x:%x", p.sequence(), p.offset()) }

// blockBytes is the unit of what a crash can tear: what is durable is never in a
// block that is written again. 4 KiB is also the largest alignment that direct I/O
// asks for on usual devices.
const blockBytes = 4096

// frameAlign is the alignment of frames in a block.
const frameAlign = 8

// maxPackedFrame is the size up to which a frame shares its last block with the next.
// Above, the rest of a block is little beside it, and not worth a copy.
const maxPackedFrame = 4 * blockBytes

// MaxBytes is the most that the entries of one Append may take, with
// [EntryOverhead] for each: a frame's end must fit the 32 bits of a position.
const MaxBytes = 1 << 30

// EntryOverhead is what an entry takes in the log beside its payload.
const EntryOverhead = 12

const (
	frameMagic  = 0x46774c43
	frameHeader = 40
)

type frameKind uint32

const (
	kindData  frameKind = 1
	kindClose frameKind = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one group's part of a frame.
type Entry struct {
	// Pos is the end of the entry's frame: to resume after it, not in it. The
	// entries of one frame share it. Append ignores it.
	Pos   Position
	Group uint64
	// Payload is, in what the log hands out, a view into the chunk.
	Payload []byte
}

// frameInfo is what a frame says of itself. See DESIGN.md for the bytes.
type frameInfo struct {
	bytes     int // header and entries, without padding
	sequence  uint32
	prev      Position // end of the frame before
	watermark Position // everything up to here was durable when this was written
	kind      frameKind
	count     int
}

// salt begins the checksum of frames with the identity of the store. So frames of
// another store do not count, nor do images of frames that a client, which does not
// know the identity, puts into a payload.
type salt uint32

func saltOf(id [16]byte) salt { return salt(crc32.Checksum(id[:], castagnoli)) }

func (s salt) computeChecksum(b []byte) uint32 { return crc32.Update(uint32(s), castagnoli, b) }

// magic begins the frames of a store. It is not the same in all, so that a client
// cannot fill a value with what resembles frames up to their checksums.
func (s salt) magic() uint32 { return uint32(s) ^ frameMagic }

func alignToBlock(n int) int { return (n + blockBytes - 1) &^ (blockBytes - 1) }

func alignToFrame(n int) int { return (n + frameAlign - 1) &^ (frameAlign - 1) }

// putEntry writes an entry at the start of b and returns its payload there.
func putEntry(b []byte, group uint64, payload []byte) []byte {
	binary.LittleEndian.PutUint64(b, group)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(payload)))
	view := b[EntryOverhead : EntryOverhead+len(payload) : EntryOverhead+len(payload)]
	copy(view, payload)
	return view
}

// putFrameHeader writes the header in front of entries that are already in place.
func putFrameHeader(b []byte, f frameInfo, s salt) {
	binary.LittleEndian.PutUint32(b, s.magic())
	binary.LittleEndian.PutUint32(b[8:], uint32(f.bytes))
	binary.LittleEndian.PutUint32(b[12:], f.sequence)
	binary.LittleEndian.PutUint64(b[16:], uint64(f.prev))
	binary.LittleEndian.PutUint64(b[24:], uint64(f.watermark))
	binary.LittleEndian.PutUint32(b[32:], uint32(f.kind))
	binary.LittleEndian.PutUint32(b[36:], uint32(f.count))
	binary.LittleEndian.PutUint32(b[4:], s.computeChecksum(b[8:f.bytes]))
}

// reasonUnwritten is parseFrame's reason where there are zeros.
const reasonUnwritten = "nothing was written here"

// parseFrame reads the frame at the start of b, which may go on behind it. A
// reason that is not empty says why there is none.
func parseFrame(b []byte, s salt) (f frameInfo, reason string) {
	if len(b) < frameHeader {
		return f, "no room for a frame"
	}
	if magic := binary.LittleEndian.Uint32(b); magic != s.magic() {
		if magic == 0 {
			return f, reasonUnwritten
		}
		return f, "no frame begins here"
	}
	n := binary.LittleEndian.Uint32(b[8:])
	if n < frameHeader || uint64(n) > uint64(len(b)) {
		return f, fmt.Sprintf("frame claims %d bytes of %d", n, len(b))
	}
	if s.computeChecksum(b[8:n]) != binary.LittleEndian.Uint32(b[4:]) {
		return f, "checksum does not match"
	}
	f = frameInfo{
		bytes:     int(n),
		sequence:  binary.LittleEndian.Uint32(b[12:]),
		prev:      Position(binary.LittleEndian.Uint64(b[16:])),
		watermark: Position(binary.LittleEndian.Uint64(b[24:])),
		kind:      frameKind(binary.LittleEndian.Uint32(b[32:])),
	}
	count := binary.LittleEndian.Uint32(b[36:])
	if f.kind != kindData && f.kind != kindClose {
		return f, fmt.Sprintf("frame is of unknown kind %d", f.kind)
	}
	rest := b[frameHeader:n]
	for range count {
		if len(rest) < EntryOverhead {
			return f, "entries do not fill the frame"
		}
		size := binary.LittleEndian.Uint32(rest[8:])
		if uint64(size) > uint64(len(rest)-EntryOverhead) {
			return f, "entries do not fill the frame"
		}
		rest = rest[EntryOverhead+int(size):]
	}
	if len(rest) != 0 {
		return f, "entries do not fill the frame"
	}
	f.count = int(count)
	return f, ""
}

// appendEntries appends the entries of a frame that parseFrame accepted to dst, as
// views into b.
func appendEntries(dst []Entry, b []byte, f frameInfo, end Position) []Entry {
	rest := b[frameHeader:f.bytes]
	for range f.count {
		n := EntryOverhead + int(binary.LittleEndian.Uint32(rest[8:]))
		dst = append(dst, Entry{Pos: end, Group: binary.LittleEndian.Uint64(rest), Payload: rest[EntryOverhead:n:n]})
		rest = rest[n:]
	}
	return dst
}

// sumEntryBytes returns what entries take in a frame.
func sumEntryBytes(es []Entry) (int, error) {
	if len(es) == 0 {
		return 0, ErrNoEntries
	}
	n := 0
	for i := range es {
		if len(es[i].Payload) > math.MaxInt32 {
			return 0, ErrTooLarge
		}
		if n += EntryOverhead + len(es[i].Payload); n > MaxBytes {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxBytes)
		}
	}
	return n, nil
}

const (
	headerMagic   = 0x53774c43 // "CLwS" in the file
	headerBytes   = 48
	formatVersion = 2
)

// header is what the first block of a segment says.
type header struct {
	id       [16]byte
	sequence uint32
	prev     Position // end of the log before this segment: all of it was durable
}

func putHeader(b []byte, h header) {
	clear(b[:blockBytes])
	binary.LittleEndian.PutUint32(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint32(b[12:], h.sequence)
	copy(b[16:32], h.id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(h.prev))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:headerBytes], castagnoli))
}

// parseHeader reads a segment's first block. ok is false if there is no header: the
// file was never used, or the write of its header was interrupted. An error means
// that the file is not one of this log's.
func parseHeader(b []byte, id [16]byte) (h header, ok bool, err error) {
	if len(b) < headerBytes || binary.LittleEndian.Uint32(b) != headerMagic ||
		crc32.Checksum(b[8:headerBytes], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return h, false, nil
	}
	// The version's place and the checksum's reach are fixed for ever, so that a
	// program can distinguish a newer format from damage.
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return h, false, fmt.Errorf("%w %d, this program knows %d", ErrVersion, v, formatVersion)
	}
	h.sequence = binary.LittleEndian.Uint32(b[12:])
	copy(h.id[:], b[16:32])
	h.prev = Position(binary.LittleEndian.Uint64(b[32:]))
	if h.id != id {
		return h, false, fmt.Errorf("%w: it has identity %x, expected %x", ErrForeign, h.id, id)
	}
	return h, true, nil
}

const (
	segmentSuffix = ".wal"
	zeroingSuffix = ".new"
	lostSuffix    = ".lost" // behind a segment's name: it was set aside; see Options.AcceptLoss
)

func segmentName(sequence uint32) string { return fmt.Sprintf("%08x%s", sequence, segmentSuffix) }
func zeroingName(sequence uint32) string { return fmt.Sprintf("%08x%s", sequence, zeroingSuffix) }

// parseSegmentName reads the sequence from a segment's name.
func parseSegmentName(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil && segmentName(uint32(n)) == name
}
