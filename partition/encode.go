package partition

import (
	"encoding/binary"
	"hash/crc32"
)

// A map is written as
//
//	format     1 byte
//	version, next shard, next group
//	groups     count, then for each: id, 1 if draining, labels
//	pins       count, then each constraint that a shard has, in order of use
//	shards     count, then for each: id, group, map version - changed, pin,
//	           bytes that its start shares with the start before, the rest
//	checksum   CRC-32C of all before, 4 bytes, big endian
//
// Numbers are varints, and bytes follow their length. A pin is its place in the
// list of pins, from 1; 0 is none. Equal maps have equal bytes, and no other
// bytes decode.
const mapFormat = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the map to dst as bytes that [Decode] reads.
func (m *Map) Append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, mapFormat)
	dst = appendNumber(dst, m.version)
	dst = appendNumber(dst, m.nextShard)
	dst = appendNumber(dst, m.nextGroup)
	dst = appendNumber(dst, len(m.groups))
	for _, g := range m.groups {
		dst = appendNumber(dst, g.ID)
		draining := 0
		if g.Draining {
			draining = 1
		}
		dst = appendNumber(dst, draining)
		dst = appendBytes(dst, g.Labels.text)
	}
	dst = appendNumber(dst, len(m.pins)-1)
	for _, pin := range m.pins[1:] {
		dst = appendBytes(dst, pin.text)
	}
	dst = appendNumber(dst, len(m.shards))
	var before Position
	for i, s := range m.shards {
		dst = appendNumber(dst, s.Shard)
		dst = appendNumber(dst, s.Group)
		dst = appendNumber(dst, m.version-s.Changed)
		dst = appendNumber(dst, int(s.pin))
		start := m.tiling.start(i)
		shared := len(sharedPrefix(before, start))
		dst = appendNumber(dst, shared)
		dst = appendBytes(dst, start[shared:])
		before = start
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

func appendNumber[T ~int | ~uint64](dst []byte, n T) []byte {
	return binary.AppendUvarint(dst, uint64(n))
}

func appendBytes[T ~string | ~[]byte](dst []byte, b T) []byte {
	return append(appendNumber(dst, len(b)), b...)
}
