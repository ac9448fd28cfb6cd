package cleave

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/rows"
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

// CacheMetrics are figures of the row cache for one keyspace, over all stores. A row is
// that of a key or of a field of a hash, or says that there is none. It is cached when it
// is written, and when it is read if there is room, or if it was asked for before, not long
// ago: reads that come once do not drive out rows that are read again and again. A cached
// row goes when others need the room, or when its key is written, deleted or has expired:
// it is never older than what the store has, so that it needs no time to live of its own.
type CacheMetrics struct {
	// Hits and Misses count looks at rows since Open, those of writes that look at what
	// they change included, and two for a read of a key that expires.
	Hits, Misses uint64
	// Refused counts rows that were read and not cached, for want of room.
	Refused uint64
	// Evictions counts rows that made room for others.
	Evictions uint64
	// Rows are cached now, and Bytes is what they take.
	Rows, Bytes int64
	// Pinned are those of them that are pinned, PinnedBytes what they count against the
	// half that may be, and Outgrown how many have become too large for that.
	Pinned, PinnedBytes int64
	Outgrown            uint64
}

// HitRate is the share of hits, 0 if there was no look yet.
func (m CacheMetrics) HitRate() float64 {
	if m.Hits+m.Misses == 0 {
		return 0
	}
	return float64(m.Hits) / float64(m.Hits+m.Misses)
}

// CacheMetrics returns the figures of now. Of more than a thousand keyspaces, those that
// came last are counted in Metrics alone.
func (k *Keyspace) CacheMetrics() (sum CacheMetrics) {
	for _, h := range k.db.node.Hosts() {
		sum.add(h.Store.CacheOf(k.space.ID))
	}
	return sum
}

func (m *CacheMetrics) add(c rows.Class) {
	m.Hits, m.Misses, m.Refused, m.Evictions = m.Hits+c.Hits, m.Misses+c.Misses, m.Refused+c.Refused, m.Evictions+c.Evictions
	m.Rows, m.Bytes = m.Rows+int64(c.Rows), m.Bytes+c.RowBytes
	m.Pinned, m.PinnedBytes, m.Outgrown = m.Pinned+int64(c.Held), m.PinnedBytes+c.HeldBytes, m.Outgrown+c.Outgrown
}
