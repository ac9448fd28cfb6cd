package command

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/plant"
)

// Kind is the type of what a row holds.
type Kind byte

// The kinds. Their numbers are on disks: none is ever changed or used again.
// 3, 4 and 5 are kept for sets, sorted sets and lists.
const (
	// None is the kind of an absent key. No row has it.
	None Kind = 0
	// String is any bytes.
	String Kind = 1
	// Hash is fields with values, each a row of its own.
	Hash Kind = 2
	// Element is a row of a collection, not a key's own. A scan of keys skips
	// it.
	Element Kind = 16
)

// String is Redis' word for k.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case String:
		return "string"
	case Hash:
		return "hash"
	case Element:
		return "element"
	default:
		return fmt.Sprintf("Kind(%d)", byte(k))
	}
}

// The flags of a row.
const (
	flagExpiry = 1 << 0
	// flagIntent is kept for rows that carry an undecided transaction's intent.
	// Until this version knows what to do with one it refuses the row.
	flagIntent = 1 << 7
)

const (
	rowPlain   = 1 + 1 + 8    // kind, flags, version
	rowExpires = rowPlain + 8 // and the expiry
	hashSize   = 8 + 8        // generation, number of fields
	maxHead    = rowExpires + hashSize
	elementTag = 0x01           // of elements that are found by name
	afterTag   = elementTag + 1 // the first byte behind them
)

// Row is one row of the table of rows.
type Row struct {
	Kind Kind
	// Version is that of the last write of the key. In a row of kind Element it
	// is the generation of the collection that the element belongs to.
	Version uint64
	// ExpiryMS is when the key expires, in Unix milliseconds. 0 means never.
	ExpiryMS int64
	// Generation is, of a Hash, the version at which it was created, and Fields
	// the number of its fields.
	Generation, Fields uint64
	// Payload is the value of a String or Element, a view of the row's bytes.
	Payload []byte
}

// DecodeRow takes the bytes of a row apart. The payload is a view of them. A
// reader that is not in the mailbox uses this and then asks [Row.Alive].
func DecodeRow(b []byte) (Row, error) {
	if len(b) < rowPlain {
		return Row{}, badRow(b)
	}
	r := Row{Kind: Kind(b[0]), Version: binary.LittleEndian.Uint64(b[2:]), Payload: b[rowPlain:]}
	switch b[1] {
	case 0:
	case flagExpiry:
		if len(b) < rowExpires {
			return Row{}, badRow(b)
		}
		r.ExpiryMS = int64(binary.LittleEndian.Uint64(b[rowPlain:]))
		r.Payload = b[rowExpires:]
		if r.ExpiryMS <= 0 || r.Kind == Element {
			return Row{}, badRow(b)
		}
	case flagIntent, flagIntent | flagExpiry:
		return Row{}, fmt.Errorf("%w: it carries an intent: use a version that knows transactions across groups", ErrRow)
	default:
		return Row{}, badRow(b)
	}
	switch r.Kind {
	case String, Element:
	case Hash:
		if len(r.Payload) != hashSize {
			return Row{}, badRow(b)
		}
		r.Generation = binary.LittleEndian.Uint64(r.Payload)
		r.Fields = binary.LittleEndian.Uint64(r.Payload[8:])
		r.Payload = nil
	default:
		return Row{}, badRow(b)
	}
	return r, nil
}

// badRow reports the head of a row alone: values do not belong in logs.
func badRow(b []byte) error {
	return fmt.Errorf("%w: %d bytes that begin with %x", ErrRow, len(b), b[:min(len(b), rowPlain)])
}

// Alive tells whether the key has not expired at nowMS. It dies at its expiry,
// not after it.
func (r *Row) Alive(nowMS int64) bool {
	return r.ExpiryMS == 0 || nowMS < r.ExpiryMS || plant.Bug("command-expired-visible")
}

// Text returns the value of a String that is alive at nowMS. ok is false if the
// key is absent or expired.
func (r *Row) Text(nowMS int64) (value []byte, ok bool, err error) {
	switch {
	case r.Kind == None || !r.Alive(nowMS):
		return nil, false, nil
	case r.Kind != String:
		return nil, false, ErrWrongType
	}
	return r.Payload, true, nil
}

// appendHead appends everything of the row but its payload.
func (r *Row) appendHead(dst []byte) []byte {
	flags := byte(0)
	if r.ExpiryMS != 0 {
		flags = flagExpiry
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, byte(r.Kind), flags), r.Version)
	if r.ExpiryMS != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.ExpiryMS))
	}
	if r.Kind == Hash {
		dst = binary.LittleEndian.AppendUint64(dst, r.Generation)
		dst = binary.LittleEndian.AppendUint64(dst, r.Fields)
	}
	return dst
}

// DecodeExpiry takes a row of the table of expiries apart: when the key that it
// is about expires, in Unix milliseconds.
func DecodeExpiry(b []byte) (expiryMS int64, err error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: an expiry of %d bytes", ErrRow, len(b))
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}
