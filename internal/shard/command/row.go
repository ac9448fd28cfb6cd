package command

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
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
	// Chunked is a String whose bytes are rows of their own, ChunkBytes each. Clients
	// see a String: see [Row.Type].
	Chunked Kind = 6
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
	case Chunked:
		return "chunked string"
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
	plainHeadBytes      = 1 + 1 + 8          // kind, flags, version
	expiringHeadBytes   = plainHeadBytes + 8 // and the expiry
	collectionHeadBytes = 8 + 8              // generation, number of fields
	maxHeadBytes        = expiringHeadBytes + collectionHeadBytes
	fieldTag            = 0x01         // of elements that are found by name
	afterFieldTag       = fieldTag + 1 // the first byte behind them
	chunkTag            = 0x02         // of the chunks of a string
)

// Row is one row of the table of rows.
type Row struct {
	Kind Kind
	// Version is that of the last write of the key. In a row of kind Element it
	// is the generation of the collection that the element belongs to.
	Version uint64
	// ExpiryMS is when the key expires, in Unix milliseconds. 0 means never.
	ExpiryMS int64
	// Generation is, of a Hash or a Chunked, the version at which it was created.
	// Fields is the number of fields of a Hash, and of bytes of a Chunked.
	Generation, Length uint64
	// Payload is the value of a String or Element, a view of the row's bytes.
	Payload []byte
}

// DecodeRow takes the bytes of a row apart. The payload is a view of them. A
// reader that is not in the mailbox uses this and then asks [Row.IsAlive].
func DecodeRow(b []byte) (Row, error) {
	if len(b) < plainHeadBytes {
		return Row{}, newBadRowError(b)
	}
	r := Row{Kind: Kind(b[0]), Version: binary.LittleEndian.Uint64(b[2:]), Payload: b[plainHeadBytes:]}
	switch b[1] {
	case 0:
	case flagExpiry:
		if len(b) < expiringHeadBytes {
			return Row{}, newBadRowError(b)
		}
		r.ExpiryMS = int64(binary.LittleEndian.Uint64(b[plainHeadBytes:]))
		r.Payload = b[expiringHeadBytes:]
		if r.ExpiryMS <= 0 || r.Kind == Element {
			return Row{}, newBadRowError(b)
		}
	case flagIntent, flagIntent | flagExpiry:
		return Row{}, fmt.Errorf("%w: it carries an intent: use a version that knows transactions across groups", ErrRow)
	default:
		return Row{}, newBadRowError(b)
	}
	switch r.Kind {
	case String, Element:
	case Hash, Chunked:
		if len(r.Payload) != collectionHeadBytes {
			return Row{}, newBadRowError(b)
		}
		r.Generation = binary.LittleEndian.Uint64(r.Payload)
		r.Length = binary.LittleEndian.Uint64(r.Payload[8:])
		r.Payload = nil
		if r.Kind == Chunked && r.Length > MaxValueBytes {
			return Row{}, newBadRowError(b)
		}
	default:
		return Row{}, newBadRowError(b)
	}
	return r, nil
}

// newBadRowError reports the head of a row alone: values do not belong in logs.
func newBadRowError(b []byte) error {
	return fmt.Errorf("%w: %d bytes that begin with %x", ErrRow, len(b), b[:min(len(b), plainHeadBytes)])
}

// IsAlive reports whether the key has not expired at nowMS. It dies at its expiry,
// not after it.
func (r *Row) IsAlive(nowMS int64) bool {
	return r.ExpiryMS == 0 || nowMS < r.ExpiryMS
}

// Type is the kind as clients see it: how the bytes of a String are kept does not show.
func (r *Row) Type() Kind {
	if r.Kind == Chunked {
		return String
	}
	return r.Kind
}

// hasElements reports whether there are elements behind the row.
func (r *Row) hasElements() bool { return r.Kind == Hash || r.Kind == Chunked }

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
	if r.hasElements() {
		dst = binary.LittleEndian.AppendUint64(dst, r.Generation)
		dst = binary.LittleEndian.AppendUint64(dst, r.Length)
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

// loadRow reads the own row of a key. A row that has expired is returned too, as
// writing over it must know what it was; alive reports whether the key is there.
// The payload is good until the next lookup or write, unless kept.
func (e *Env) loadRow(p partition.Position) (row Row, alive bool, err error) {
	if err := checkPosition(p); err != nil {
		return Row{}, false, err
	}
	if err := e.CheckRead(p); err != nil {
		return Row{}, false, err
	}
	e.keyBuf = effect.Rows.AppendKey(e.keyBuf[:0], p)
	value, ok, err := e.lookupRow(e.keyBuf)
	if err != nil || !ok {
		return Row{}, false, err
	}
	return e.decodeOwnRow(p, value)
}

func (e *Env) decodeOwnRow(p partition.Position, value []byte) (row Row, alive bool, err error) {
	row, err = DecodeRow(value)
	if err != nil || row.Kind == Element {
		return Row{}, false, newBadRowError(value)
	}
	return row, e.isAlive(p, &row), nil
}

// loadBlind is load for a write that only needs to know what it leaves behind,
// so it need not read if the reader knows that there is nothing.
func (e *Env) loadBlind(p partition.Position) (row Row, err error) {
	if e.blindReader == nil || e.recordsEvents { // an event reports whether the key is new
		row, _, err = e.loadRow(p)
		return row, err
	}
	if err := checkPosition(p); err != nil {
		return Row{}, err
	}
	e.keyBuf = effect.Rows.AppendKey(e.keyBuf[:0], p)
	if _, _, known := e.lookupWritten(e.keyBuf); !known && e.blindReader.CanSetBlindly(e.keyBuf) {
		return Row{}, nil
	}
	row, _, err = e.loadRow(p)
	return row, err
}

// loadString is load for commands of strings. The value may be in chunks: see [Row.stringLen]
// and [Env.readStringRange].
func (e *Env) loadString(p partition.Position) (row Row, alive bool, err error) {
	row, alive, err = e.loadRow(p)
	if err == nil && alive && row.Type() != String {
		err = ErrWrongType
	}
	return row, alive, err
}

// replaceRow writes the own row of a key over old, which may be absent or dead,
// and keeps the tables of expiries and orphans in step. It gives the row its
// version and returns it.
func (e *Env) replaceRow(p partition.Position, old *Row, row Row) uint64 {
	var head [maxHeadBytes]byte
	e.ensureWritable(p)
	row.Version = e.takeVersion()
	e.keyBuf = effect.Rows.AppendKey(e.keyBuf[:0], p)
	e.putRow(e.keyBuf, row.appendHead(head[:0]), row.Payload)
	e.writtenKeys++
	if e.recordsEvents {
		e.recordWriteEvents(p, old)
	}
	e.setExpiryRow(p, old.ExpiryMS, row.ExpiryMS)
	if old.hasElements() && (!row.hasElements() || row.Generation != old.Generation) {
		e.recordOrphans(p)
	}
	return row.Version
}

// removeRow deletes the own row of a key. What it held is orphaned, unless the
// caller has removed that.
func (e *Env) removeRow(p partition.Position, old *Row, emptied bool) {
	e.ensureWritable(p)
	e.keyBuf = effect.Rows.AppendKey(e.keyBuf[:0], p)
	e.deleteRow(e.keyBuf)
	e.writtenKeys++
	if e.recordsEvents {
		e.recordRemoveEvents(p, old)
	}
	e.setExpiryRow(p, old.ExpiryMS, 0)
	if old.hasElements() && !emptied {
		e.recordOrphans(p)
	}
}

// setExpiryRow keeps the table of expiries in step with a row.
func (e *Env) setExpiryRow(p partition.Position, old, now int64) {
	if old == now {
		return
	}
	e.keyBuf = effect.Expiry.AppendKey(e.keyBuf[:0], p)
	if now == 0 {
		e.deleteRow(e.keyBuf)
		return
	}
	var value [8]byte
	binary.LittleEndian.PutUint64(value[:], uint64(now))
	e.putRow(e.keyBuf, value[:], nil)
}

// recordOrphans notes that elements of the key are to be swept, from the first one on.
func (e *Env) recordOrphans(p partition.Position) {
	e.keyBuf = effect.Orphans.AppendKey(e.keyBuf[:0], p)
	e.putRow(e.keyBuf, nil, nil)
}
