package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Position is the place of a key, or of an element of a collection, in the
// ordered space:
//
//	keyspace id | slot (hash keyspaces) | escaped key | 0x00 0x01 [| element]
//
// In the escaped key 0x00 is written 0x00 0xff. So a key's own row comes first,
// its elements follow it directly, and then comes the next key in the order of
// the keys' bytes.
type Position []byte

// ErrPosition means that bytes are not a position of the keyspace: they were
// written by something else, or damaged.
var ErrPosition = errors.New("partition: not a position")

const (
	escape     = 0x00
	escapedNul = 0xff
	terminator = 0x01
)

// KeyspaceID names a keyspace for ever: ids are never used again.
type KeyspaceID uint32

// idOneByte is how many ids take one byte. Larger ones are a byte that says how
// many bytes follow, so that ids sort as numbers.
const idOneByte = 0xfc

func (id KeyspaceID) appendTo(dst []byte) []byte {
	if id < idOneByte {
		return append(dst, byte(id))
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(id))
	tail := bytes.TrimLeft(b[:], "\x00")
	return append(append(dst, idOneByte+byte(len(tail)-1)), tail...)
}

// readID splits an id off p.
func readID(p []byte) (id KeyspaceID, rest []byte, ok bool) {
	if len(p) == 0 {
		return 0, nil, false
	}
	if p[0] < idOneByte {
		return KeyspaceID(p[0]), p[1:], true
	}
	n := int(p[0]-idOneByte) + 1
	if len(p) < 1+n || p[1] == 0 {
		return 0, nil, false
	}
	for _, b := range p[1 : 1+n] {
		id = id<<8 | KeyspaceID(b)
	}
	return id, p[1+n:], id >= idOneByte
}

// AppendPosition appends the position of key, that of its own row, to dst.
func (k *Keyspace) AppendPosition(dst []byte, key []byte) Position {
	dst = k.ID.appendTo(dst)
	if k.Kind == Hash {
		dst = binary.BigEndian.AppendUint16(dst, k.SlotOf(key))
	}
	for {
		i := bytes.IndexByte(key, escape)
		if i < 0 {
			return append(append(dst, key...), escape, terminator)
		}
		dst = append(append(dst, key[:i]...), escape, escapedNul)
		key = key[i+1:]
	}
}

// Split takes a position of the keyspace apart. The key is appended to dst; the
// element is the rest of p, empty for the key's own row.
func (k *Keyspace) Split(dst []byte, p Position) (key, element []byte, err error) {
	body, err := k.stripPrefix(p)
	if err != nil {
		return nil, nil, err
	}
	key = dst
	for {
		i := bytes.IndexByte(body, escape)
		if i < 0 || i+1 == len(body) {
			return nil, nil, fmt.Errorf("%w: the key of %x has no end", ErrPosition, []byte(p))
		}
		key = append(key, body[:i]...)
		mark := body[i+1]
		body = body[i+2:]
		switch mark {
		case terminator:
			return key, body, nil
		case escapedNul:
			key = append(key, escape)
		default:
			return nil, nil, fmt.Errorf("%w: %x has the escape 00 %02x", ErrPosition, []byte(p), mark)
		}
	}
}

// stripPrefix strips the id and the slot.
func (k *Keyspace) stripPrefix(p Position) ([]byte, error) {
	id, rest, ok := readID(p)
	if !ok || id != k.ID {
		return nil, fmt.Errorf("%w: %x is not in keyspace %d", ErrPosition, []byte(p), k.ID)
	}
	if k.Kind == Hash {
		if len(rest) < 2 {
			return nil, fmt.Errorf("%w: %x has no slot", ErrPosition, []byte(p))
		}
		rest = rest[2:]
	}
	return rest, nil
}

// IDOf returns the keyspace that a position is in.
func IDOf(p Position) (KeyspaceID, error) {
	id, _, ok := readID(p)
	if !ok {
		return 0, fmt.Errorf("%w: %x has no keyspace id", ErrPosition, []byte(p))
	}
	return id, nil
}

// Span is the positions from Start up to, but not with, End. An empty End is
// the end of the space.
type Span struct{ Start, End Position }

// Contains reports whether p is in the span.
func (s Span) Contains(p Position) bool {
	return bytes.Compare(p, s.Start) >= 0 && (len(s.End) == 0 || bytes.Compare(p, s.End) < 0)
}

// Overlaps reports whether there is a position in both spans, neither of which is
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

// Equal reports whether the spans have the same positions.
func (s Span) Equal(o Span) bool { return bytes.Equal(s.Start, o.Start) && bytes.Equal(s.End, o.End) }

// Covers reports whether all of another span is in this one.
func (s Span) Covers(o Span) bool { return s.Intersect(o).Equal(o) }

// Empty reports whether the span has no positions.
func (s Span) Empty() bool { return len(s.End) > 0 && bytes.Compare(s.Start, s.End) >= 0 }

// String is the span in errors and reports. A position is the number of its
// keyspace and the bytes behind it, quoted.
func (s Span) String() string {
	end := "end"
	if len(s.End) > 0 {
		end = formatPosition(s.End)
	}
	return fmt.Sprintf("[%s, %s)", formatPosition(s.Start), end)
}

// maxTextBytes is how much of a position a text shows: keys may be long.
const maxTextBytes = 64

func formatPosition(p Position) string {
	id, rest, ok := readID(p)
	switch {
	case len(p) == 0:
		return "begin"
	case !ok:
		return fmt.Sprintf("0x%x", []byte(p[:min(len(p), maxTextBytes)]))
	case len(rest) == 0:
		return fmt.Sprint(id)
	case len(rest) > maxTextBytes:
		return fmt.Sprintf("%d/%q…", id, rest[:maxTextBytes])
	}
	return fmt.Sprintf("%d/%q", id, rest)
}

// Whole is the span of all positions.
var Whole Span

// Span returns the positions of the whole keyspace.
func (k *Keyspace) Span() Span {
	return Span{Start: k.ID.appendTo(nil), End: endOf(k.ID.appendTo(nil))}
}

// SlotSpan returns the positions of one slot of a hash keyspace. It ends with
// the bytes that the next slot starts with.
func (k *Keyspace) SlotSpan(slot uint16) Span {
	p := binary.BigEndian.AppendUint16(k.ID.appendTo(nil), slot)
	if slot == math.MaxUint16 {
		return Span{Start: p, End: endOf(p)}
	}
	return Span{Start: p, End: binary.BigEndian.AppendUint16(k.ID.appendTo(nil), slot+1)}
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

// WholeKey truncates a position to where its key starts, so that a boundary
// there keeps the key and its elements together. A position that is in no key,
// such as the edge of a slot, of a prefix or of the elements of a key, stays.
func (k *Keyspace) WholeKey(p Position) (Position, error) {
	body, err := k.stripPrefix(p)
	if err != nil {
		return nil, err
	}
	for i := 0; ; i += 2 {
		next := bytes.IndexByte(body[i:], escape)
		if next < 0 || i+next+1 == len(body) {
			return p, nil
		}
		i += next
		switch body[i+1] {
		case escapedNul:
		case terminator:
			return p[:len(p)-len(body)+i+2], nil
		default:
			return p, nil // nothing is written there
		}
	}
}

// EvenSlots returns the n-1 boundaries that cut a hash keyspace into n parts
// with as many slots, give or take one.
func (k *Keyspace) EvenSlots(n int) ([]Position, error) {
	slots := k.SlotCount()
	switch {
	case k.Kind != Hash:
		return nil, fmt.Errorf("%w: keyspace %q is of kind %v and has no slots: name the keys to split at", ErrBoundary, k.Name, k.Kind)
	case n < 1 || n > slots:
		return nil, fmt.Errorf("%w: %d parts of %d slots: use 1 to %d", ErrBoundary, n, slots, slots)
	}
	at := make([]Position, n-1)
	for i := range at {
		at[i] = k.SlotSpan(uint16((i + 1) * slots / n)).Start
	}
	return at, nil
}

// checkBoundary returns why a shard may not start at p. Without a keyspace only
// the edge of one will do: what lies inside cannot be read without its kind.
func checkBoundary(k *Keyspace, p Position) error {
	if len(p) > MaxBoundaryBytes {
		return fmt.Errorf("%w: boundary of %d bytes, at most %d", ErrLimit, len(p), MaxBoundaryBytes)
	}
	id, rest, ok := readID(p)
	switch {
	case !ok || len(rest) == 0:
		return nil // the end of the last id of a length is no id
	case k == nil:
		return fmt.Errorf("%w: %s is inside a keyspace: say in which", ErrBoundary, formatPosition(p))
	case k.ID != id:
		return fmt.Errorf("%w: %s is not in keyspace %q: split each keyspace on its own", ErrBoundary, formatPosition(p), k.Name)
	}
	whole, err := k.WholeKey(p)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBoundary, formatPosition(p), err)
	}
	if k.Kind == Hash && k.SlotAt(p) > k.SlotCount() {
		return fmt.Errorf("%w: %s is behind the last slot", ErrBoundary, formatPosition(p))
	}
	if k.Kind == Hash && bytes.Equal(p, k.SlotSpan(0).Start) {
		return fmt.Errorf("%w: no key comes before the first slot of %q: use another", ErrBoundary, k.Name)
	}
	if len(whole) != len(p) {
		return fmt.Errorf("%w: %s is among the elements of a key: split at %s", ErrCut, formatPosition(p), formatPosition(whole))
	}
	return nil
}
