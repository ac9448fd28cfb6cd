package partition

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key"
)

// Kind is how a keyspace spreads its keys.
type Kind uint8

const (
	// Hash spreads keys over slots by the CRC16 of their hash tag, as Redis
	// Cluster does. Neighbours in the order of keys live anywhere.
	Hash Kind = iota
	// Range keeps keys in their order.
	Range
)

// String is the word for k in commands and reports.
func (k Kind) String() string {
	switch k {
	case Hash:
		return "hash"
	case Range:
		return "range"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Keyspace is a named collection of keys with one partitioning.
type Keyspace struct {
	ID   KeyspaceID
	Name string
	Kind Kind
	// Slots is how many slots a hash keyspace has, a power of two up to
	// [hash.Slots]. 0 means that many, which is what Redis clients expect.
	Slots int
	// Layout is the declared shape of the keys, see [key.ParseLayout]; empty
	// for keys that have none.
	Layout string
}

// ErrKeyspace means that the description of a keyspace is not valid: the text
// says what to change.
var ErrKeyspace = errors.New("partition: bad keyspace")

// MaxNameBytes bounds the name of a keyspace: it is typed, printed and stored.
const MaxNameBytes = 128

// Validate reports everything that is wrong with the keyspace.
func (k *Keyspace) Validate() error {
	var errs []error
	if k.Name == "" || len(k.Name) > MaxNameBytes {
		errs = append(errs, fmt.Errorf("%w: name of %d bytes: use 1 to %d", ErrKeyspace, len(k.Name), MaxNameBytes))
	}
	for _, r := range k.Name {
		if r < '!' || r > '~' {
			errs = append(errs, fmt.Errorf("%w: name %q: use printable ASCII without spaces", ErrKeyspace, k.Name))
			break
		}
	}
	if k.Kind > Range {
		errs = append(errs, fmt.Errorf("%w: kind %d: use hash or range", ErrKeyspace, k.Kind))
	}
	if k.Slots < 0 || k.Slots > hash.Slots || k.Slots&(k.Slots-1) != 0 {
		errs = append(errs, fmt.Errorf("%w: %d slots: use a power of two up to %d", ErrKeyspace, k.Slots, hash.Slots))
	}
	if k.Kind == Range && k.Slots != 0 {
		errs = append(errs, fmt.Errorf("%w: a range keyspace has no slots: leave Slots out", ErrKeyspace))
	}
	if k.Layout != "" {
		if _, err := key.ParseLayout(k.Layout); err != nil {
			errs = append(errs, fmt.Errorf("%w: layout %q: %w", ErrKeyspace, k.Layout, err))
		}
	}
	return errors.Join(errs...)
}

// SlotOf returns the slot of key in a hash keyspace.
func (k *Keyspace) SlotOf(key []byte) uint16 {
	slot := uint16(hash.SlotOf(key))
	if k.Slots != 0 {
		slot &= uint16(k.Slots - 1) // a power of two divides hash.Slots
	}
	return slot
}

// SlotCount returns how many slots a hash keyspace has.
func (k *Keyspace) SlotCount() int {
	if k.Slots == 0 {
		return hash.Slots
	}
	return k.Slots
}

// SlotAt returns the slot of a position of a hash keyspace, 0 if it has none.
func (k *Keyspace) SlotAt(p Position) int {
	_, rest, ok := readID(p)
	if !ok || len(rest) < 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(rest))
}
