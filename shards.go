package cleave

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// Shard is a stretch of keys that one group has.
type Shard struct {
	ID ShardID
	// Span is its positions. It shares its bytes with the map: only read them.
	Span partition.Span
	// Group is the group that has it.
	Group GroupID
	// Changed is the version of the map in which the shard last got another span or
	// group. What was learned of an older one may not hold any more.
	Changed partition.Version
	// Pin specifies which groups may have the shard. One that had it before the pin may be
	// another: see [partition.Map.Misplaced].
	Pin partition.Constraint
	// Store is the store that the group lives on.
	Store int
	// Keyspace is the name of the keyspace that the shard begins in; empty for
	// that of the catalog, and for positions that no keyspace has.
	Keyspace string
	// FirstSlot and LastSlot are the slots of a hash keyspace that it has, both
	// included; two shards share one that was cut in the middle. Elsewhere they are -1.
	FirstSlot, LastSlot int
	// StartKey and EndKey bound the keys of a range keyspace that it has, EndKey not
	// included; nil for no bound, and elsewhere. Where a shard was cut behind a large
	// collection, both sides name the first key that can follow it: its own with a
	// zero byte behind it.
	StartKey, EndKey []byte
	// Rows and Bytes are about what it has, and takes along when it is moved. They are
	// estimates: what was overwritten or deleted counts until the store has compacted,
	// so that they are too high for a while. While a store has failed, or cannot be read,
	// they are what was found when its shards were last asked for, by DB.Shards or a job;
	// 0 if that was not since Open.
	Rows, Bytes uint64
}

// String describes a shard: its rows and its owner.
func (s Shard) String() string {
	keys := "no keyspace"
	switch {
	case s.FirstSlot >= 0:
		keys = fmt.Sprintf("slots %d to %d of %s", s.FirstSlot, s.LastSlot, s.Keyspace)
	case s.Keyspace != "":
		from, to := "the first", "the last"
		if s.StartKey != nil {
			from = fmt.Sprintf("%q", s.StartKey)
		}
		if s.EndKey != nil {
			to = fmt.Sprintf("before %q", s.EndKey)
		}
		keys = fmt.Sprintf("keys from %s to %s of %s", from, to, s.Keyspace)
	}
	return fmt.Sprintf("%v of %v on store %d: %s", s.ID, s.Group, s.Store, keys)
}

// setBounds sets which slots or keys of a keyspace the shard has.
func (s *Shard) setBounds(k *partition.Keyspace) {
	s.Keyspace = k.Name
	whole := k.Span()
	inside := len(s.Span.End) > 0 && whole.Contains(s.Span.End)
	if k.Kind == Hash {
		s.FirstSlot, s.LastSlot = k.SlotAt(s.Span.Start), k.SlotCount()-1
		if inside {
			s.LastSlot = k.SlotAt(s.Span.End)
			if bytes.Equal(s.Span.End, k.SlotSpan(uint16(s.LastSlot)).Start) {
				s.LastSlot--
			}
		}
		return
	}
	s.StartKey = firstKeyAt(k, s.Span.Start)
	if inside {
		s.EndKey = firstKeyAt(k, s.Span.End)
	}
}

// firstKeyAt returns the first key of a range keyspace that is at a boundary or behind it.
// Shards begin with keys, behind collections, or where keyspaces do: then it is nil.
func firstKeyAt(k *partition.Keyspace, at partition.Position) []byte {
	if len(at) == 0 {
		return nil
	}
	if key, _, err := k.Split([]byte{}, at); err == nil {
		return key
	}
	row := bytes.Clone(at)
	row[len(row)-1]-- // a collection ends with the bytes of its row, the last one more
	if key, _, err := k.Split(nil, row); err == nil {
		return append(key, 0)
	}
	return nil
}

// Location is where a key is.
type Location struct {
	Shard ShardID
	Group GroupID
	// Store is the store that the group lives on.
	Store int
	// Slot is that of the key, -1 in a keyspace of kind Range.
	Slot int
}

// Locate returns where a key is, or would be if it existed. It only reads the
// map, and its answer is as old: a job may move the shard at any time. What distant keys
// cost a transaction is described at [DB.Update].
func (k *Keyspace) Locate(key []byte) Location {
	m := k.db.node.Map()
	s := m.Find(k.keyspace.AppendPosition(nil, key))
	at := Location{Shard: s.ID, Group: s.Group, Store: node.StoreOf(m, s.Group), Slot: -1}
	if k.keyspace.Kind == Hash {
		at.Slot = int(k.keyspace.SlotOf(key))
	}
	return at
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
	sizes, err := db.node.ShardSizes(ctx, m, 0)
	if err != nil {
		return nil, toPublicError(err)
	}
	for s := range m.Shards(partition.Whole) {
		size := sizes(s.ID)
		shard := Shard{
			ID: s.ID, Span: s.Span, Group: s.Group, Changed: s.Changed, Pin: s.Pin,
			Store: stores[s.Group], FirstSlot: -1, LastSlot: -1, Rows: size.Rows, Bytes: size.Bytes,
		}
		if id, err := partition.IDOf(s.Span.Start); err == nil {
			if space := db.node.KeyspaceByID(id); space != nil {
				shard.setBounds(&space.Keyspace)
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
