package index

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/key"
)

// The limits of entries.
const (
	// MaxKeyBytes is the limit of a key in the store.
	MaxKeyBytes = 16 << 10
	// MaxEntries bounds the entries of one row: a transaction that replaces all of
	// them has to stay far below what one may write.
	MaxEntries = 1000
	// MaxBytes bounds their keys and values together: an asynchronous index writes them,
	// deletes as many, and writes a record with all keys, in one batch.
	MaxBytes = 8 << 20
)

// ErrEntry means that a row cannot have its entries: the text says why.
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

// Bound returns the first key that an entry with a tuple of at least t can have.
func Bound(t key.Tuple) ([]byte, error) {
	b, err := key.AppendTuple(nil, t)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return b[:len(b)-1], nil // without the end of the tuple
}

// Prefix returns the range of the entries whose tuples begin with t, which is all of
// them for an empty one.
func Prefix(t key.Tuple) (start, end []byte, err error) {
	if start, err = Bound(t); err != nil {
		return nil, nil, err
	}
	if len(t) == 0 {
		return start, []byte{entriesEnd}, nil
	}
	// What follows an element is the code of another, or the end: all below 0xff,
	// which is how the bytes of a longer string would go on.
	return start, append(bytes.Clone(start), 0xff), nil
}

// Same returns what the keys of all entries with the tuple t begin with, and no others: that
// has the code of the row's key at its end, as the bytes of (t..., nil) begin with those of t.
func Same(t key.Tuple) ([]byte, error) {
	b, err := AppendKey(nil, t, nil)
	if err != nil {
		return nil, err
	}
	return b[:len(b)-1], nil // without the end of the row's key
}

// The first bytes of the keys in a keyspace of entries: the codes of package key.
const (
	metaStart    = 0x00 // nil: what is known about the index
	recordsStart = 0x01 // bytes: which entries a row has, if nothing else tells
	entriesStart = 0x05 // a tuple
	entriesEnd   = entriesStart + 1
)

// Entries is the range of what [AppendKey] returns.
func Entries() (start, end []byte) { return []byte{entriesStart}, []byte{entriesEnd} }

// Records is the range of what [RecordKey] returns.
func Records() (start, end []byte) { return []byte{recordsStart}, []byte{recordsStart + 1} }

// Meta returns the key of something that is known about the index.
func Meta(name string) []byte { return key.AppendString([]byte{metaStart}, name) }

// tidy sorts the entries of a row and refuses those that cannot be.
func tidy(entries []Entry) ([]Entry, error) {
	if len(entries) > MaxEntries {
		return nil, fmt.Errorf("%w: %d of one row: at most %d", ErrEntry, len(entries), MaxEntries)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) })
	size := 0
	for i := range entries {
		if size += len(entries[i].Key) + len(entries[i].Value); size > MaxBytes {
			return nil, fmt.Errorf("%w: more than %d bytes of one row: store less with them", ErrEntry, MaxBytes)
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
