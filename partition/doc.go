// Package partition answers two questions: where in the one ordered space does
// this key live, and which group owns that place?
//
// Every key of every keyspace has one [Position], and positions compare as
// bytes. So a hash slot, a range of keys, a keyspace and a tenant are all the
// same thing: a [Span] of positions. Encoding is pure and stable: positions are
// written to disk and mean the same in every process and version.
//
// A [Map] cuts the space into shards and gives each to a group. It never
// changes: [Map.Apply] makes the next version from edits, which are values, all
// of them or none. Every map tiles the space, with no gap and no overlap;
// versions only grow, ids are never used again, and no boundary separates a key
// from the elements of its collection. A process keeps the newest map in a
// [Published], and asks it without a lock and without allocating:
//
//	m := published.Load()
//	owner, whole := m.SlotOwner(space.ID, space.SlotOf(key))
//	if !whole {
//		owner = m.Owner(space.AppendPosition(buf, key))
//	}
//
// Where there is no order of keys to keep, and nothing but a number of shards, [Buckets] are
// simpler: many logical buckets over few shards, one of which moves at a time.
//
// The choice: an edit copies the map, so that lookups are a search in arrays
// that are never written to. At ten thousand shards a lookup takes tens of nanoseconds
// and an edit a fraction of a millisecond.
//
// The limit: a map is a hint. It shows the owner of a place at its version; whether
// a group serves it now is decided by the group's own list. And only one place
// may allocate versions: the package cannot see that two did.
package partition
