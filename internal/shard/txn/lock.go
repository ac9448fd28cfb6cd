package txn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Lock is what an undecided transaction has read or written of a key, or read
// of a range. It keeps others from changing it.
type Lock struct {
	Txn ID
	// Write locks have one owner, the others any number.
	Write bool
	// Range reports whether it is about the positions from Start up to, but not
	// with, End, which is empty for the end of the space. If not, it is about
	// the key at Start. A range is never locked for writing.
	Range      bool
	Start, End partition.Position
	// ParticipantStart is where the span of the part begins that has locked it.
	ParticipantStart partition.Position
	// CoordinatorGroup is the group that has, or will have, the decision.
	CoordinatorGroup partition.GroupID
	// DeadlineMS is that of the transaction, and PrepareMS when it was locked, both in Unix
	// milliseconds by clocks of groups. Keys under the lock do not expire: their expiry is
	// checked at PrepareMS.
	DeadlineMS, PrepareMS int64

	// txnIndex is its place among those of its transaction, for [Locks].
	txnIndex int
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

// rangePad is behind the start of a range in a store key. A range may begin at
// bytes that other positions begin with too, and a shard may begin at such a
// one. But no key lies before eight zeros behind any prefix, so it is no matter
// on which side of such a boundary the record is.
var rangePad [8]byte

// lockKey appends the store key of a lock.
func lockKey(dst []byte, start partition.Position, isRange bool, id ID) []byte {
	dst = effect.Intents.AppendKey(dst, start)
	if isRange {
		dst = append(dst, rangePad[:]...)
	}
	return append(dst, id[:]...)
}

// recordKey appends the store key of the lock.
func (l *Lock) recordKey(dst []byte) []byte { return lockKey(dst, l.Start, l.Range, l.Txn) }

// RecordPosition is the position of the lock's record. The group that owns this position has the
// lock: a shard may begin between the start of a range and its record.
func (l *Lock) RecordPosition() partition.Position { return l.recordKey(nil)[1:] }

// isRecordIn reports whether the record of the lock lies in a span of the table.
func (l *Lock) isRecordIn(s partition.Span) bool { return s.Contains(l.RecordPosition()) }

// lockFormat is the first byte of a record.
const lockFormat = 1

// The second byte of a record is what it locks, and how.
const (
	kindReadKey   = 1
	kindWriteKey  = 2
	kindReadRange = 3
)

// appendRecord appends the record of the lock. Effects are those of a lock for
// writing.
func (l *Lock) appendRecord(dst []byte, effects []byte) []byte {
	dst = append(dst, lockFormat, l.kindByte())
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.DeadlineMS))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.PrepareMS))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.CoordinatorGroup))
	dst = appendBytes(dst, l.ParticipantStart)
	if l.Range {
		dst = appendBytes(dst, l.End)
	}
	if l.Write {
		dst = append(dst, effects...)
	}
	return dst
}

func (l *Lock) kindByte() byte {
	switch {
	case l.Range:
		return kindReadRange
	case l.Write:
		return kindWriteKey
	}
	return kindReadKey
}

// DecodeIntent takes a row of the table of intents apart. Its positions are
// copies, its effects are a view of value.
func DecodeIntent(key, value []byte) (Intent, error) {
	x, err := decodeIntent(key, value)
	if err != nil {
		return Intent{}, fmt.Errorf("%w: a lock of %d and %d bytes: %w", ErrBadRecord, len(key), len(value), err)
	}
	return x, nil
}

func decodeIntent(key, value []byte) (x Intent, err error) {
	if err := x.decodeKey(key); err != nil {
		return x, err
	}
	r := recordReader{rest: value}
	r.checkFormat(lockFormat)
	kind := r.readByte()
	x.DeadlineMS, x.PrepareMS = int64(r.readUint64()), int64(r.readUint64())
	x.CoordinatorGroup = partition.GroupID(r.readUint64())
	x.ParticipantStart = r.readBytes()
	if x.Range {
		x.End = r.readBytes()
	}
	x.Write = kind == kindWriteKey
	switch {
	case r.err == nil && kind != x.kindByte():
		r.setError("its kind is not that of its key")
	case r.err == nil && x.DeadlineMS < 0 || x.PrepareMS < 0 || x.CoordinatorGroup == 0:
		r.setError("it has no coordinator group or a bad time")
	}
	if r.err == nil && x.Write {
		x.Effects, r.err = effect.Parse(r.rest)
		r.rest = nil
	}
	return x, r.checkEnd()
}

// decodeKey decodes the store key.
func (x *Intent) decodeKey(key []byte) error {
	n := len(key) - len(x.Txn)
	if n < 1 || key[0] != byte(effect.Intents) {
		return errTruncated
	}
	copy(x.Txn[:], key[n:])
	start := key[1:n]
	if x.Range = bytes.HasSuffix(start, rangePad[:]); x.Range {
		start = start[:len(start)-len(rangePad)]
	} else if !bytes.HasSuffix(start, keySuffix) {
		return errTruncated
	}
	x.Start = bytes.Clone(start)
	return nil
}

// keySuffix is what every position of a key ends with.
var keySuffix = []byte{0x00, 0x01}

// Mark is the record that a transaction is finished with what was locked at a position,
// until no message of it can do harm any more.
type Mark struct {
	Outcome    Outcome
	DeadlineMS int64
}

const (
	markFormat = 1
	markSize   = 1 + 1 + 8
)

// markKey appends the store key of the mark at a position.
func markKey(dst []byte, at partition.Position, id ID) []byte {
	dst = effect.Marks.AppendKey(dst, at)
	return append(append(dst, rangePad[:]...), id[:]...)
}

func (m Mark) appendRecord(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, markFormat, byte(m.Outcome)), uint64(m.DeadlineMS))
}

// DecodeMark takes a row of the table of marks apart.
func DecodeMark(value []byte) (Mark, error) {
	r := recordReader{rest: value}
	r.checkFormat(markFormat)
	m := Mark{Outcome: Outcome(r.readByte()), DeadlineMS: int64(r.readUint64())}
	if r.err == nil && (!m.Outcome.isFinal() || m.DeadlineMS < 0) {
		r.setError("it has no outcome or a bad time")
	}
	if err := r.checkEnd(); err != nil {
		return Mark{}, fmt.Errorf("%w: a mark of %d bytes: %w", ErrBadRecord, len(value), err)
	}
	return m, nil
}

// loadMark returns the mark at a position, if there is one.
func loadMark(e *command.Env, at partition.Position, id ID) (Mark, bool, error) {
	value, ok, err := e.Get(markKey(nil, at, id), nil)
	if err != nil || !ok {
		return Mark{}, false, err
	}
	m, err := DecodeMark(value)
	return m, err == nil, err
}

func clonePosition(p partition.Position) partition.Position { return bytes.Clone(p) }

var (
	errTruncated     = errors.New("it is cut off")
	errTrailingBytes = errors.New("it goes on behind its end")
)

// recordReader takes a record apart. After the first thing that is wrong all it reads
// is zero.
type recordReader struct {
	rest []byte
	err  error
}

func (r *recordReader) setError(text string) {
	if r.err == nil {
		r.err, r.rest = errors.New(text), nil
	}
}

func (r *recordReader) readN(n int) []byte {
	if r.err != nil || n > len(r.rest) {
		if r.err == nil {
			r.err, r.rest = errTruncated, nil
		}
		return make([]byte, min(n, 8))
	}
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}

func (r *recordReader) readByte() byte { return r.readN(1)[0] }

func (r *recordReader) readUint64() uint64 { return binary.LittleEndian.Uint64(r.readN(8)) }

// checkFormat checks the first byte.
func (r *recordReader) checkFormat(want byte) {
	if got := r.readByte(); r.err == nil && got != want {
		r.setError(fmt.Sprintf("format %d, this version reads %d", got, want))
	}
}

// readCount reads a number in as few bytes as it needs.
func (r *recordReader) readCount() int {
	x, n := binary.Uvarint(r.rest)
	if r.err != nil || n <= 0 || n > 1 && x>>(7*(n-1)) == 0 || x > uint64(len(r.rest)) {
		if r.err == nil {
			r.err, r.rest = errTruncated, nil
		}
		return 0
	}
	r.rest = r.rest[n:]
	return int(x)
}

// readBytes reads a copy, nil if it is empty.
func (r *recordReader) readBytes() partition.Position {
	n := r.readCount()
	if n == 0 {
		return nil
	}
	part := r.readN(n)
	if r.err != nil {
		return nil
	}
	return bytes.Clone(part)
}

// checkEnd checks that nothing is left.
func (r *recordReader) checkEnd() error {
	if r.err == nil && len(r.rest) > 0 {
		return errTrailingBytes
	}
	return r.err
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
