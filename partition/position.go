package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Position is the place of a key, or of an element of a collection, in the
// ordered space:
//
//	keyspace id | slot (hash keyspaces) | escaped key | 0x00 0x01 [| element]
//
// In the escaped key 0x00 is written 0x00 0xff. So a key's own row comes first,
// its elements follow it directly, and then comes the next key in the order of
// the keys' bytes.
type Position []byte

// ErrPosition means that bytes are not a position of the keyspace: they were
// written by something else, or damaged.
var ErrPosition = errors.New("partition: not a position")

const (
	escape     = 0x00
	escapedNul = 0xff
	terminator = 0x01
)

// KeyspaceID names a keyspace for ever: ids are never used again.
type KeyspaceID uint32

// idOneByte is how many ids take one byte. Larger ones are a byte that says how
// many bytes follow, so that ids sort as numbers.
const idOneByte = 0xfc

func (id KeyspaceID) append(dst []byte) []byte {
	if id < idOneByte {
		return append(dst, byte(id))
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(id))
	tail := bytes.TrimLeft(b[:], "\x00")
	return append(append(dst, idOneByte+byte(len(tail)-1)), tail...)
}

// readID splits an id off p.
func readID(p []byte) (id KeyspaceID, rest []byte, ok bool) {
	if len(p) == 0 {
		return 0, nil, false
	}
	if p[0] < idOneByte {
		return KeyspaceID(p[0]), p[1:], true
	}
	n := int(p[0]-idOneByte) + 1
	if len(p) < 1+n || p[1] == 0 {
		return 0, nil, false
	}
	for _, b := range p[1 : 1+n] {
		id = id<<8 | KeyspaceID(b)
	}
	return id, p[1+n:], id >= idOneByte
}

// AppendPosition appends the position of key, that of its own row, to dst.
func (k *Keyspace) AppendPosition(dst []byte, key []byte) Position {
	dst = k.ID.append(dst)
	if k.Kind == Hash {
		dst = binary.BigEndian.AppendUint16(dst, k.SlotOf(key))
	}
	for {
		i := bytes.IndexByte(key, escape)
		if i < 0 {
			return append(append(dst, key...), escape, terminator)
		}
		dst = append(append(dst, key[:i]...), escape, escapedNul)
		key = key[i+1:]
	}
}

// Split takes a position of the keyspace apart. The key is appended to dst; the
// element is the rest of p, empty for the key's own row.
func (k *Keyspace) Split(dst []byte, p Position) (key, element []byte, err error) {
	body, err := k.body(p)
	if err != nil {
		return nil, nil, err
	}
	key = dst
	for {
		i := bytes.IndexByte(body, escape)
		if i < 0 || i+1 == len(body) {
			return nil, nil, fmt.Errorf("%w: the key of %x has no end", ErrPosition, []byte(p))
		}
		key = append(key, body[:i]...)
		mark := body[i+1]
		body = body[i+2:]
		switch mark {
		case terminator:
			return key, body, nil
		case escapedNul:
			key = append(key, escape)
		default:
			return nil, nil, fmt.Errorf("%w: %x has the escape 00 %02x", ErrPosition, []byte(p), mark)
		}
	}
}

// body strips the id and the slot.
func (k *Keyspace) body(p Position) ([]byte, error) {
	id, rest, ok := readID(p)
	if !ok || id != k.ID {
		return nil, fmt.Errorf("%w: %x is not in keyspace %d", ErrPosition, []byte(p), k.ID)
	}
	if k.Kind == Hash {
		if len(rest) < 2 {
			return nil, fmt.Errorf("%w: %x has no slot", ErrPosition, []byte(p))
		}
		rest = rest[2:]
	}
	return rest, nil
}

// IDOf returns the keyspace that a position is in.
func IDOf(p Position) (KeyspaceID, error) {
	id, _, ok := readID(p)
	if !ok {
		return 0, fmt.Errorf("%w: %x has no keyspace id", ErrPosition, []byte(p))
	}
	return id, nil
}
