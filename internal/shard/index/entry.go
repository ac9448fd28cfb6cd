package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/key"
)

// The limits of entries.
const (
	// MaxKeyBytes is the limit of a key in the store.
	MaxKeyBytes = 16 << 10
	// MaxEntries bounds the entries of one row: a transaction that replaces all of
	// them has to stay far below what one may write.
	MaxEntries = 1000
	// MaxEntryBytes bounds their keys and values together: an asynchronous index writes them,
	// deletes as many, and writes a record with all keys, in one batch.
	MaxEntryBytes = 8 << 20
)

// ErrEntry means that a row cannot have its entries: the text has the reason.
var ErrEntry = errors.New("index: bad entry")

// Entry is an entry as it is stored.
type Entry struct {
	// Key is the tuple and the key of the row, see [AppendKey].
	Key []byte
	// Value is what is stored with it.
	Value []byte
}

// AppendKey appends the key of an entry to dst: the tuple as one element, which ends
// where it ends, and the row's key as another.
func AppendKey(dst []byte, t key.Tuple, row []byte) ([]byte, error) {
	b, err := key.AppendTuple(dst, t)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return key.AppendBytes(b, row), nil
}

// SplitKey takes the key of an entry apart.
func SplitKey(b []byte) (t key.Tuple, row []byte, err error) {
	all, err := key.Decode(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if len(all) == 2 {
		tuple, isTuple := all[0].(key.Tuple)
		row, isRow := all[1].([]byte)
		if isTuple && isRow {
			return tuple, row, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: %v is not a tuple and a row", ErrEntry, all)
}

// LowerBound returns the first key that an entry with a tuple of at least t can have.
func LowerBound(t key.Tuple) ([]byte, error) {
	b, err := key.AppendTuple(nil, t)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return b[:len(b)-1], nil // without the end of the tuple
}

// PrefixSpan returns the range of the entries whose tuples begin with t, which is all of
// them for an empty one.
func PrefixSpan(t key.Tuple) (start, end []byte, err error) {
	if start, err = LowerBound(t); err != nil {
		return nil, nil, err
	}
	if len(t) == 0 {
		return start, []byte{entriesEnd}, nil
	}
	// What follows an element is the code of another, or the end: all below 0xff,
	// which is how the bytes of a longer string would go on.
	return start, append(bytes.Clone(start), 0xff), nil
}

// TuplePrefix returns what the keys of all entries with the tuple t begin with, and no others: that
// has the code of the row's key at its end, as the bytes of (t..., nil) begin with those of t.
func TuplePrefix(t key.Tuple) ([]byte, error) {
	b, err := AppendKey(nil, t, nil)
	if err != nil {
		return nil, err
	}
	return b[:len(b)-1], nil // without the end of the row's key
}

// The first bytes of the keys in a keyspace of entries: the codes of package key.
const (
	metaStart    = 0x00 // nil: what is known about the index
	recordsStart = 0x01 // bytes: which entries a row has, if nothing else determines that
	entriesStart = 0x05 // a tuple
	entriesEnd   = entriesStart + 1
)

// EntriesSpan is the range of what [AppendKey] returns.
func EntriesSpan() (start, end []byte) { return []byte{entriesStart}, []byte{entriesEnd} }

// RecordsSpan is the range of what [RecordKey] returns.
func RecordsSpan() (start, end []byte) { return []byte{recordsStart}, []byte{recordsStart + 1} }

// MetaKey returns the key of something that is known about the index.
func MetaKey(name string) []byte { return key.AppendString([]byte{metaStart}, name) }

// sortAndCheck sorts the entries of a row and refuses those that cannot be.
func sortAndCheck(entries []Entry) ([]Entry, error) {
	if len(entries) > MaxEntries {
		return nil, fmt.Errorf("%w: %d of one row: at most %d", ErrEntry, len(entries), MaxEntries)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) })
	size := 0
	for i := range entries {
		if size += len(entries[i].Key) + len(entries[i].Value); size > MaxEntryBytes {
			return nil, fmt.Errorf("%w: more than %d bytes of one row: store less with them", ErrEntry, MaxEntryBytes)
		}
		if n := len(entries[i].Key); n > MaxKeyBytes {
			return nil, fmt.Errorf("%w: %d bytes with the key of the row: at most %d", ErrEntry, n, MaxKeyBytes)
		}
		if i > 0 && bytes.Equal(entries[i-1].Key, entries[i].Key) && !bytes.Equal(entries[i-1].Value, entries[i].Value) {
			return nil, fmt.Errorf("%w: two with the same tuple and different values", ErrEntry)
		}
	}
	return slices.CompactFunc(entries, func(a, b Entry) bool { return bytes.Equal(a.Key, b.Key) }), nil
}

// Change is what has to be written when a row changes.
type Change struct {
	// Put are entries that are new, or whose value or expiry is.
	Put []Entry
	// Delete are keys of entries that are gone.
	Delete [][]byte
}

// Diff returns how to get from the entries of an old row to those of a new one, both
// sorted by their keys. renew means that the expiry is another: then all are put.
func Diff(old, now []Entry, renew bool) (c Change) {
	for len(old) > 0 || len(now) > 0 {
		order := 0
		switch {
		case len(old) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		default:
			order = bytes.Compare(old[0].Key, now[0].Key)
		}
		switch {
		case order < 0:
			c.Delete = append(c.Delete, old[0].Key)
			old = old[1:]
			continue
		case order > 0 || renew || !bytes.Equal(old[0].Value, now[0].Value):
			c.Put = append(c.Put, now[0])
		}
		if order == 0 {
			old = old[1:]
		}
		now = now[1:]
	}
	return c
}

// Digest stands for a set of entries. Two equal ones are taken for the same set. It does
// not depend on the order in which entries were added, so that rows in their order and
// entries in theirs make the same. The zero value is that of no entries.
type Digest struct {
	hi, lo     uint64 // sum of the entries' 128-bit hashes
	entryCount uint64
	buf        []byte
}

// Add adds an entry that expires with its row, 0 for never.
func (d *Digest) Add(e Entry, expiryMS int64) {
	d.buf = binary.AppendUvarint(d.buf[:0], uint64(len(e.Key)))
	d.buf = append(append(d.buf, e.Key...), e.Value...)
	h := xxh3.Hash128Seed(d.buf, uint64(expiryMS))
	var carry uint64
	d.lo, carry = bits.Add64(d.lo, h.Lo, 0)
	d.hi, _ = bits.Add64(d.hi, h.Hi, carry)
	d.entryCount++
}

// EntryCount returns how many entries were added.
func (d *Digest) EntryCount() uint64 { return d.entryCount }

// Equal reports whether two digests are of the same set.
func (d *Digest) Equal(o *Digest) bool {
	return d.hi == o.hi && d.lo == o.lo && d.entryCount == o.entryCount
}

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
