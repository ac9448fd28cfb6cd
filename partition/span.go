package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Span is the positions from Start up to, but not with, End. An empty End is
// the end of the space.
type Span struct{ Start, End Position }

// Contains tells whether p is in the span.
func (s Span) Contains(p Position) bool {
	return bytes.Compare(p, s.Start) >= 0 && (len(s.End) == 0 || bytes.Compare(p, s.End) < 0)
}

// Overlaps tells whether there is a position in both spans, neither of which is
// empty.
func (s Span) Overlaps(o Span) bool {
	return (len(o.End) == 0 || bytes.Compare(s.Start, o.End) < 0) && (len(s.End) == 0 || bytes.Compare(o.Start, s.End) < 0)
}

// Intersect returns what is in both spans. It is Empty if they do not overlap.
func (s Span) Intersect(o Span) Span {
	if bytes.Compare(s.Start, o.Start) < 0 {
		s.Start = o.Start
	}
	if len(s.End) == 0 || len(o.End) > 0 && bytes.Compare(o.End, s.End) < 0 {
		s.End = o.End
	}
	return s
}

// Equal tells whether the spans have the same positions.
func (s Span) Equal(o Span) bool { return bytes.Equal(s.Start, o.Start) && bytes.Equal(s.End, o.End) }

// Covers tells whether all of another span is in this one.
func (s Span) Covers(o Span) bool { return s.Intersect(o).Equal(o) }

// Empty tells whether the span has no positions.
func (s Span) Empty() bool { return len(s.End) > 0 && bytes.Compare(s.Start, s.End) >= 0 }

// String is the span in errors and reports. A position is the number of its
// keyspace and the bytes behind it, quoted.
func (s Span) String() string {
	end := "end"
	if len(s.End) > 0 {
		end = text(s.End)
	}
	return fmt.Sprintf("[%s, %s)", text(s.Start), end)
}

// textBytes is how much of a position a text shows: keys may be long.
const textBytes = 64

func text(p Position) string {
	id, rest, ok := readID(p)
	switch {
	case len(p) == 0:
		return "begin"
	case !ok:
		return fmt.Sprintf("0x%x", []byte(p[:min(len(p), textBytes)]))
	case len(rest) == 0:
		return fmt.Sprint(id)
	case len(rest) > textBytes:
		return fmt.Sprintf("%d/%q…", id, rest[:textBytes])
	}
	return fmt.Sprintf("%d/%q", id, rest)
}

// Whole is the span of all positions.
var Whole Span

// Span returns the positions of the whole keyspace.
func (k *Keyspace) Span() Span {
	return Span{Start: k.ID.append(nil), End: endOf(k.ID.append(nil))}
}

// SlotSpan returns the positions of one slot of a hash keyspace. It ends with
// the bytes that the next slot starts with.
func (k *Keyspace) SlotSpan(slot uint16) Span {
	p := binary.BigEndian.AppendUint16(k.ID.append(nil), slot)
	if slot == math.MaxUint16 {
		return Span{Start: p, End: endOf(p)}
	}
	return Span{Start: p, End: binary.BigEndian.AppendUint16(k.ID.append(nil), slot+1)}
}

// KeySpan returns the positions of a key: its own row and all its elements.
func (k *Keyspace) KeySpan(key []byte) Span {
	p := k.AppendPosition(nil, key)
	return Span{Start: p, End: endOf(p)}
}

// PrefixSpan returns the positions of the keys of a range keyspace that begin
// with prefix.
func (k *Keyspace) PrefixSpan(prefix []byte) Span {
	p := k.AppendPosition(nil, prefix)
	p = p[:len(p)-2] // without the terminator: keys go on
	return Span{Start: p, End: endOf(p)}
}

// endOf returns the first position behind all that begin with prefix.
func endOf(prefix []byte) Position {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
