package effect

import (
	"encoding/binary"
	"math/bits"
)

// format is the first byte of a batch.
const format = 1

const (
	atSeq    = 1
	atClock  = atSeq + 8
	atCount  = atClock + 8
	headSize = atCount + 4
)

// keepBytes is how much memory a Builder holds on to between batches. Batches
// are capped at about 1 MiB; a larger one is a single large command, and its
// memory would lie idle afterwards.
const keepBytes = 4 << 20

// Header says where a batch belongs.
type Header struct {
	// Seq is the group's sequence that this batch makes: it was evaluated on
	// the state of Seq-1 and means nothing on any other.
	Seq uint64
	// ClockMS is the group's clock at which the batch was evaluated, in Unix
	// milliseconds.
	ClockMS int64
}

// Op is one row put or deleted. Its slices are views.
type Op struct {
	Key, Value []byte
	Delete     bool
}

// Ref names an operation of a Builder until the next Reset, or Rewind past it.
type Ref int

// Mark is a state of a Builder to which it can go back.
type Mark struct{ size, count int }

// Builder writes a batch. Its zero value is an empty batch with a zero header.
// It keeps its memory, so one that is warm does not allocate. It is not safe
// for concurrent use.
type Builder struct {
	buf   []byte
	count int
}

// Reset begins a new batch. What Bytes and At returned before is overwritten.
func (b *Builder) Reset(h Header) {
	if cap(b.buf) > keepBytes {
		b.buf = nil
	}
	b.buf = append(b.buf[:0], format)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, h.Seq)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(h.ClockMS))
	b.buf = append(b.buf, 0, 0, 0, 0) // the count: Bytes knows it
	b.count = 0
}

// Put sets the row of key to value. It copies both.
func (b *Builder) Put(key, value []byte) Ref { return b.PutParts(key, value, nil) }

// PutParts is Put of a value in two parts, for callers that would have to join
// a header and a body first.
func (b *Builder) PutParts(key, head, body []byte) Ref {
	ref := b.begin(key, 0)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(head)+len(body)))
	b.buf = append(append(b.buf, head...), body...)
	return ref
}

// Delete removes the row of key.
func (b *Builder) Delete(key []byte) Ref { return b.begin(key, 1) }

func (b *Builder) begin(key []byte, deletes uint64) Ref {
	if len(b.buf) == 0 {
		b.Reset(Header{})
	}
	ref := Ref(len(b.buf))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key))<<1|deletes)
	b.buf = append(b.buf, key...)
	b.count++
	return ref
}

// At returns the operation that Put, PutParts or Delete returned ref for. Its
// slices are good until the next change of b.
func (b *Builder) At(ref Ref) Op {
	op, _ := nextOp(b.buf, int(ref))
	return op
}

// Len returns the number of operations.
func (b *Builder) Len() int { return b.count }

// Size returns the length of Bytes.
func (b *Builder) Size() int { return max(len(b.buf), headSize) }

// Bytes returns the batch. It is good until the next change of b.
func (b *Builder) Bytes() []byte {
	if len(b.buf) == 0 {
		b.Reset(Header{})
	}
	binary.LittleEndian.PutUint32(b.buf[atCount:], uint32(b.count))
	return b.buf
}

// Mark returns the present state for Rewind.
func (b *Builder) Mark() Mark { return Mark{len(b.buf), b.count} }

// Rewind takes back every operation since m was made. A mark is good until the
// next Reset, or Rewind to an earlier one.
func (b *Builder) Rewind(m Mark) { b.buf, b.count = b.buf[:m.size], m.count }

// uvarintSize is how many bytes x takes at best.
func uvarintSize(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }
