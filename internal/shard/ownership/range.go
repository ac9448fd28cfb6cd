package ownership

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// State is what a group does with a range.
type State uint8

// The states. Their numbers are on disks: none is ever changed or used again.
const (
	// Serving: reads and writes.
	Serving State = 1
	// Frozen: reads only. The range is about to be given away, and what is
	// there now is what will be there.
	Frozen State = 2
	// Incoming: nothing. The range is being copied from another group.
	Incoming State = 3
	// Foreign: nothing. The range was given away, or never came.
	Foreign State = 4
)

// String is the state in errors and reports.
func (s State) String() string {
	switch s {
	case Serving:
		return "serving"
	case Frozen:
		return "frozen"
	case Incoming:
		return "incoming"
	case Foreign:
		return "foreign"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// JobID names a piece of work that changes owners, for ever. 0 is none.
type JobID uint64

// Range is a range in a group's table.
type Range struct {
	Span partition.Span
	// Version is that of the map to which the range in this state belongs: that
	// in which it was given, or given away. It is what makes two ranges of the
	// same span different when a shard comes back.
	Version partition.Version
	State   State
	// Job is the one that has brought the range into its state.
	Job JobID
	// Attempt and Upto are of an Incoming range: the copy that fills it, and the
	// position in the source's log up to which it has come. For the attempt of a
	// Foreign range see [AttemptDropped].
	Attempt, CopiedUpTo uint64
}

// IsReadable reports whether the group answers reads of the range.
func (r *Range) IsReadable() bool { return r.State == Serving || r.State == Frozen }

// equal reports whether two ranges are the same in everything.
func (r *Range) equal(o *Range) bool {
	return r.Span.Equal(o.Span) &&
		r.Version == o.Version && r.State == o.State && r.Job == o.Job && r.Attempt == o.Attempt && r.CopiedUpTo == o.CopiedUpTo
}

// String is the range in errors and reports.
func (r Range) String() string {
	return fmt.Sprintf("%v %v since version %d", r.Span, r.State, r.Version)
}

// recordFormat is the first byte of a record.
const recordFormat = 1

const recordHeaderSize = 1 + 1 + 4*8

// recordKey appends the store key of a range: what a group remembers about itself
// does not move with a range, so the position is behind the group's number.
func recordKey(dst []byte, group partition.GroupID, start partition.Position) []byte {
	dst = append(dst, byte(effect.State), 'o')
	dst = binary.BigEndian.AppendUint64(dst, uint64(group))
	return append(dst, start...)
}

// appendRecord appends the record of a range.
func (r *Range) appendRecord(dst []byte) []byte {
	dst = append(dst, recordFormat, byte(r.State))
	for _, n := range []uint64{uint64(r.Version), uint64(r.Job), r.Attempt, r.CopiedUpTo} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return append(dst, r.Span.End...)
}

// decodeRange takes a record apart.
func decodeRange(start partition.Position, b []byte) (Range, error) {
	if len(b) < recordHeaderSize || b[0] != recordFormat || State(b[1]) < Serving || State(b[1]) > Foreign {
		return Range{}, fmt.Errorf("%w: a range of %d bytes", ErrBadRecord, len(b))
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[2+8*i:]) }
	return Range{
		Span:    partition.Span{Start: bytes.Clone(start), End: bytes.Clone(b[recordHeaderSize:])},
		State:   State(b[1]),
		Version: partition.Version(at(0)), Job: JobID(at(1)), Attempt: at(2), CopiedUpTo: at(3),
	}, nil
}

// LoadTable reads the table of a group.
func LoadTable(r command.Reader, group partition.GroupID) (*Table, error) {
	from := recordKey(nil, group, nil)
	to := recordKey(nil, group+1, nil)
	var ranges []Range
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var x Range
		if x, bad = decodeRange(key[len(from):], value); bad != nil {
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
	return NewTable(ranges...)
}

var (
	// ErrStale means that the table is not what a change expects: another command has changed
	// it. This one changed nothing: read the table again.
	ErrStale = errors.New("ownership: the group's list has changed")
	// ErrWrongGroup means that the group does not serve a position, or not any
	// more: get a newer map and ask the group that does. See [WrongGroupError].
	ErrWrongGroup = errors.New("ownership: another group serves this position")
	// ErrFrozen means that a range takes no writes for the moment, because it is
	// about to be given away: wait, and get the map again.
	ErrFrozen = errors.New("ownership: the range is being given away")
	// ErrBadTable means that ranges are not a table.
	ErrBadTable = errors.New("ownership: bad list")
	// ErrBadRecord means that stored bytes are not a range that this version can
	// read: they are damaged, or a newer version wrote them.
	ErrBadRecord = errors.New("ownership: bad record: it is damaged, or of another version")
)

// WrongGroupError has what the group knows. It matches [ErrWrongGroup].
type WrongGroupError struct {
	Group partition.GroupID
	// Version is that of the newest map that the group had a part in: one that is
	// older is no good.
	Version partition.Version
}

// Error names the group.
func (e *WrongGroupError) Error() string {
	return fmt.Sprintf("%v: %v does not, as of version %d", ErrWrongGroup, e.Group, e.Version)
}

// Is matches ErrWrongGroup.
func (e *WrongGroupError) Is(target error) bool { return target == ErrWrongGroup }
