package partition

import (
	"errors"
	"fmt"
)

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
