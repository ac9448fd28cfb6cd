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

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
)

// Version numbers the maps: a higher one is newer. 0 is no map.
type Version uint64

// ShardID names a shard for ever: ids are never used again. 0 is no shard.
type ShardID uint64

// String names it in reports and errors.
func (id ShardID) String() string { return fmt.Sprintf("shard %d", uint64(id)) }

// GroupID names a group for ever: ids are never used again. 0 is no group.
type GroupID uint64

// String names it in reports and errors.
func (id GroupID) String() string { return fmt.Sprintf("group %d", uint64(id)) }

// Shard is a range of the space with one owner.
type Shard struct {
	ID    ShardID
	Span  Span // shares its bytes with the map: only read them
	Group GroupID
	// Changed is the map in which the shard last got another span or owner.
	// What was learned of an older one may not hold any more.
	Changed Version
	// Pin specifies which groups may own the shard. An owner from before the pin
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

// Map records the owner of each position, at one version. It never changes: an edit
// makes the next one, so a reader needs no lock and sees all of a change or
// nothing of it.
//
// The shards tile the space: together they have every position, and each once.
// Maps come from [NewMap], [Map.Apply] and [Decode]; the zero value is none.
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

// NextShard returns the id that the next shard will get, for callers that write
// down what a split will make before it is made.
func (m *Map) NextShard() ShardID { return m.nextShard }

// NextGroup returns the smallest id that a new group may have.
func (m *Map) NextGroup() GroupID { return m.nextGroup }

// Find returns the shard that holds a position. Every position has one. A
// request that only wants to know where to go asks [Map.GroupOf].
func (m *Map) Find(p Position) Shard { return m.shardAt(m.tiling.find(p)) }

// shardAt returns the shard of an index.
func (m *Map) shardAt(i int) Shard {
	s := &m.shards[i]
	return Shard{ID: s.Shard, Span: m.tiling.spanOf(i), Group: s.Group, Changed: s.Changed, Pin: m.pins[s.pin]}
}

// Shard returns the shard of an id. It looks at every shard: it is for
// operators and edits, not for requests.
func (m *Map) Shard(id ShardID) (Shard, bool) {
	i := m.indexOf(id)
	if i < 0 {
		return Shard{}, false
	}
	return m.shardAt(i), true
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

// NewMap returns map version 1. Groups with id 0 are given the next one. The
// space is one shard, or split at boundaries of a keyspace as by [Split], which
// [Keyspace.EvenSlots] gives; neighbours go to the same group, and each group
// gets as many shards, give or take one.
func NewMap(groups []Group, in *Keyspace, at ...Position) (*Map, error) {
	d := draft{Map: Map{
		version: 1, nextShard: 2, nextGroup: 1,
		tiling: newTiling(), shards: []shard{{Owner: Owner{Shard: 1, Changed: 1}}}, pins: []Constraint{{}},
	}}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%w: a map needs at least one", ErrUnknownGroup)
	}
	for _, g := range groups {
		if g.Draining {
			return nil, fmt.Errorf("first map: %w: %v", ErrDraining, g.ID)
		}
		if err := (AddGroup{g.ID, g.Labels}).apply(&d); err != nil {
			return nil, fmt.Errorf("first map: %w", err)
		}
	}
	if len(at) > 0 {
		if err := (Split{Shard: 1, In: in, At: at}).apply(&d); err != nil {
			return nil, fmt.Errorf("first map: %w", err)
		}
	}
	for i := range d.shards {
		d.shards[i].Group = d.groups[i*len(d.groups)/len(d.shards)].ID
	}
	return d.finishMap()
}

// Shards returns the shards that intersect a span, in order; those of [Whole]
// are all. Their own spans may reach beyond it.
func (m *Map) Shards(span Span) iter.Seq[Shard] {
	// Small enough to be inlined: then a loop over it allocates nothing.
	return func(yield func(Shard) bool) { m.visitForward(span, yield) }
}

// Backward returns the shards that intersect a span, the last one first.
func (m *Map) Backward(span Span) iter.Seq[Shard] {
	return func(yield func(Shard) bool) { m.visitBackward(span, yield) }
}

func (m *Map) visitForward(span Span, yield func(Shard) bool) {
	first, end := m.tiling.shardsIn(span)
	for i := first; i < end && yield(m.shardAt(i)); i++ {
	}
}

func (m *Map) visitBackward(span Span, yield func(Shard) bool) {
	first, end := m.tiling.shardsIn(span)
	for i := end - 1; i >= first && yield(m.shardAt(i)); i-- {
	}
}

// shardsIn returns the indices of the shards that intersect a span.
func (t *tiling) shardsIn(span Span) (first, end int) {
	if span.Empty() {
		return 0, 0
	}
	first, end = t.find(span.Start), t.shardCount()
	if len(span.End) > 0 {
		end = t.find(span.End)
		if !bytes.Equal(t.startOf(end), span.End) {
			end++ // the end is inside of this one
		}
	}
	return first, end
}

// Owned returns the shards of a group, in order.
func (m *Map) Owned(g GroupID) iter.Seq[Shard] {
	return m.filterShards(func(s *shard) bool { return s.Group == g })
}

// Misplaced returns the shards that should move, in order: their group is
// draining, or their pin does not allow it.
func (m *Map) Misplaced() iter.Seq[Shard] {
	return m.filterShards(func(s *shard) bool {
		g, _ := m.Group(s.Group)
		return g.Draining || !m.pins[s.pin].Allows(g.Labels)
	})
}

func (m *Map) filterShards(is func(*shard) bool) iter.Seq[Shard] {
	return func(yield func(Shard) bool) {
		for i := range m.shards {
			if is(&m.shards[i]) && !yield(m.shardAt(i)) {
				return
			}
		}
	}
}

// Stretch is positions that follow one another and have one owner, whatever shards
// they are in.
type Stretch struct {
	Span  Span // shares its bytes with the map: only read them
	Group GroupID
}

// stretches are a map without the borders inside of groups. A search for a
// group finds it among them: mostly they are far fewer than shards, since what is cut
// stays where it is until it moves, and so they stay in a core's own memory.
type stretches struct {
	tiling *tiling
	groups []GroupID
}

// newStretches joins the shards of a tiling.
func newStretches(t *tiling, shards []shard) *stretches {
	s := new(stretches)
	for i := range shards {
		if i == 0 || shards[i].Group != shards[i-1].Group {
			s.groups = append(s.groups, shards[i].Group)
		}
	}
	if len(s.groups) == len(shards) {
		s.tiling = t // nothing is joined
		return s
	}
	s.tiling = &tiling{ends: make([]uint32, 1, len(s.groups)+1)}
	for i := range shards {
		if i == 0 || shards[i].Group != shards[i-1].Group {
			s.tiling.addStart(t.startOf(i))
		}
	}
	s.tiling.makeIndex()
	return s
}

// GroupOf returns the group that owns a position. It is what a request asks that
// wants to know where to go.
func (m *Map) GroupOf(p Position) GroupID { return m.stretches.groups[m.stretches.tiling.find(p)] }

// Stretches returns what groups own of a span, in order: two that follow one another
// are of two groups. The first and the last may reach out of the span.
func (m *Map) Stretches(span Span) iter.Seq[Stretch] {
	return func(yield func(Stretch) bool) {
		s := m.stretches
		first, end := s.tiling.shardsIn(span)
		for i := first; i < end && yield(Stretch{s.tiling.spanOf(i), s.groups[i]}); i++ {
		}
	}
}

// Published holds the newest map that a process has received. Reading it is one
// atomic load. The zero value has no map.
type Published struct{ newest atomic.Pointer[Map] }

// Load returns the newest map, nil before the first was offered.
func (p *Published) Load() *Map { return p.newest.Load() }

// Offer publishes a map if its version is above that of the newest one, and
// reports whether it did. Maps may arrive in any order and from anywhere.
func (p *Published) Offer(m *Map) bool {
	for {
		newest := p.newest.Load()
		if m == nil || newest != nil && m.version <= newest.version {
			return false
		}
		if p.newest.CompareAndSwap(newest, m) {
			return true
		}
	}
}

// Why an edit is refused. The text names the ids and says what to do.
var (
	// ErrUnknownShard means that the map has no such shard: it never did, or it
	// was merged into its left neighbour. Look up the position again.
	ErrUnknownShard = errors.New("partition: no such shard")
	// ErrUnknownGroup means that the map has no such group.
	ErrUnknownGroup = errors.New("partition: no such group")
	// ErrStale means that a shard is not what the edit was planned for: look at
	// it again and plan anew. The error is a [*StaleError].
	ErrStale = errors.New("partition: shard has changed")
	// ErrBoundary means that a shard cannot be split there, or that a span does
	// not end where shards do.
	ErrBoundary = errors.New("partition: bad boundary")
	// ErrCut means that a boundary lies among the elements of one key: use
	// [Keyspace.WholeKey].
	ErrCut = errors.New("partition: boundary inside a key")
	// ErrNotNeighbours means that shards to merge do not touch in that order.
	ErrNotNeighbours = errors.New("partition: not neighbours")
	// ErrDifferent means that shards to merge differ in owner or pin: make them
	// alike first.
	ErrDifferent = errors.New("partition: shards differ")
	// ErrDraining means that the group takes no more shards: choose another.
	ErrDraining = errors.New("partition: group is draining")
	// ErrPinned means that the pin of a shard excludes the group.
	ErrPinned = errors.New("partition: pin excludes the group")
	// ErrUnplaceable means that no active group meets a constraint.
	ErrUnplaceable = errors.New("partition: no group for the pin")
	// ErrGroupID means that the id of a new group was used before.
	ErrGroupID = errors.New("partition: group id was used")
	// ErrInUse means that a group to remove has shards: drain it first.
	ErrInUse = errors.New("partition: group owns shards")
	// ErrNoChange means that everything is as the edit would have it.
	ErrNoChange = errors.New("partition: nothing to change")
	// ErrLabels means that labels or a constraint are not well formed.
	ErrLabels = errors.New("partition: bad labels")
	// ErrLimit means that the map would outgrow a bound.
	ErrLimit = errors.New("partition: map too large")
)

// StaleError names the shard that changed. It matches [ErrStale].
type StaleError struct {
	Shard ShardID
	// Have is when the shard last changed, Want what the edit expected.
	Have, Want Version
}

// Error returns what is and what was expected.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %v changed at version %d, expected %d: look at it again", ErrStale, e.Shard, e.Have, e.Want)
}

// Is makes it match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
