package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

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
	// program can tell a newer format from damage.
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
)

func segmentName(sequence uint32) string { return fmt.Sprintf("%08x%s", sequence, segmentSuffix) }
func zeroingName(sequence uint32) string { return fmt.Sprintf("%08x%s", sequence, zeroingSuffix) }

// sequenceOf reads the sequence from a segment's name.
func sequenceOf(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil && segmentName(uint32(n)) == name
}
