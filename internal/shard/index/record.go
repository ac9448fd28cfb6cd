package index

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cleavekv/cleave/key"
	"github.com/zeebo/xxh3"
)

// Record is what an asynchronous index remembers of a row: which entries it has given
// it. The row itself may have changed several times since, or be gone.
//
//	format | expiry | { length of a key | key | hash of the value, 8 bytes } …
//
// Numbers are varints.
type Record struct {
	ExpiryMS int64
	Entries  []RecordedEntry
}

// RecordedEntry is an entry of a record.
type RecordedEntry struct {
	Key []byte
	// ValueHash is the hash of what is stored with it.
	ValueHash uint64
}

const recordFormatVersion = 1

// ErrRecord means that a record is damaged, or of another version.
var ErrRecord = errors.New("index: bad record")

// RecordKey is the key of the record of a row.
func RecordKey(row []byte) []byte { return key.AppendBytes(nil, row) }

// DecodeRecordKey returns the row that a record is about.
func DecodeRecordKey(b []byte) ([]byte, error) {
	t, err := key.Decode(b)
	if err == nil && len(t) == 1 {
		if row, ok := t[0].([]byte); ok {
			return row, nil
		}
	}
	return nil, ErrRecord
}

// NewRecord returns the record of entries, which are sorted by their keys.
func NewRecord(entries []Entry, expiryMS int64) Record {
	r := Record{ExpiryMS: expiryMS}
	for _, e := range entries {
		r.Entries = append(r.Entries, RecordedEntry{e.Key, xxh3.Hash(e.Value)})
	}
	return r
}

// Append appends the bytes of the record to dst.
func (r *Record) Append(dst []byte) []byte {
	dst = binary.AppendVarint(append(dst, recordFormatVersion), r.ExpiryMS)
	for _, e := range r.Entries {
		dst = append(binary.AppendUvarint(dst, uint64(len(e.Key))), e.Key...)
		dst = binary.LittleEndian.AppendUint64(dst, e.ValueHash)
	}
	return dst
}

// DecodeRecord takes the bytes of a record apart. Its keys are views of them.
func DecodeRecord(b []byte) (r Record, err error) {
	if len(b) == 0 || b[0] != recordFormatVersion {
		return r, ErrRecord
	}
	expiry, n := binary.Varint(b[1:])
	if n <= 0 {
		return r, ErrRecord
	}
	r.ExpiryMS = expiry
	for b = b[1+n:]; len(b) > 0; {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) || len(b)-n-int(size) < 8 {
			return Record{}, ErrRecord
		}
		b = b[n:]
		r.Entries = append(r.Entries, RecordedEntry{b[:size:size], binary.LittleEndian.Uint64(b[size:])})
		b = b[size+8:]
	}
	return r, nil
}

// Diff returns how to get from the entries of the record to those of a row, both sorted
// by their keys.
func (r *Record) Diff(now []Entry, expiryMS int64) (c Change) {
	old := r.Entries
	for _, e := range now {
		for len(old) > 0 && bytes.Compare(old[0].Key, e.Key) < 0 {
			c.Delete, old = append(c.Delete, old[0].Key), old[1:]
		}
		same := len(old) > 0 && bytes.Equal(old[0].Key, e.Key)
		if !same || r.ExpiryMS != expiryMS || old[0].ValueHash != xxh3.Hash(e.Value) {
			c.Put = append(c.Put, e)
		}
		if same {
			old = old[1:]
		}
	}
	for _, e := range old {
		c.Delete = append(c.Delete, e.Key)
	}
	return c
}
