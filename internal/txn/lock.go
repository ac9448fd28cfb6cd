package txn

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Lock is what an undecided transaction has read or written of a key, or read
// of a range. It keeps others from changing it.
type Lock struct {
	Txn ID
	// Write locks have one owner, the others any number.
	Write bool
	// Range tells whether it is about the positions from Start up to, but not
	// with, End, which is empty for the end of the space. If not, it is about
	// the key at Start. A range is never locked for writing.
	Range      bool
	Start, End partition.Position
	// Part is where the span of the part begins that has locked it.
	Part partition.Position
	// Decider is the group that has, or will have, the decision.
	Decider partition.GroupID
	// DeadlineMS is that of the transaction, and PrepareMS when it was locked,
	// both in Unix milliseconds by clocks of groups. Keys under the lock do not
	// expire: whether they are alive is judged at PrepareMS.
	DeadlineMS, PrepareMS int64

	// nth is its place among those of its transaction, for [Locks].
	nth int
}

// Intent is a lock with what is to become of the key if its transaction is
// committed.
type Intent struct {
	Lock
	// Effects are of a lock for writing: rows of all tables that are about the
	// key. They are a view of the record.
	Effects effect.Batch
}

// Span returns the positions that the lock is about.
func (l *Lock) Span() partition.Span {
	if l.Range {
		return partition.Span{Start: l.Start, End: l.End}
	}
	return partition.Span{Start: l.Start, End: append(bytes.Clone(l.Start), 0)}
}

// pad is behind the start of a range in a store key. A range may begin at
// bytes that other positions begin with too, and a shard may begin at such a
// one. But no key lies before eight zeros behind any prefix, so it is no matter
// on which side of such a boundary the record is.
var pad [8]byte

// lockKey appends the store key of a lock.
func lockKey(dst []byte, start partition.Position, isRange bool, id ID) []byte {
	dst = effect.Intents.AppendKey(dst, start)
	if isRange {
		dst = append(dst, pad[:]...)
	}
	return append(dst, id[:]...)
}

// key appends the store key of the lock.
func (l *Lock) key(dst []byte) []byte { return lockKey(dst, l.Start, l.Range, l.Txn) }

// At is where the record of the lock lies. Whoever owns that place has the lock: a shard may
// begin between the start of a range and its record.
func (l *Lock) At() partition.Position { return l.key(nil)[1:] }

// inside tells whether the record of the lock lies in a span of the table.
func (l *Lock) inside(s partition.Span) bool { return s.Contains(l.At()) }

// lockFormat is the first byte of a record.
const lockFormat = 1

// The second byte of a record says what it locks, and how.
const (
	readKey   = 1
	writeKey  = 2
	readRange = 3
)

// append appends the record of the lock. Effects are those of a lock for
// writing.
func (l *Lock) append(dst []byte, effects []byte) []byte {
	dst = append(dst, lockFormat, l.kind())
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.DeadlineMS))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.PrepareMS))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.Decider))
	dst = appendBytes(dst, l.Part)
	if l.Range {
		dst = appendBytes(dst, l.End)
	}
	if l.Write {
		dst = append(dst, effects...)
	}
	return dst
}

func (l *Lock) kind() byte {
	switch {
	case l.Range:
		return readRange
	case l.Write:
		return writeKey
	}
	return readKey
}

// DecodeIntent takes a row of the table of intents apart. Its positions are
// copies, its effects are a view of value.
func DecodeIntent(key, value []byte) (Intent, error) {
	x, err := decodeIntent(key, value)
	if err != nil {
		return Intent{}, fmt.Errorf("%w: a lock of %d and %d bytes: %w", ErrRecord, len(key), len(value), err)
	}
	return x, nil
}

func decodeIntent(key, value []byte) (x Intent, err error) {
	if err := x.decodeKey(key); err != nil {
		return x, err
	}
	r := reader{rest: value}
	r.format(lockFormat)
	kind := r.byte()
	x.DeadlineMS, x.PrepareMS = int64(r.uint64()), int64(r.uint64())
	x.Decider = partition.GroupID(r.uint64())
	x.Part = r.bytes()
	if x.Range {
		x.End = r.bytes()
	}
	x.Write = kind == writeKey
	switch {
	case r.err == nil && kind != x.kind():
		r.fail("its kind is not that of its key")
	case r.err == nil && x.DeadlineMS < 0 || x.PrepareMS < 0 || x.Decider == 0:
		r.fail("it has no decider or a bad time")
	}
	if r.err == nil && x.Write {
		x.Effects, r.err = effect.Parse(r.rest)
		r.rest = nil
	}
	return x, r.end()
}

// decodeKey reads what the store key says.
func (x *Intent) decodeKey(key []byte) error {
	n := len(key) - len(x.Txn)
	if n < 1 || key[0] != byte(effect.Intents) {
		return errShort
	}
	copy(x.Txn[:], key[n:])
	start := key[1:n]
	if x.Range = bytes.HasSuffix(start, pad[:]); x.Range {
		start = start[:len(start)-len(pad)]
	} else if !bytes.HasSuffix(start, keyEnd) {
		return errShort
	}
	x.Start = bytes.Clone(start)
	return nil
}

// keyEnd is what every position of a key ends with.
var keyEnd = []byte{0x00, 0x01}
