package own

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// recordFormat is the first byte of a record.
const recordFormat = 1

const recordHead = 1 + 1 + 4*8

// recordKey appends the store key of a range: what a group remembers about itself
// does not move with a range, so the position is behind the group's number.
func recordKey(dst []byte, group partition.GroupID, start partition.Position) []byte {
	dst = append(dst, byte(effect.State), 'o')
	dst = binary.BigEndian.AppendUint64(dst, uint64(group))
	return append(dst, start...)
}

// append appends the record of a range.
func (r *Range) append(dst []byte) []byte {
	dst = append(dst, recordFormat, byte(r.State))
	for _, n := range []uint64{uint64(r.Version), uint64(r.Job), r.Attempt, r.Upto} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return append(dst, r.Span.End...)
}

// decode takes a record apart.
func decode(start partition.Position, b []byte) (Range, error) {
	if len(b) < recordHead || b[0] != recordFormat || State(b[1]) < Serving || State(b[1]) > Foreign {
		return Range{}, fmt.Errorf("%w: a range of %d bytes", ErrRecord, len(b))
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[2+8*i:]) }
	return Range{
		Span:    partition.Span{Start: bytes.Clone(start), End: bytes.Clone(b[recordHead:])},
		State:   State(b[1]),
		Version: partition.Version(at(0)), Job: Job(at(1)), Attempt: at(2), Upto: at(3),
	}, nil
}

// Load reads the list of a group.
func Load(r command.Reader, group partition.GroupID) (*List, error) {
	from := recordKey(nil, group, nil)
	to := recordKey(nil, group+1, nil)
	var ranges []Range
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var x Range
		if x, bad = decode(key[len(from):], value); bad != nil {
			return false
		}
		ranges = append(ranges, x)
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("load the ranges of %v: %w", group, err)
	}
	return NewList(ranges...)
}
