package cleave

import (
	"context"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// Shard is a stretch of keys that one group has.
type Shard struct {
	partition.Shard
	// Store is the store that the group lives on.
	Store int
	// Keyspace is the name of the keyspace that the shard begins in; empty for
	// that of the catalog, and for positions that no keyspace has yet.
	Keyspace string
	// Rows and Bytes are about what it has, and takes along when it is moved.
	Rows, Bytes uint64
}

// Map returns the newest map of which group has which keys. It never changes; the
// next one has a higher version.
func (db *DB) Map() *partition.Map { return db.node.Map() }

// Shards returns all shards in order, with about what they hold. That of the
// catalog, which stays as it is, comes first.
func (db *DB) Shards(ctx context.Context) ([]Shard, error) {
	m := db.node.Map()
	stores := map[GroupID]int{}
	for _, g := range db.Groups() {
		stores[g.ID] = g.Store
	}
	shards := make([]Shard, 0, m.Len())
	for s := range m.Shards(partition.Whole) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		size, err := db.node.SizeOf(s)
		if err != nil {
			return nil, public(err)
		}
		shard := Shard{Shard: s, Store: stores[s.Group], Rows: size.Rows, Bytes: size.Bytes}
		if id, err := partition.IDOf(s.Span.Start); err == nil {
			if space := db.node.KeyspaceByID(id); space != nil {
				shard.Keyspace = space.Name
			}
		}
		shards = append(shards, shard)
	}
	return shards, nil
}

// GroupInfo is a group of shards, whose commands are executed one after another.
type GroupInfo struct {
	ID GroupID
	// Store is the store that it lives on, for ever.
	Store int
	// Draining groups are given no more shards.
	Draining bool
	// Shards is how many it has.
	Shards int
}

// Groups returns all groups in the order of their ids. The first has the catalog:
// it is never drained or removed.
func (db *DB) Groups() []GroupInfo {
	m := db.node.Map()
	counts := map[GroupID]int{}
	for s := range m.Shards(partition.Whole) {
		counts[s.Group]++
	}
	groups := make([]GroupInfo, 0, len(m.Groups()))
	for _, g := range m.Groups() {
		groups = append(groups, GroupInfo{ID: g.ID, Store: node.StoreOf(m, g.ID), Draining: g.Draining, Shards: counts[g.ID]})
	}
	return groups
}
