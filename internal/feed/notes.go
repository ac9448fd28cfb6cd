package feed

import (
	"encoding/binary"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// A note is the deletion of a row that never was: it is in the log, in the batch that it
// is about, and leaves nothing in the store. It comes before the rows that it is about.

// Note tags, behind the table of a group's own state.
const (
	carriedTag = 'c'
	handedTag  = 'h'
)

// CarriedKey is the note that rows of a span were brought, or removed, by a job.
func CarriedKey(s partition.Span) []byte {
	key := binary.AppendUvarint([]byte{byte(effect.State), carriedTag}, uint64(len(s.Start)))
	return append(append(key, s.Start...), s.End...)
}

// Carried returns the span of which an entry of the log brings or removes rows that
// a job has carried, if the operation is a note of that.
func Carried(op effect.Op) (s partition.Span, ok bool) {
	rest, ok := noteOf(op, carriedTag)
	if !ok {
		return s, false
	}
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > uint64(len(rest)-size) {
		return s, false
	}
	rest = rest[size:]
	return partition.Span{Start: rest[:n], End: rest[n:]}, true
}

// Handed says that a range comes from another store: what became of its keys before
// is in the log of that one, up to a position.
type Handed struct {
	Store    int
	Position uint64
}

// Key is the note of it.
func (h Handed) Key() []byte {
	key := binary.AppendUvarint([]byte{byte(effect.State), handedTag}, uint64(h.Store))
	return binary.AppendUvarint(key, h.Position)
}

// HandedOver returns where a range comes from that begins to be served with an entry
// of the log, if the operation is a note of that.
func HandedOver(op effect.Op) (h Handed, ok bool) {
	rest, ok := noteOf(op, handedTag)
	if !ok {
		return h, false
	}
	store, n := binary.Uvarint(rest)
	if n <= 0 {
		return h, false
	}
	position, m := binary.Uvarint(rest[n:])
	return Handed{Store: int(store), Position: position}, m > 0
}

func noteOf(op effect.Op, tag byte) (rest []byte, ok bool) {
	if !op.Delete || len(op.Key) < 2 || op.Key[0] != byte(effect.State) || op.Key[1] != tag {
		return nil, false
	}
	return op.Key[2:], true
}
