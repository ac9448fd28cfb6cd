package mover

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// IsSpanRow reports whether the row of a store key goes where a span goes. What a group knows
// about itself stays.
func IsSpanRow(key []byte, s partition.Span) bool {
	return len(key) > 0 && slices.Contains(effect.ByPosition[:], effect.Table(key[0])) && s.Contains(key[1:])
}

// visitSpanRows visits the rows that are about a span, from a store key on, until visit
// returns false.
func visitSpanRows(r command.Reader, s partition.Span, cursor []byte, visit func(key, value []byte) bool) error {
	more := true
	for _, t := range effect.ByPosition {
		start, end := t.SpanBetween(s.Start, s.End)
		if bytes.Compare(cursor, start) > 0 {
			start = cursor
		}
		if !more || bytes.Compare(start, end) >= 0 {
			continue
		}
		err := r.Scan(start, end, false, func(key, value []byte) bool {
			more = visit(key, value)
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadChunk reads the rows of a span from a store key on, until they have about
// limit bytes, and appends them to a batch. Next is where to go on; nothing, if
// that was all. Each chunk may be read at another moment: whatever changes after
// the first one began is in the log, and comes with that.
func ReadChunk(r command.Reader, s partition.Span, cursor []byte, limit int, into *effect.Builder) (next []byte, err error) {
	size := 0
	err = visitSpanRows(r, s, cursor, func(key, value []byte) bool {
		if size > 0 && size+len(key)+len(value) > limit {
			next = bytes.Clone(key)
			return false
		}
		size += len(key) + len(value)
		into.Put(key, value)
		return true
	})
	return next, err
}

// AppendSpanOps appends the operations of an entry of the log that are about a span to a
// batch, and returns how many there were.
func AppendSpanOps(from effect.Batch, s partition.Span, into *effect.Builder) (n int) {
	for _, op := range from.All() {
		if !IsSpanRow(op.Key, s) {
			continue
		}
		if n++; !op.Delete {
			into.Put(op.Key, op.Value)
		} else {
			into.Delete(op.Key)
		}
	}
	return n
}

// Digest is a checksum of rows. Equal rows have the same, and the same means equal rows except
// for a chance of one in 2^128, unless the rows were chosen to collide.
type Digest struct {
	Rows, Bytes uint64
	Hash        [16]byte
}

// TableDigests are those of all tables that go where their positions go.
type TableDigests [len(effect.ByPosition)]Digest

// SumSpan reads all rows that are about a span, and sums them up by table.
func SumSpan(r command.Reader, s partition.Span) (d TableDigests, err error) {
	for i, t := range effect.ByPosition {
		start, end := t.SpanBetween(s.Start, s.End)
		h := newRowDigester()
		if err := r.Scan(start, end, false, func(key, value []byte) bool {
			h.add(key, value, true)
			return true
		}); err != nil {
			return d, err
		}
		d[i] = h.finish()
	}
	return d, nil
}

// SumKeys sums up the rows of store keys, and that there is none, in the order
// given: sorted, each once.
func SumKeys(r command.Reader, keys [][]byte) (Digest, error) {
	h := newRowDigester()
	var value []byte
	for _, key := range keys {
		v, ok, err := r.Get(key, value[:0])
		if err != nil {
			return Digest{}, err
		}
		value = v
		h.add(key, value, ok)
	}
	return h.finish(), nil
}

type rowDigester struct {
	counted Digest
	hash    *xxh3.Hasher
	header  []byte
}

func newRowDigester() *rowDigester { return &rowDigester{hash: xxh3.New()} }

// add adds a row. With both lengths no other rows have the same bytes.
func (s *rowDigester) add(key, value []byte, present bool) {
	if present {
		s.counted.Rows++
		s.counted.Bytes += uint64(len(key) + len(value))
	}
	s.header = binary.AppendUvarint(s.header[:0], uint64(len(key)))
	if present {
		s.header = binary.AppendUvarint(s.header, uint64(len(value))+1)
	} else {
		s.header, value = append(s.header, 0), nil
	}
	_, _ = s.hash.Write(s.header) // a Hasher never fails
	_, _ = s.hash.Write(key)
	_, _ = s.hash.Write(value)
}

func (s *rowDigester) finish() Digest {
	s.counted.Hash = s.hash.Sum128().Bytes()
	return s.counted
}
