package cleave

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Pin keeps the rows of keys in memory for a time, so that reads of them never wait for
// the disk, however much else is read. What is pinned is the key: its newest value, or
// that there is none, whatever is written meanwhile. Pinned again, it is pinned for the
// new time. A key that moves to another store is pinned there a moment later, if there is
// room, else no longer. Pins are gone when the store is closed.
//
// Pinned rows may take half of the cache (Options.CacheBytes). It has parts, of about a MiB
// each, over which keys are spread by a hash: of each part half may be pinned, and one row
// may take a quarter of it. Beyond that the error is ErrPinLimit, and none of the keys is pinned
// that was not before. A value that outgrows the room is pinned no longer.
//
// Of a hash this pins what says that there is one; for its fields use PinFields.
func (k *Keyspace) Pin(ctx context.Context, ttl time.Duration, keys ...[]byte) error {
	at, err := k.positions(ctx, keys)
	if err != nil {
		return err
	}
	return k.pin(ttl, at)
}

// PinFields pins the hash at key, as Pin does, and some of its fields, those that there
// are and those that there are not: reads of them do not wait for the disk.
func (k *Keyspace) PinFields(ctx context.Context, ttl time.Duration, key []byte, names ...[]byte) error {
	at, err := k.fieldPositions(ctx, key, names)
	if err != nil {
		return err
	}
	return k.pin(ttl, at)
}

func (k *Keyspace) pin(ttl time.Duration, at []partition.Position) error {
	if ttl <= 0 {
		return optionError("a pin for %v: use a positive time", ttl)
	}
	return public(k.db.node.Pin(k.space, ttl, at...))
}

// Unpin lets go of keys that are pinned, and leaves alone those that are not.
func (k *Keyspace) Unpin(ctx context.Context, keys ...[]byte) error {
	at, err := k.positions(ctx, keys)
	if err != nil {
		return err
	}
	k.db.node.Unpin(at...)
	return nil
}

// UnpinFields lets go of the hash at key and of some of its fields.
func (k *Keyspace) UnpinFields(ctx context.Context, key []byte, names ...[]byte) error {
	at, err := k.fieldPositions(ctx, key, names)
	if err != nil {
		return err
	}
	k.db.node.Unpin(at...)
	return nil
}

func (k *Keyspace) positions(ctx context.Context, keys [][]byte) (at []partition.Position, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, key := range keys {
		p, err := k.position(nil, key)
		if err != nil {
			return nil, err
		}
		at = append(at, p)
	}
	return at, nil
}

// fieldPositions returns that of the hash itself, and then those of the fields.
func (k *Keyspace) fieldPositions(ctx context.Context, key []byte, names [][]byte) ([]partition.Position, error) {
	at, err := k.positions(ctx, [][]byte{key})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := command.CheckField(name); err != nil {
			return nil, public(err)
		}
		at = append(at, command.FieldPosition(at[0], name))
	}
	return at, nil
}
