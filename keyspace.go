package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Keyspace is a named collection of keys. Its methods may be called by any
// goroutine. The bytes they are given are the caller's again when they return,
// and the bytes they return are the caller's.
type Keyspace struct {
	db    *DB
	space *node.Space
	// inner lets the entries of an index be written.
	inner bool
}

// Name is the name of the keyspace.
func (k *Keyspace) Name() string { return k.space.Name }

// DB is the store that the keyspace is of.
func (k *Keyspace) DB() *DB { return k.db }

// Options returns what the keyspace was created with.
func (k *Keyspace) Options() KeyspaceOptions {
	return KeyspaceOptions{Name: k.space.Name, Kind: k.space.Kind, Slots: k.space.Slots, Layout: k.space.Layout}
}

// Dropped returns a channel that is closed when the keyspace is dropped: all its keys
// are gone then, which the feed does not tell one by one.
func (k *Keyspace) Dropped() <-chan struct{} { return k.space.Dropped() }

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

// position checks a key and appends its position to dst.
func (k *Keyspace) position(dst, key []byte) (partition.Position, error) {
	if err := k.space.Check(); err != nil {
		return nil, public(err)
	}
	if err := command.CheckKey(key); err != nil {
		return nil, public(err)
	}
	return k.space.AppendPosition(dst, key), nil
}

// mayWrite refuses a keyspace that has the entries of an index.
func (k *Keyspace) mayWrite() error {
	if of := k.space.OfIndex(); of != "" && !k.inner {
		return optionError("keyspace %s has the entries of %s: write the rows, and they follow", k.Name(), of)
	}
	return nil
}

// part returns the part of the node that has a position.
func (k *Keyspace) part(p partition.Position) *node.Part { return k.db.node.PartOf(p) }

// routed calls f with the part that has a position, again if it turns out that
// another has it.
func (db *DB) routed(ctx context.Context, p partition.Position, f func(*node.Part) error) error {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		err := f(db.node.PartOf(p))
		if !errors.Is(err, own.ErrWrongGroup) {
			return err
		}
		if err := db.node.Reroute(ctx, version, attempt); err != nil {
			return err
		}
	}
}

// Get returns the value of a key, or ErrNotFound.
func (k *Keyspace) Get(ctx context.Context, key []byte) ([]byte, error) {
	row, err := k.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return row.Payload, nil
}

// Item returns a key with its value, version and expiry, or ErrNotFound.
func (k *Keyspace) Item(ctx context.Context, key []byte) (Item, error) {
	row, err := k.read(ctx, key)
	if err != nil {
		return Item{}, err
	}
	return Item{Key: bytes.Clone(key), Value: row.Payload, Version: row.Version, Expires: expiryTime(row.ExpiryMS)}, nil
}

// Exists tells whether there is a key, whatever it holds.
func (k *Keyspace) Exists(ctx context.Context, key []byte) (bool, error) {
	_, ok, err := k.row(ctx, key)
	return ok, err
}

// read returns the row of a key that holds a string of bytes.
func (k *Keyspace) read(ctx context.Context, key []byte) (command.Row, error) {
	row, ok, err := k.row(ctx, key)
	switch {
	case err != nil:
		return command.Row{}, err
	case !ok:
		return command.Row{}, ErrNotFound
	case row.Kind != command.String:
		return command.Row{}, public(fmt.Errorf("%w: %s", command.ErrWrongType, keyName(k, key)))
	}
	return row, nil
}

// row returns the row of a key, if there is one.
func (k *Keyspace) row(ctx context.Context, key []byte) (row command.Row, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return row, false, err
	}
	room := positionRoom.Get().(*[]byte)
	defer positionRoom.Put(room)
	p, err := k.position((*room)[:0], key)
	if err != nil {
		return row, false, err
	}
	*room = p
	row, ok, err = k.part(p).Group.Read(ctx, p, nil)
	if errors.Is(err, own.ErrWrongGroup) {
		err = k.db.routed(ctx, p, func(part *node.Part) (err error) {
			row, ok, err = part.Group.Read(ctx, p, nil)
			return err
		})
	}
	return row, ok, public(err)
}

// positionRoom holds memory for positions that nobody keeps.
var positionRoom = sync.Pool{New: func() any { return new([]byte) }}

func expiryTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// do executes a command on the group of its first key.
func (k *Keyspace) do(ctx context.Context, p partition.Position, id RequestID, c command.Command) (command.Reply, error) {
	if err := k.mayWrite(); err != nil {
		return command.Reply{}, err
	}
	if k.space.Indexes() != nil {
		return k.doIndexed(ctx, p, id, c)
	}
	r := group.Request{Command: c, Key: p, ID: group.RequestID(id), Gate: node.Plain{Space: k.space}}
	reply, err := k.part(p).Group.Do(ctx, r)
	if err == nil {
		err = reply.Err
	}
	if errors.Is(err, own.ErrWrongGroup) {
		err = k.db.routed(ctx, p, func(part *node.Part) (err error) {
			if reply, err = part.Group.Do(ctx, r); err == nil {
				err = reply.Err
			}
			return err
		})
	}
	if errors.Is(err, node.ErrIndexes) { // it has got one meanwhile
		return k.doIndexed(ctx, p, id, c)
	}
	return reply, public(named(place{k, p}, err))
}

// owned returns b itself if the command cannot outlive the call, else a copy:
// a caller that leaves early gets its bytes back at once.
func owned(ctx context.Context, b []byte) []byte {
	if ctx.Done() == nil {
		return b
	}
	return append([]byte{}, b...)
}
