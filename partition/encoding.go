package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
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
		start := m.tiling.startOf(i)
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

var (
	// ErrNewerFormat means that a newer program wrote the map: upgrade this one.
	ErrNewerFormat = errors.New("partition: map of a newer format")
	// ErrDamaged means that bytes are not a map: get it from where it comes
	// from once more. A map that does not tile the space is none.
	ErrDamaged = errors.New("partition: not a map")
)

const checksumBytes = 4

// Decode reads a map that [Map.Append] wrote, and checks all of it. It keeps
// none of b. What it cannot check is that no boundary is inside a key, which
// would take the kinds of the keyspaces: that is promised by [Map.Apply].
func Decode(b []byte) (*Map, error) {
	switch {
	case len(b) == 0 || b[0] == 0:
		return nil, fmt.Errorf("%w: no format", ErrDamaged)
	case b[0] > mapFormat:
		return nil, fmt.Errorf("%w: format %d, this program reads %d", ErrNewerFormat, b[0], mapFormat)
	case len(b) < 1+checksumBytes:
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(b))
	}
	body := b[:len(b)-checksumBytes]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w: checksum differs", ErrDamaged)
	}
	r := reader{b: body[1:]}
	m := r.readMap()
	if r.err == nil {
		r.err = m.checkInvariants()
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, r.err)
	}
	// Varints can be padded and prefixes cut short: one map, one encoding.
	if !bytes.Equal(m.Append(make([]byte, 0, len(b))), b) {
		return nil, fmt.Errorf("%w: not the bytes that it would be written as", ErrDamaged)
	}
	m.tiling.makeIndex()
	m.stretches = newStretches(m.tiling, m.shards)
	return m, nil
}

// reader takes values off b until the first error.
type reader struct {
	b   []byte
	err error
}

var errShort = errors.New("it ends too early")

func (r *reader) readNumber() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errShort
		return 0
	}
	r.b = r.b[size:]
	if n > maxNumber {
		r.err = fmt.Errorf("number %d is out of bounds", n)
	}
	return n
}

// readCount reads how many items follow, each of which has at least size bytes.
func (r *reader) readCount(size int) int {
	n := r.readNumber()
	if n > uint64(len(r.b)/size) {
		r.b, r.err = nil, errShort
		return 0
	}
	return int(n)
}

func (r *reader) readBytes() []byte {
	n := r.readCount(1)
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// readParsed reads labels or a constraint.
func readParsed[T any](r *reader, parse func(string) (T, error)) T {
	v, err := parse(string(r.readBytes()))
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

func (r *reader) readMap() *Map {
	m := &Map{version: Version(r.readNumber()), nextShard: ShardID(r.readNumber()), nextGroup: GroupID(r.readNumber())}
	for range r.readCount(3) {
		g := Group{ID: GroupID(r.readNumber()), Draining: r.readNumber() == 1}
		g.Labels = readParsed(r, ParseLabels)
		m.groups = append(m.groups, g)
	}
	m.pins = []Constraint{{}}
	for range r.readCount(1) {
		m.pins = append(m.pins, readParsed(r, ParseConstraint))
	}
	n := r.readCount(6)
	m.shards = make([]shard, 0, min(n, MaxShards))
	m.tiling = &tiling{ends: make([]uint32, 1, cap(m.shards)+1)}
	var before Position
	for i := 0; i < n && r.err == nil; i++ {
		var s shard
		s.Owner = Owner{ShardID(r.readNumber()), GroupID(r.readNumber()), m.version - Version(r.readNumber())}
		s.pin = uint32(min(r.readNumber(), math.MaxUint32))
		m.shards = append(m.shards, s)
		before = r.readStart(m.tiling, before)
	}
	if len(r.b) > 0 && r.err == nil {
		r.err = fmt.Errorf("%d bytes are left", len(r.b))
	}
	return m
}

// readStart reads where a shard starts into the tiling.
func (r *reader) readStart(t *tiling, before Position) Position {
	shared, rest := r.readNumber(), r.readBytes()
	n := shared + uint64(len(rest))
	if shared > uint64(len(before)) || n > MaxBoundaryBytes {
		r.err = fmt.Errorf("a boundary of %d bytes shares %d", n, shared)
		return nil
	}
	t.bytes = append(t.bytes, before[:shared]...)
	t.addStart(rest)
	if err := t.checkBounds(); err != nil {
		r.err = err // now, not when all memory is taken
	}
	return t.startOf(t.shardCount() - 1)
}

// checkInvariants returns what is wrong with a map that was not made here. Labels and pins
// are well formed: only parsing makes them.
func (m *Map) checkInvariants() error {
	if m.version == 0 || m.tiling.shardCount() != len(m.shards) {
		return errors.New("it has no version, or shards without spans")
	}
	if err := m.tiling.checkTiling(); err != nil {
		return err
	}
	if err := m.checkGroups(); err != nil {
		return err
	}
	used := make(map[ShardID]bool, len(m.shards))
	pins := uint32(1) // the zero constraint and those seen so far
	for _, s := range m.shards {
		switch {
		case s.Shard == 0 || s.Shard >= m.nextShard:
			return fmt.Errorf("%v is not an id below %v", s.Shard, m.nextShard)
		case used[s.Shard]:
			return fmt.Errorf("%v is there twice", s.Shard)
		case s.Changed == 0 || s.Changed > m.version:
			return fmt.Errorf("%v changed at version %d of %d", s.Shard, s.Changed, m.version)
		case s.pin > pins || s.pin >= uint32(len(m.pins)):
			return fmt.Errorf("%v has pin %d of %d", s.Shard, s.pin, len(m.pins)-1)
		}
		if _, ok := m.groupIndex(s.Group); !ok {
			return fmt.Errorf("%v is with %v, which is not there", s.Shard, s.Group)
		}
		used[s.Shard] = true
		pins = max(pins, s.pin+1)
	}
	if int(pins) != len(m.pins) {
		return fmt.Errorf("%d of %d pins are in use", pins-1, len(m.pins)-1)
	}
	return nil
}

func (m *Map) checkGroups() error {
	if len(m.groups) > MaxGroups {
		return fmt.Errorf("%d groups, at most %d", len(m.groups), MaxGroups)
	}
	var before GroupID
	for _, g := range m.groups {
		if g.ID <= before || g.ID >= m.nextGroup {
			return fmt.Errorf("%v is not an id above %v and below %v", g.ID, before, m.nextGroup)
		}
		before = g.ID
	}
	return nil
}
