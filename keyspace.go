package cleave

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/partition"
)

// Keyspace is a named collection of keys. Its methods may be called by any
// goroutine. The bytes they are given are the caller's again when they return,
// and the bytes they return are the caller's.
type Keyspace struct {
	db       *DB
	keyspace *node.Keyspace
}

// Name is the name of the keyspace.
func (k *Keyspace) Name() string { return k.keyspace.Name }

// DB is the store that the keyspace is of.
func (k *Keyspace) DB() *DB { return k.db }

// Options returns what the keyspace was created with.
func (k *Keyspace) Options() KeyspaceOptions {
	return KeyspaceOptions{Name: k.keyspace.Name, Kind: k.keyspace.Kind, Slots: k.keyspace.Slots, Layout: k.keyspace.Layout}
}

// Dropped returns a channel that is closed when the keyspace is dropped: all its keys
// are gone then, which the feed does not report one by one.
func (k *Keyspace) Dropped() <-chan struct{} { return k.keyspace.Dropped() }

// Item is a key with its value.
type Item struct {
	Key, Value []byte
	// Version grows with every write of the key and is never used twice, as long as the
	// keyspace is there: one that is created again under its name is another. 0 stands for
	// an absent key.
	Version uint64
	// Expires is when the key expires; zero means never.
	Expires time.Time
}

// appendPosition checks a key and appends its position to dst.
func (k *Keyspace) appendPosition(dst, key []byte) (partition.Position, error) {
	p, err := engine.AppendPosition(dst, k.keyspace, key)
	return p, toPublicError(err)
}

// Get returns the value of a key, or ErrNotFound.
func (k *Keyspace) Get(ctx context.Context, key []byte) ([]byte, error) {
	row, err := k.loadStringRow(ctx, key)
	if err != nil {
		return nil, err
	}
	return row.Payload, nil
}

// Item returns a key with its value, version and expiry, or ErrNotFound.
func (k *Keyspace) Item(ctx context.Context, key []byte) (Item, error) {
	row, err := k.loadStringRow(ctx, key)
	if err != nil {
		return Item{}, err
	}
	return Item{Key: bytes.Clone(key), Value: row.Payload, Version: row.Version, Expires: toExpiryTime(row.ExpiryMS)}, nil
}

// Exists reports whether there is a key, whatever it holds.
func (k *Keyspace) Exists(ctx context.Context, key []byte) (bool, error) {
	_, ok, err := k.loadRow(ctx, key)
	return ok, err
}

// loadStringRow returns the row of a key that holds a string of bytes.
func (k *Keyspace) loadStringRow(ctx context.Context, key []byte) (command.Row, error) {
	row, ok, err := k.loadRow(ctx, key)
	if err == nil && ok && row.Kind == command.Chunked {
		row, ok, err = k.loadChunkedRow(ctx, key)
	}
	switch {
	case err != nil:
		return command.Row{}, err
	case !ok:
		return command.Row{}, ErrNotFound
	case row.Type() != command.String:
		return command.Row{}, toPublicError(fmt.Errorf("%w: %s", command.ErrWrongType, formatKey(k, key)))
	}
	return row, nil
}

// loadChunkedRow returns the row of a key whose value is in chunks, with all of it.
func (k *Keyspace) loadChunkedRow(ctx context.Context, key []byte) (row command.Row, ok bool, err error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return row, false, err
	}
	row, ok, err = k.db.engine.ReadString(ctx, k.keyspace, p)
	return row, ok, toPublicError(err)
}

// loadRow returns the row of a key, if there is one.
func (k *Keyspace) loadRow(ctx context.Context, key []byte) (row command.Row, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return row, false, err
	}
	room := positionPool.Get().(*[]byte)
	defer positionPool.Put(room)
	p, err := k.appendPosition((*room)[:0], key)
	if err != nil {
		return row, false, err
	}
	*room = p
	row, ok, err = k.db.engine.Read(ctx, p)
	return row, ok, toPublicError(err)
}

// positionPool holds memory for positions that are not kept.
var positionPool = sync.Pool{New: func() any { return new([]byte) }}

func toExpiryTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// executeCommand executes a command on the group of its first key.
func (k *Keyspace) executeCommand(ctx context.Context, p partition.Position, id RequestID, c command.Command) (command.Reply, error) {
	reply, err := k.db.engine.Execute(ctx, k.keyspace, p, group.RequestID(id), c)
	return reply, toPublicError(err)
}

// cloneIfCancelable returns b itself if the command cannot outlive the call, else a copy:
// a caller that leaves early gets its bytes back at once.
func cloneIfCancelable(ctx context.Context, b []byte) []byte {
	if ctx.Done() == nil {
		return b
	}
	return append([]byte{}, b...)
}

// formatKey names a key in an error.
func formatKey(k *Keyspace, key []byte) string { return engine.FormatKey(k.keyspace, key) }

// GetMany returns the values of keys in their order, nil for one that is absent, all
// as of one moment.
func (k *Keyspace) GetMany(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return [][]byte{}, nil
	}
	rows, err := engine.EncodeRowKeys(k.keyspace, keys)
	if err != nil {
		return nil, toPublicError(err)
	}
	values, err := k.db.engine.ReadStrings(ctx, k.keyspace, rows)
	return values, toPublicError(err)
}

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
	at, err := k.toPositions(ctx, keys)
	if err != nil {
		return err
	}
	return k.pinPositions(ttl, at)
}

// PinFields pins the hash at key, as Pin does, and some of its fields, those that there
// are and those that there are not: reads of them do not wait for the disk.
func (k *Keyspace) PinFields(ctx context.Context, ttl time.Duration, key []byte, names ...[]byte) error {
	at, err := k.toFieldPositions(ctx, key, names)
	if err != nil {
		return err
	}
	return k.pinPositions(ttl, at)
}

func (k *Keyspace) pinPositions(ttl time.Duration, at []partition.Position) error {
	if ttl <= 0 {
		return optionErrorf("a pin for %v: use a positive time", ttl)
	}
	return toPublicError(k.db.node.Pin(k.keyspace, ttl, at...))
}

// Unpin unpins keys that are pinned, and leaves alone those that are not.
func (k *Keyspace) Unpin(ctx context.Context, keys ...[]byte) error {
	at, err := k.toPositions(ctx, keys)
	if err != nil {
		return err
	}
	k.db.node.Unpin(at...)
	return nil
}

// UnpinFields unpins the hash at key and some of its fields.
func (k *Keyspace) UnpinFields(ctx context.Context, key []byte, names ...[]byte) error {
	at, err := k.toFieldPositions(ctx, key, names)
	if err != nil {
		return err
	}
	k.db.node.Unpin(at...)
	return nil
}

func (k *Keyspace) toPositions(ctx context.Context, keys [][]byte) (at []partition.Position, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, key := range keys {
		p, err := k.appendPosition(nil, key)
		if err != nil {
			return nil, err
		}
		at = append(at, p)
	}
	return at, nil
}

// toFieldPositions returns that of the hash itself, and then those of the fields.
func (k *Keyspace) toFieldPositions(ctx context.Context, key []byte, names [][]byte) ([]partition.Position, error) {
	at, err := k.toPositions(ctx, [][]byte{key})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := command.CheckField(name); err != nil {
			return nil, toPublicError(err)
		}
		at = append(at, command.FieldPosition(at[0], name))
	}
	return at, nil
}
