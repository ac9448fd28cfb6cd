package cleave

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Keyspace is a named collection of keys. Its methods may be called by any
// goroutine. The bytes they are given are the caller's again when they return,
// and the bytes they return are the caller's.
type Keyspace struct {
	db       *DB
	keyspace *node.Keyspace
	// writesEntries lets the entries of an index be written.
	writesEntries bool
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
// are gone then, which the feed does not tell one by one.
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
	if err := k.keyspace.CheckAddr(); err != nil {
		return nil, toPublicError(err)
	}
	if err := command.CheckKey(key); err != nil {
		return nil, toPublicError(err)
	}
	return k.keyspace.AppendPosition(dst, key), nil
}

// checkWritable refuses a keyspace that has the entries of an index.
func (k *Keyspace) checkWritable() error {
	if of := k.keyspace.OwningIndex(); of != "" && !k.writesEntries {
		return optionErrorf("keyspace %s has the entries of %s: write the rows, and they follow", k.Name(), of)
	}
	return nil
}

// findGroupHost returns the part of the node that has a position.
func (k *Keyspace) findGroupHost(p partition.Position) *node.GroupHost {
	return k.db.node.GroupHostAt(p)
}

// routeToGroup calls f with the part that has a position, again if it turns out that
// another has it.
func (db *DB) routeToGroup(ctx context.Context, p partition.Position, f func(*node.GroupHost) error) error {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		err := f(db.node.GroupHostAt(p))
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err := db.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return err
		}
	}
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

// loadChunkedRow returns the row of a key whose value is in chunks, with all of it: a read past the
// queue is of one row, so this is one of a moment.
func (k *Keyspace) loadChunkedRow(ctx context.Context, key []byte) (row command.Row, ok bool, err error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return row, false, err
	}
	v, _, err := k.openSnapshot(ctx, p)
	if err != nil {
		return row, false, toPublicError(err)
	}
	defer v.Close()
	row, ok, err = readStringRow(v, effect.Rows.AppendKey(nil, p))
	return row, ok, toPublicError(withKeyName(keyRef{k, p}, err))
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
	row, ok, err = k.findGroupHost(p).Group.Read(ctx, p, nil)
	if errors.Is(err, ownership.ErrWrongGroup) {
		err = k.db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
			row, ok, err = part.Group.Read(ctx, p, nil)
			return err
		})
	}
	return row, ok, toPublicError(err)
}

// positionPool holds memory for positions that nobody keeps.
var positionPool = sync.Pool{New: func() any { return new([]byte) }}

func toExpiryTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// executeCommand executes a command on the group of its first key.
func (k *Keyspace) executeCommand(ctx context.Context, p partition.Position, id RequestID, c command.Command) (command.Reply, error) {
	if err := k.checkWritable(); err != nil {
		return command.Reply{}, err
	}
	if k.keyspace.Indexes() != nil {
		return k.executeIndexed(ctx, p, id, c)
	}
	r := group.Request{Command: c, Key: p, ID: group.RequestID(id), Gate: node.UnindexedGate{Keyspace: k.keyspace}}
	reply, err := k.findGroupHost(p).Group.Execute(ctx, r)
	if err == nil {
		err = reply.Err
	}
	if errors.Is(err, ownership.ErrWrongGroup) {
		err = k.db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
			if reply, err = part.Group.Execute(ctx, r); err == nil {
				err = reply.Err
			}
			return err
		})
	}
	if errors.Is(err, node.ErrIndexesChanged) { // it has got one meanwhile
		return k.executeIndexed(ctx, p, id, c)
	}
	return reply, toPublicError(withKeyName(keyRef{k, p}, err))
}

// cloneIfCancelable returns b itself if the command cannot outlive the call, else a copy:
// a caller that leaves early gets its bytes back at once.
func cloneIfCancelable(ctx context.Context, b []byte) []byte {
	if ctx.Done() == nil {
		return b
	}
	return append([]byte{}, b...)
}

// keyRef is where a key is.
type keyRef struct {
	k *Keyspace
	p partition.Position
}

func (a keyRef) findGroupHost() *node.GroupHost { return a.k.findGroupHost(a.p) }

// String names the key in an error.
func (a keyRef) String() string {
	key, _, err := a.k.keyspace.Split(nil, a.p)
	if err != nil {
		return fmt.Sprintf("position %x of keyspace %s", []byte(a.p), a.k.Name())
	}
	return formatKey(a.k, key)
}

// withKeyName adds to an error of a command which key it is about.
func withKeyName(at keyRef, err error) error {
	switch {
	case errors.Is(err, command.ErrConflict):
		return fmt.Errorf("%w: %v has changed: read it again", command.ErrConflict, at)
	case errors.Is(err, command.ErrWrongType), errors.Is(err, command.ErrNotInteger), errors.Is(err, command.ErrOverflow):
		return fmt.Errorf("%w: %v", err, at)
	}
	return err
}

// maxShownKeyBytes is how much of a key an error shows.
const maxShownKeyBytes = 40

// formatKey names a key in an error.
func formatKey(k *Keyspace, key []byte) string {
	if len(key) > maxShownKeyBytes {
		return fmt.Sprintf("key %q… of keyspace %s", key[:maxShownKeyBytes], k.Name())
	}
	return fmt.Sprintf("key %q of keyspace %s", key, k.Name())
}

// GetMany returns the values of keys in their order, nil for one that is absent, all
// as of one moment.
func (k *Keyspace) GetMany(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	if len(keys) == 0 {
		return values, nil
	}
	some, err := k.encodeRowKeys(keys)
	if err != nil {
		return nil, err
	}
	shard := k.db.node.Map().Find(some[0][1:]).Span
	if slices.ContainsFunc(some, func(key []byte) bool { return !shard.Contains(key[1:]) }) {
		k.db.node.Counters.MultiShardReads.Add(1)
	}
	for attempt := 0; ; attempt++ {
		version := k.db.node.Map().Version()
		var hosts []*node.StoreHost
		for _, key := range some {
			if h := k.findGroupHost(key[1:]).Host; !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		err := k.db.node.ReadSnapshot(ctx, hosts, func(v *node.Snapshot) error {
			for i, key := range some {
				value, err := readStringValue(v, key)
				if err != nil {
					return fmt.Errorf("%s: %w", formatKey(k, keys[i]), err)
				}
				values[i] = value
			}
			// Not before: rows of one that was dropped meanwhile go piece by piece.
			return cmp.Or(k.keyspace.CheckAddr(), ctx.Err())
		})
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return values, toPublicError(err)
		}
		if err := k.db.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return nil, toPublicError(err)
		}
	}
}

// encodeRowKeys returns the store keys of the rows of keys, in memory of their own. Behind
// the first byte of each is the position.
func (k *Keyspace) encodeRowKeys(keys [][]byte) ([][]byte, error) {
	var all []byte
	ends := make([]int, len(keys))
	for i, key := range keys {
		p, err := k.appendPosition(append(all, byte(effect.Rows)), key)
		if err != nil {
			return nil, err
		}
		all, ends[i] = p, len(p)
	}
	cut, from := make([][]byte, len(keys)), 0
	for i, end := range ends {
		cut[i], from = all[from:end], end
	}
	return cut, nil
}

// readStringValue returns the value of a string of bytes, nil if there is none.
func readStringValue(v *node.Snapshot, key []byte) ([]byte, error) {
	row, _, err := readStringRow(v, key)
	return row.Payload, err
}

// readStringRow returns the row of a key that holds a string of bytes, with all of its value, and
// whether there is one.
func readStringRow(v *node.Snapshot, key []byte) (row command.Row, ok bool, err error) {
	value, nowMS, ok, err := v.GetWithTime(key, nil)
	if err != nil || !ok {
		return row, false, err
	}
	if row, err = command.DecodeRow(value); err != nil || !row.IsAlive(nowMS) {
		return command.Row{}, false, err
	}
	if row.Payload, err = command.ReadStringValue(v, key[1:], &row); err != nil {
		return command.Row{}, false, err
	}
	return row, true, nil
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

// Unpin lets go of keys that are pinned, and leaves alone those that are not.
func (k *Keyspace) Unpin(ctx context.Context, keys ...[]byte) error {
	at, err := k.toPositions(ctx, keys)
	if err != nil {
		return err
	}
	k.db.node.Unpin(at...)
	return nil
}

// UnpinFields lets go of the hash at key and of some of its fields.
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
