package cleave

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/node"
)

// Cap limits how many writes a second are admitted to a shard, or to the keys of a keyspace that begin with a prefix.
// Writers beyond it wait for their turn until their context ends, and get a [ThrottledError] then; reads go on. It is for
// emergencies: a client that runs away, or a part of the data that must not change. A write of a batch or transaction takes a
// turn each; those of index entries count too, for the keyspace of the index.
type Cap struct {
	// ID is the number of it, which DB.SetCap gives.
	ID uint64
	// Shard is whose keys are capped, as they are when the cap is set: it stays on them when the shard is split, merged and
	// moved. Else Keyspace and Prefix say which keys, of all slots. An empty prefix is all keys.
	Shard    ShardID
	Keyspace string
	Prefix   []byte
	// WritesPerSecond is how many are admitted. 0 is none: the keys can only be read.
	WritesPerSecond float64
	// Until is when it ends by itself. Zero is never.
	Until time.Time
	// Refused is how many writers were refused since the store was opened. DB.SetCap ignores it.
	Refused uint64
}

func toCap(c node.WriteCap) Cap {
	return Cap{ID: c.ID, Shard: c.Shard, Keyspace: c.Keyspace, Prefix: c.Prefix, WritesPerSecond: c.PerSecond, Until: c.Until, Refused: c.Refused}
}

// SetCap sets a cap, in the place of one of the same shard or prefix, and returns it with its number. It is kept with
// the data, until it ends or is removed.
func (db *DB) SetCap(ctx context.Context, c Cap) (Cap, error) {
	set, err := db.node.SetCap(ctx, node.WriteCap{Shard: c.Shard, Keyspace: c.Keyspace, Prefix: c.Prefix, PerSecond: c.WritesPerSecond, Until: c.Until})
	return toCap(set), toPublicError(err)
}

// RemoveCap removes a cap: those that wait go on at once. If there is none of the number the error is [ErrNoCap].
func (db *DB) RemoveCap(ctx context.Context, id uint64) error {
	return toPublicError(db.node.RemoveCap(ctx, id))
}

// Caps returns the caps that hold, by their numbers.
func (db *DB) Caps() []Cap {
	all := []Cap{}
	for _, c := range db.node.Caps() {
		all = append(all, toCap(c))
	}
	return all
}
