// Package effect encodes what a batch changed.
//
// A group evaluates commands once and keeps only what came out of it: a list of rows put and
// deleted. [Builder] writes such a list, [Parse] reads it. The bytes go into the log, to
// replicas and into the feed, and mean the same in every process and version: Parse accepts
// exactly what a Builder can write.
//
// A batch is, with integers little-endian:
//
//	0    1  format, 1
//	1    8  Header.Seq
//	9    8  Header.ClockMS
//	17   4  number of operations
//	21      operations, in order: of two on one key the later wins
//
// and an operation is
//
//	uvarint  length of the key << 1 | 1 if it deletes
//	         key
//	uvarint  length of the value   (only if it puts)
//	         value
//
// Lengths are written in as few bytes as they need and nothing follows the last
// operation, so equal batches are equal bytes.
//
// The limit: there is no checksum here. The log guards what it stores.
package effect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
)

// Table is the first byte of a store key: what the rest, a position, is about.
// All tables are ordered by position, so that a split, a merge or a move takes
// the rows of each along.
type Table byte

// The tables. Their numbers are on disks: none is ever changed or used again.
const (
	// Rows holds keys and the elements of collections.
	Rows Table = 1
	// Intents holds what undecided transactions have locked.
	Intents Table = 2
	// Dedup holds requests that were answered, with their replies.
	Dedup Table = 3
	// Marks holds decisions and ends of transactions.
	Marks Table = 4
	// Capture holds changes that a move has yet to carry over.
	Capture Table = 5
	// Expiry holds, for each key that expires, when.
	Expiry Table = 6
	// State holds what a group remembers about itself.
	State Table = 7
	// Orphans holds, for each key whose former elements may still be in Rows,
	// how far they are removed.
	Orphans Table = 8
	// Events holds nothing: what commands did to keys, as keyspace notifications name it,
	// is in the log alone, for readers of the feed. The value is a command.Event.
	Events Table = 9
)

// ByPosition are the tables whose rows belong to the owner of their position, and
// go where it goes.
var ByPosition = [...]Table{Rows, Intents, Dedup, Marks, Expiry, Orphans}

// AppendKey appends the store key of position in the table to dst.
func (t Table) AppendKey(dst, position []byte) []byte {
	return append(append(dst, byte(t)), position...)
}

// Span returns the store keys of the table: from the first, up to the second.
func (t Table) Span() (from, to []byte) { return t.SpanBetween(nil, nil) }

// SpanBetween returns the store keys of the table that are about start <= position < end.
// An empty end is that of the table.
func (t Table) SpanBetween(start, end []byte) (from, to []byte) {
	from = t.AppendKey(nil, start)
	if len(end) == 0 {
		return from, []byte{byte(t) + 1}
	}
	return from, t.AppendKey(nil, end)
}

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
