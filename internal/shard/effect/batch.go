package effect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
)

// formatVersion is the first byte of a batch.
const formatVersion = 1

const (
	seqOffset   = 1
	clockOffset = seqOffset + 8
	countOffset = clockOffset + 8
	headerBytes = countOffset + 4
)

// maxRetainedBytes is how much memory a Builder holds on to between batches. Batches
// are capped at about 1 MiB; a larger one is a single large command, and its
// memory would lie idle afterwards.
const maxRetainedBytes = 4 << 20

// Header has the place of a batch.
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

// Savepoint is a state of a Builder to which it can go back.
type Savepoint struct{ sizeBytes, count int }

// Builder writes a batch. Its zero value is an empty batch with a zero header.
// It keeps its memory, so one that is warm does not allocate. It is not safe
// for concurrent use.
type Builder struct {
	buf   []byte
	count int
}

// Reset begins a new batch. What Bytes and At returned before is overwritten.
func (b *Builder) Reset(h Header) {
	if cap(b.buf) > maxRetainedBytes {
		b.buf = nil
	}
	b.buf = append(b.buf[:0], formatVersion)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, h.Seq)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(h.ClockMS))
	b.buf = append(b.buf, 0, 0, 0, 0) // the count: Bytes knows it
	b.count = 0
}

// HoldsMuch reports whether the next Reset gives memory back.
func (b *Builder) HoldsMuch() bool { return cap(b.buf) > maxRetainedBytes }

// Put sets the row of key to value. It copies both.
func (b *Builder) Put(key, value []byte) Ref { return b.PutParts(key, value, nil) }

// PutParts is Put of a value in two parts, for callers that would have to join
// a header and a body first.
func (b *Builder) PutParts(key, head, body []byte) Ref {
	ref := b.beginOp(key, 0)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(head)+len(body)))
	b.buf = append(append(b.buf, head...), body...)
	return ref
}

// Delete removes the row of key.
func (b *Builder) Delete(key []byte) Ref { return b.beginOp(key, 1) }

func (b *Builder) beginOp(key []byte, deletes uint64) Ref {
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
func (b *Builder) Size() int { return max(len(b.buf), headerBytes) }

// Bytes returns the batch. It is good until the next change of b.
func (b *Builder) Bytes() []byte {
	if len(b.buf) == 0 {
		b.Reset(Header{})
	}
	binary.LittleEndian.PutUint32(b.buf[countOffset:], uint32(b.count))
	return b.buf
}

// Savepoint returns the present state for Rewind.
func (b *Builder) Savepoint() Savepoint { return Savepoint{len(b.buf), b.count} }

// RollbackTo takes back every operation since m was made. A mark is good until the
// next Reset, or Rewind to an earlier one.
func (b *Builder) RollbackTo(m Savepoint) { b.buf, b.count = b.buf[:m.sizeBytes], m.count }

// uvarintSize is how many bytes x takes at best.
func uvarintSize(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

// ErrFormat means that bytes are not a batch that this version can read: they
// are damaged, or a newer version wrote them.
var ErrFormat = errors.New("effect: not a batch")

// Batch is a list of operations that Parse has checked. It is a view of the
// bytes given to Parse. The zero value is empty.
type Batch struct{ data []byte }

// Parse checks data from end to end, so that nothing done with the Batch later
// can fail. It keeps data.
func Parse(data []byte) (Batch, error) {
	if len(data) < headerBytes {
		return Batch{}, fmt.Errorf("%w: %d bytes, at least %d needed", ErrFormat, len(data), headerBytes)
	}
	if data[0] != formatVersion {
		return Batch{}, fmt.Errorf("%w: format %d, this version reads %d: use the version that wrote it", ErrFormat, data[0], formatVersion)
	}
	count := 0
	for at := headerBytes; at < len(data); count++ {
		next := checkOp(data, at)
		if next < 0 {
			return Batch{}, fmt.Errorf("%w: operation %d at byte %d is damaged", ErrFormat, count, at)
		}
		at = next
	}
	b := Batch{data}
	if b.Len() != count {
		return Batch{}, fmt.Errorf("%w: %d operations, %d announced", ErrFormat, count, b.Len())
	}
	return b, nil
}

// checkOp returns the end of the operation at data[at], or -1.
func checkOp(data []byte, at int) int {
	keyLen, at := checkLength(data, at)
	if at < 0 || keyLen>>1 > uint64(len(data)-at) {
		return -1
	}
	at += int(keyLen >> 1)
	if keyLen&1 == 1 {
		return at
	}
	valueLen, at := checkLength(data, at)
	if at < 0 || valueLen > uint64(len(data)-at) {
		return -1
	}
	return at + int(valueLen)
}

// checkLength reads a number and returns where it ends, or -1 if it is cut off,
// too large, or longer than it need be.
func checkLength(data []byte, at int) (uint64, int) {
	if at < len(data) && data[at] < 0x80 { // most are short
		return uint64(data[at]), at + 1
	}
	return checkLongLength(data, at)
}

func checkLongLength(data []byte, at int) (uint64, int) {
	x, n := binary.Uvarint(data[at:])
	if n <= 0 || n != uvarintSize(x) {
		return 0, -1
	}
	return x, at + n
}

// nextOp reads the operation at data[at], which was checked, and returns where
// it ends.
func nextOp(data []byte, at int) (Op, int) {
	keyLen, key := nextLength(data, at)
	at = key + int(keyLen>>1)
	op := Op{Key: data[key:at:at], Delete: keyLen&1 == 1}
	if op.Delete {
		return op, at
	}
	valueLen, value := nextLength(data, at)
	at = value + int(valueLen)
	op.Value = data[value:at:at]
	return op, at
}

// nextLength reads a number, which was checked, and returns where it ends.
func nextLength(data []byte, at int) (uint64, int) {
	if data[at] < 0x80 { // most are short
		return uint64(data[at]), at + 1
	}
	x, n := binary.Uvarint(data[at:])
	return x, at + n
}

// Header returns where the batch belongs.
func (b Batch) Header() Header {
	if len(b.data) == 0 {
		return Header{}
	}
	return Header{
		Seq:     binary.LittleEndian.Uint64(b.data[seqOffset:]),
		ClockMS: int64(binary.LittleEndian.Uint64(b.data[clockOffset:])),
	}
}

// Len returns the number of operations.
func (b Batch) Len() int {
	if len(b.data) == 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b.data[countOffset:]))
}

// All yields the operations in order with their numbers from 0 on. Apply them
// in this order: of two on one key the later wins.
func (b Batch) All() iter.Seq2[int, Op] {
	return func(yield func(int, Op) bool) {
		for i, at := 0, headerBytes; at < len(b.data); i++ {
			var op Op
			if op, at = nextOp(b.data, at); !yield(i, op) {
				return
			}
		}
	}
}
