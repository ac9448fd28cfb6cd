package partition

import (
	"fmt"
	"slices"
)

// Version numbers the maps: a higher one is newer. 0 is no map.
type Version uint64

// ShardID names a shard for ever: ids are never used again. 0 is no shard.
type ShardID uint64

// String is the id in commands and reports.
func (id ShardID) String() string { return fmt.Sprintf("s%d", uint64(id)) }

// GroupID names a group for ever: ids are never used again. 0 is no group.
type GroupID uint64

// String is the id in commands and reports.
func (id GroupID) String() string { return fmt.Sprintf("g%d", uint64(id)) }

// Shard is a range of the space with one owner.
type Shard struct {
	ID    ShardID
	Span  Span // shares its bytes with the map: only read them
	Group GroupID
	// Changed is the map in which the shard last got another span or owner.
	// What was learned of an older one may not hold any more.
	Changed Version
	// Pin says which groups may own the shard. An owner from before the pin
	// may be another: see [Map.Misplaced].
	Pin Constraint
}

// Group is an owner of shards.
type Group struct {
	ID     GroupID
	Labels Labels
	// Draining groups are given no more shards.
	Draining bool
}

// Map says who owns each position, at one version. It never changes: an edit
// makes the next one, so a reader needs no lock and sees all of a change or
// nothing of it.
//
// The shards tile the space: together they have every position, and each once.
// Maps come from [First], [Map.Apply] and [Decode]; the zero value is none.
type Map struct {
	version Version
	// nextShard and nextGroup are above all ids that were ever used.
	nextShard ShardID
	nextGroup GroupID
	tiling    *tiling // the spans of shards
	shards    []shard // in order of their spans
	stretches *stretches
	groups    []Group // by id
	// pins are the constraints that shards have, in order of first use, behind
	// the zero one. Splits and merges do not change that order.
	pins []Constraint
}

// shard is a Shard without its span, and without pointers.
type shard struct {
	Owner
	pin uint32 // in Map.pins
}

// Version returns the number of the map.
func (m *Map) Version() Version { return m.version }

// Len returns how many shards there are.
func (m *Map) Len() int { return len(m.shards) }

// NextShard returns the id that the next shard will get, for those who write
// down what a split will make before it is made.
func (m *Map) NextShard() ShardID { return m.nextShard }

// NextGroup returns the smallest id that a new group may have.
func (m *Map) NextGroup() GroupID { return m.nextGroup }

// Find returns the shard that holds a position. Every position has one. A
// request that only wants to know where to go asks [Map.GroupOf].
func (m *Map) Find(p Position) Shard { return m.at(m.tiling.find(p)) }

// at returns the shard of an index.
func (m *Map) at(i int) Shard {
	s := &m.shards[i]
	return Shard{ID: s.Shard, Span: m.tiling.span(i), Group: s.Group, Changed: s.Changed, Pin: m.pins[s.pin]}
}

// Shard returns the shard of an id. It looks at every shard: it is for
// operators and edits, not for requests.
func (m *Map) Shard(id ShardID) (Shard, bool) {
	i := m.indexOf(id)
	if i < 0 {
		return Shard{}, false
	}
	return m.at(i), true
}

func (m *Map) indexOf(id ShardID) int {
	return slices.IndexFunc(m.shards, func(s shard) bool { return s.Shard == id })
}

// Group returns the group of an id.
func (m *Map) Group(id GroupID) (Group, bool) {
	i, ok := m.groupIndex(id)
	if !ok {
		return Group{}, false
	}
	return m.groups[i], true
}

func (m *Map) groupIndex(id GroupID) (int, bool) {
	return slices.BinarySearchFunc(m.groups, id, func(g Group, id GroupID) int {
		switch {
		case g.ID < id:
			return -1
		case g.ID > id:
			return 1
		}
		return 0
	})
}

// Groups returns all groups in order of their ids.
func (m *Map) Groups() []Group { return slices.Clone(m.groups) }
