package effect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
)

// ErrFormat means that bytes are not a batch that this version can read: they
// are damaged, or a newer version wrote them.
var ErrFormat = errors.New("effect: not a batch")

// Batch is a list of operations that Parse has checked. It is a view of the
// bytes given to Parse. The zero value is empty.
type Batch struct{ data []byte }

// Parse checks data from end to end, so that nothing done with the Batch later
// can fail. It keeps data.
func Parse(data []byte) (Batch, error) {
	if len(data) < headSize {
		return Batch{}, fmt.Errorf("%w: %d bytes, at least %d needed", ErrFormat, len(data), headSize)
	}
	if data[0] != format {
		return Batch{}, fmt.Errorf("%w: format %d, this version reads %d: use the version that wrote it", ErrFormat, data[0], format)
	}
	count := 0
	for at := headSize; at < len(data); count++ {
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
	return checkLong(data, at)
}

func checkLong(data []byte, at int) (uint64, int) {
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
		Seq:     binary.LittleEndian.Uint64(b.data[atSeq:]),
		ClockMS: int64(binary.LittleEndian.Uint64(b.data[atClock:])),
	}
}

// Len returns the number of operations.
func (b Batch) Len() int {
	if len(b.data) == 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b.data[atCount:]))
}

// All yields the operations in order with their numbers from 0 on. Apply them
// in this order: of two on one key the later wins.
func (b Batch) All() iter.Seq2[int, Op] {
	return func(yield func(int, Op) bool) {
		for i, at := 0, headSize; at < len(b.data); i++ {
			var op Op
			if op, at = nextOp(b.data, at); !yield(i, op) {
				return
			}
		}
	}
}
