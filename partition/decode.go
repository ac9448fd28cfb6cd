package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

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
		r.err = m.check()
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

func (r *reader) number() uint64 {
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

// count reads how many items follow, each of which has at least size bytes.
func (r *reader) count(size int) int {
	n := r.number()
	if n > uint64(len(r.b)/size) {
		r.b, r.err = nil, errShort
		return 0
	}
	return int(n)
}

func (r *reader) bytes() []byte {
	n := r.count(1)
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// parsed reads labels or a constraint.
func parsed[T any](r *reader, parse func(string) (T, error)) T {
	v, err := parse(string(r.bytes()))
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

func (r *reader) readMap() *Map {
	m := &Map{version: Version(r.number()), nextShard: ShardID(r.number()), nextGroup: GroupID(r.number())}
	for range r.count(3) {
		g := Group{ID: GroupID(r.number()), Draining: r.number() == 1}
		g.Labels = parsed(r, ParseLabels)
		m.groups = append(m.groups, g)
	}
	m.pins = []Constraint{{}}
	for range r.count(1) {
		m.pins = append(m.pins, parsed(r, ParseConstraint))
	}
	n := r.count(6)
	m.shards = make([]shard, 0, min(n, MaxShards))
	m.tiling = &tiling{ends: make([]uint32, 1, cap(m.shards)+1)}
	var before Position
	for i := 0; i < n && r.err == nil; i++ {
		var s shard
		s.Owner = Owner{ShardID(r.number()), GroupID(r.number()), m.version - Version(r.number())}
		s.pin = uint32(min(r.number(), math.MaxUint32))
		m.shards = append(m.shards, s)
		before = r.start(m.tiling, before)
	}
	if len(r.b) > 0 && r.err == nil {
		r.err = fmt.Errorf("%d bytes are left", len(r.b))
	}
	return m
}

// start reads where a shard starts into the tiling.
func (r *reader) start(t *tiling, before Position) Position {
	shared, rest := r.number(), r.bytes()
	n := shared + uint64(len(rest))
	if shared > uint64(len(before)) || n > MaxBoundaryBytes {
		r.err = fmt.Errorf("a boundary of %d bytes shares %d", n, shared)
		return nil
	}
	t.bytes = append(t.bytes, before[:shared]...)
	t.add(rest)
	if err := t.checkBounds(); err != nil {
		r.err = err // now, not when all memory is taken
	}
	return t.start(t.count() - 1)
}
